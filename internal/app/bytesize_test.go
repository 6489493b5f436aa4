package app

import "testing"

func TestByteSize(t *testing.T) {
	for text, want := range map[string]struct {
		bytes ByteSize
		again string // empty: refused
	}{
		"32GB": {32e9, "32GB"}, "32 gb": {32e9, "32GB"}, "1.5TB": {15e11, "1500GB"}, "512MiB": {512 << 20, "512MiB"}, "7": {7, "7B"},
		"0": {0, "0B"}, "1e3B": {1000, "1kB"}, " 64KIB ": {64 << 10, "64KiB"}, "3MB": {3e6, "3MB"},
		"": {}, "GB": {}, "32XB": {}, "-1GB": {}, "32GB more": {}, "1e30GB": {}, "NaN": {}, "1,5GB": {}, "99999999TB": {},
	} {
		var b ByteSize
		err := b.UnmarshalText([]byte(text))
		if want.again == "" {
			if err == nil {
				t.Errorf("%q was read as %d", text, b)
			}
			continue
		}
		again, _ := b.MarshalText()
		if err != nil || b != want.bytes || string(again) != want.again {
			t.Errorf("%q was read as %d, %v, and written as %s; want %d and %s", text, b, err, again, want.bytes, want.again)
		}
	}
}

func FuzzByteSize(f *testing.F) {
	f.Add("32GB")
	f.Add("1.5 TiB")
	f.Fuzz(func(t *testing.T, text string) {
		var b, again ByteSize
		if b.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := b.MarshalText()
		if err != nil || again.UnmarshalText(written) != nil || b < 0 {
			t.Fatalf("%q is %d, written as %q (%v)", text, b, written, err)
		}
		if diff := again - b; diff > b>>50 || -diff > b>>50 {
			t.Fatalf("%q is %d and, written as %q, %d", text, b, written, again)
		}
	})
}
