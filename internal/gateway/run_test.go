package gateway

import (
	"encoding/json"
	"reflect"
	"testing"

	"tandem/jobs"
)

// A job that begins again says what was sent once more: that is not sent twice, and if it says something else, the stream ends.
func TestPassed(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string // "!" begins again
		want   string
		same   bool
		whole  bool
	}{
		"nothing":                       {nil, "", true, true},
		"pieces":                        {[]string{"a", "bc", "d"}, "abcd", true, true},
		"again, in the same pieces":     {[]string{"a", "bc", "!", "a", "bc", "d"}, "abcd", true, true},
		"again, in other pieces":        {[]string{"ab", "c", "!", "a", "bcde", "f"}, "abcdef", true, true},
		"again twice":                   {[]string{"ab", "!", "a", "!", "abc"}, "abc", true, true},
		"again, and not as far":         {[]string{"abc", "!", "ab"}, "abc", true, false},
		"again, and something else":     {[]string{"abc", "!", "ax"}, "abc", false, false},
		"something else, further on":    {[]string{"ab", "!", "abx", "y"}, "abxy", true, true},
		"again before there was text":   {[]string{"!", "ab"}, "ab", true, true},
		"letters of more than one byte": {[]string{"ä€", "!", "ä", "€😀"}, "ä€😀", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var p passed
			got, same := "", true
			for _, piece := range tt.pieces {
				if piece == "!" {
					p.at = 0
					continue
				}
				news, ok := p.add(piece)
				got, same = got+news, same && ok
			}
			if got != tt.want || same != tt.same || same && p.whole() != tt.whole {
				t.Errorf("sent %q, the same: %t, whole: %t; want %q, %t, %t", got, same, p.whole(), tt.want, tt.same, tt.whole)
			}
		})
	}
}

// So it does with calls of functions.
func TestPassedCalls(t *testing.T) {
	call := func(name string) jobs.ToolCall { return jobs.ToolCall{Name: name, Arguments: json.RawMessage(`{}`)} }
	var p passed
	for i, tt := range []struct {
		again bool
		calls []jobs.ToolCall
		news  []jobs.ToolCall
		same  bool
	}{
		{false, []jobs.ToolCall{call("add")}, []jobs.ToolCall{call("add")}, true},
		{true, []jobs.ToolCall{call("add"), call("mean")}, []jobs.ToolCall{call("mean")}, true},
		{true, []jobs.ToolCall{call("add")}, nil, true},
		{true, []jobs.ToolCall{call("median")}, nil, false},
	} {
		if tt.again {
			p.at = 0
		}
		if news, same := p.addCalls(tt.calls); !reflect.DeepEqual(news, tt.news) || same != tt.same {
			t.Errorf("%d: sent %s, the same: %t; want %s, %t", i, news, same, tt.news, tt.same)
		}
	}
}
