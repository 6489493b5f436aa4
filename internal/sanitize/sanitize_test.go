package sanitize

import "testing"

func TestText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"windows\r\n", "windows\n"},
		{"\x1b[31mred\x1b]0;title\a", "␛[31mred␛]0;title␇"},
		{"over\rwritten", "over␍written"},
		{"nul\x00", "nul␀"},
		{"del\x7f", "del␡"},
		{"c1 \u009b31m", "c1 \ufffd31m"},
		{"bidi \u202eevil \u2066isolate \u200fmark", "bidi \ufffdevil \ufffdisolate \ufffdmark"},
		{"separators\u2028\u2029", "separators\ufffd\ufffd"},
		{"not \xff utf-8", "not \ufffd utf-8"},
		{"ünï 漢字 🙂", "ünï 漢字 🙂"},
	} {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
