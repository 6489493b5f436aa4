package slots

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/internal/gguf"
	"tandem/internal/protocol"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

// words are the bytes of numbers as llama.cpp writes them: int is 32 bits wide, int64 64, and byte that
// many zeros.
func words(numbers ...any) []byte {
	var b []byte
	for _, n := range numbers {
		switch n := n.(type) {
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		case int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		case byte:
			b = append(b, make([]byte, n)...)
		case []byte:
			b = append(b, n...)
		}
	}
	return b
}

// head is the beginning of a state of that many tokens, with a list as servers that read images write it.
func head(tokens int) []byte {
	return words(stateMagic, newestVersion, tokens+4, -1, 1, tokens, make([]byte, 4*tokens), 0)
}

// cells are the records of cells, each with so many numbers between its first two and its last.
func cells(n, more int) []byte {
	var b []byte
	for i := range n {
		b = append(b, words(i, 1, make([]byte, 4*more), 0)...)
	}
	return b
}

// plain is a cache of two layers, three tokens and one stream, with 32 values in a row.
func plain(more int) []byte {
	row := words(1, int64(64), byte(3*64))
	return words(1, 3, cells(3, more), 0, 2, 0, 0, row, row, row, row)
}

func TestReadLayoutOfHandmadeFiles(t *testing.T) {
	row := func(kind, bytes int) []byte { return words(kind, int64(bytes), byte(3*bytes)) }
	base := words(head(3), plain(0))
	for name, tt := range map[string]struct {
		file []byte
		want Layout
	}{
		"plain":                 {base, Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		"a list of only tokens": {words(stateMagic, newestVersion, 3, 7, 8, 9, plain(0)), Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		"another slot's stream": {words(head(3), 4, 0, 0, plain(0)[4:], 0), Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 4}},
		"no flash attention": {words(head(3), 1, 3, cells(3, 0), 1, 1, 0, 0, row(1, 64), 1, 2, 32, byte(3*64)),
			Layout{CacheK: "f16", CacheV: "f16", Streams: 1}},
		"two types": {words(head(3), 1, 3, cells(3, 0), 0, 1, 64, 0, row(8, 34), row(30, 64)), Layout{CacheK: "q8_0", CacheV: "bf16", FlashAttention: true, Streams: 1}},
		"a type that is not known": {words(head(3), 1, 3, cells(3, 0), 0, 1, 0, 0, row(39, 17), row(39, 17)),
			Layout{CacheK: "type 39", CacheV: "type 39", FlashAttention: true, Streams: 1}},
		"positions of several dimensions": {words(head(3), plain(3)), Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		"keys only":                       {words(head(3), 1, 3, cells(3, 0), 0, 2, 0, 0, row(1, 64), row(1, 64)), Layout{CacheK: "f16", FlashAttention: true, Streams: 1}},
		"a window":                        {words(base, plain(0)), Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		"hybrid":                          {words(base, 1, 2, 0, 0, 4, 0, int64(12), byte(12), 0, int64(8), byte(8)), Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		"recurrent":                       {words(head(3), 1, 2, 0, 0, 1, 0, int64(12), byte(12), 0, int64(8), byte(8)), Layout{}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, err := readLayout(bytes.NewReader(tt.file), int64(len(tt.file)), 0)
			if err != nil {
				t.Fatal(err)
			}
			digest := l.Digest
			if l.Digest, tt.want.Format, tt.want.Tokens = "", "ggsq.4", 3; l != tt.want || len(digest) != 64 {
				t.Errorf("layout %+v with digest %q, want %+v", l, digest, tt.want)
			}
			// Checkpoints come and go.
			with := words(tt.file, checkpointMagic, 1, 2, int64(2), 0, 1, int64(5), byte(5), int64(0), int64(0), int64(1), 0, 0, int64(0), int64(1), byte(1), int64(0))
			if again, _, err := readLayout(bytes.NewReader(with), int64(len(with)), 0); err != nil || again.Digest != digest {
				t.Errorf("with checkpoints: %+v, %v", again, err)
			}
			for cut := range len(tt.file) {
				// What is left may be a whole file too, but of another layout.
				if l, _, err := readLayout(bytes.NewReader(tt.file), int64(cut), 0); err == nil && l.Digest == digest {
					t.Fatalf("cut to %d of %d bytes it is the same: %+v", cut, len(tt.file), l)
				}
			}
		})
	}
}

func TestReadLayoutSaysWhatIsNotUnderstood(t *testing.T) {
	base := words(head(3), plain(0))
	patched := func(at int, b ...byte) []byte {
		file := slices.Clone(base)
		copy(file[at:], b)
		return file
	}
	parts := len(head(3))
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"empty":             {nil, "ends in the middle"},
		"another file":      {[]byte("GGUF\x03\x00\x00\x00\x00\x00\x00\x00"), "magic 46554747, want 67677371"},
		"another version":   {patched(4, 5), "have states moved without their being read, if both machines write such (--handover-unread ggsq.5 on both)"},
		"an endless list":   {patched(8, 0xff, 0xff, 0xff, 0xff), "ends in the middle"},
		"a list that lies":  {patched(20, 9), "a list of 7 numbers for 9 tokens"},
		"many streams":      {patched(parts, 0xff, 0xff, 0xff), "a cache of 16777215 streams"},
		"no streams":        {patched(parts, 0), "a cache of 0 streams"},
		"many cells":        {patched(parts+4, 0xff, 0xff, 0xff, 0xff), "ends in the middle"},
		"no tokens":         {words(head(3), 1, 0), "a cache without tokens"},
		"several sequences": {words(head(3), 2, plain(0)[4:], plain(0)[4:]), "several sequences"},
		"many layers":       {patched(parts+8+36+4, 0xff, 0xff), "a cache of 65535 layers"},
		"an endless row":    {patched(parts+8+36+16+4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "ends in the middle"},
		"a negative row":    {patched(parts+8+36+16+4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "ends in the middle"},
		"half a state":      {words(base, 1, 2, 0, 0, 4, 0, int64(12), byte(12)), "a recurrent state of 1 rows"},
		"many parts":        {words(base, bytes.Repeat(plain(0), maxStateParts)), "more than 8 parts"},
		"nothing":           {head(3), "ends in the middle"},
		"only checkpoints":  {words(head(3), checkpointMagic, 1, 0), "no part of a cache"},
		"other checkpoints": {words(base, checkpointMagic, 2, 0), "version 2 of 0 checkpoints"},
		"many checkpoints":  {words(base, checkpointMagic, 1, 1<<20), "1048576 checkpoints"},
		"half a checkpoint": {words(base, checkpointMagic, 1, 1, int64(2)), "ends in the middle"},
		"more at the end":   {words(base, checkpointMagic, 1, 0, 0), "more than checkpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err := ReadLayout(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, error %v; want one that says %q", l, err, tt.want)
			}
		})
	}
	if _, err := ReadLayout(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// Of a format that an operator allows, no more is known than its name; all others are read as before.
func TestReadLayoutOfAllowedFormats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	file := words(head(3), plain(0))
	for version, want := range map[byte]Layout{5: {Format: "ggsq.5", Digest: protocol.Unread}, 6: {}, 4: {Format: "ggsq.4", Tokens: 3, CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}} {
		file[4] = version
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLayout(path, "ggsq.5")
		if len(l.Digest) == 64 {
			l.Digest = ""
		}
		if l != want || (err == nil) != (want != Layout{}) {
			t.Errorf("version %d: %+v, %v; want %+v", version, l, err, want)
		}
	}
}

// Older builds of llama.cpp wrote these (see save.mjs there); all but the format is what the build of today writes.
func TestReadLayoutOfOlderFiles(t *testing.T) {
	for _, shape := range tinymodel.Shapes() {
		now := start(t, setup{spec: tinymodel.TinyShape(shape, tinymodel.BPE)})
		f := now.export(t, now.prompt(t, 1, 6))
		want, err := ReadLayout(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"ggsq.2", "ggsq.3"} {
			want.Format = format
			if l, err := ReadLayout(filepath.Join("testdata", "states", string(shape)+"."+format)); err != nil || l != want {
				t.Errorf("%s: %+v, %v; want %+v", shape, l, err, want)
			}
		}
	}
}

// The structure of what the real server writes, for each shape and kind of cache, and whether the size is
// the one that the model's header promises.
func TestReadLayoutOfRealFiles(t *testing.T) {
	for _, shape := range tinymodel.Shapes() {
		spec := tinymodel.TinyShape(shape, tinymodel.BPE)
		header, err := gguf.Read(standintest.ModelFile(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		var digest string // of the shape
		for _, tt := range []struct {
			flags string
			slot  int
			want  Layout
		}{
			{"", 0, Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
			{"-np 4 --no-kv-unified --cache-type-k q8_0 --cache-type-v q4_0", 2, Layout{CacheK: "q8_0", CacheV: "q4_0", FlashAttention: true, Streams: 4}},
			{"-np 2 --kv-unified -fa off", 1, Layout{CacheK: "f16", CacheV: "f16", Streams: 1}},
			{"--swa-full", 0, Layout{CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 1}},
		} {
			t.Run(fmt.Sprint(shape, " ", tt.flags), func(t *testing.T) {
				dir := t.TempDir()
				url := standintest.StartLlamaServer(t, spec, append(strings.Fields(tt.flags), "--slot-save-path", dir)...)
				for _, n := range []int{2, 60, 700} {
					prompt := make([]int, n)
					for i := range prompt {
						prompt[i] = 300 + (7*i)%5000
					}
					ask(t, url+"/completion", map[string]any{"prompt": prompt, "n_predict": 0, "id_slot": tt.slot, "cache_prompt": false})
					ask(t, fmt.Sprintf("%s/slots/%d?action=save", url, tt.slot), map[string]any{"filename": "state"})
					path := filepath.Join(dir, "state")
					l, err := ReadLayout(path)
					if err != nil {
						t.Fatal(err)
					}
					if digest == "" {
						digest = l.Digest
					}
					tt.want.Format, tt.want.Tokens, tt.want.Digest = "ggsq.4", n, digest
					if l != tt.want {
						t.Errorf("%d tokens: layout %+v, want %+v", n, l, tt.want)
					}
					info, err := os.Stat(path)
					if err != nil {
						t.Fatal(err)
					}
					perToken, fixed := header.StateBytes(l.CacheK, l.CacheV)
					if least, most := perToken*int64(n), perToken*int64(n)+fixed; info.Size() < least || info.Size() > most {
						t.Errorf("%d tokens: %d bytes, want %d to %d", n, info.Size(), least, most)
					}
				}
			})
		}
	}
}

func ask(t *testing.T, url string, body map[string]any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", url, resp.Status, answer, err)
	}
}

// FuzzReadLayout checks that no file breaks the reader, that what it reads is the same again, and that the rows it finds are parts
// of the file, one behind the other.
func FuzzReadLayout(f *testing.F) {
	base := words(head(3), plain(0))
	f.Add(base, 2)
	f.Add(words(head(3), plain(3), plain(3)), 3)
	f.Add(words(head(3), 4, 0, 0, plain(0)[4:], 0), 1<<30)
	f.Add(words(base, 1, 2, 0, 0, 4, 0, int64(12), byte(12), 0, int64(8), byte(8), checkpointMagic, 1, 1, int64(2), 0, 1, int64(5), byte(5), int64(0), int64(0)), -1)
	f.Fuzz(func(t *testing.T, b []byte, positions int) {
		l, rows, err := readLayout(bytes.NewReader(b), int64(len(b)), positions)
		if err != nil {
			if rows != nil {
				t.Errorf("rows %v of a file that is not understood", rows)
			}
			return
		}
		if l.Tokens < 0 || l.Tokens > len(b) || l.Streams < 0 || l.Streams > maxStateStreams || len(l.Digest) != 64 {
			t.Errorf("layout %+v", l)
		}
		if again, _, err := readLayout(bytes.NewReader(b), int64(len(b)), 0); err != nil || again != l {
			t.Errorf("read again: %+v, %v; the first time %+v", again, err, l)
		}
		tokens := make([]int32, l.Tokens) // whose ids are 0
		if _, s, err := readForms(bytes.NewReader(b), int64(len(b)), func(s *stateReader) { s.content = &content{tokens: tokens} }); err == nil {
			for _, n := range s.content.numbers {
				if n.at < 0 || n.length < 0 || n.length > int64(len(b))-n.at {
					t.Errorf("numbers at %d, %d of %d bytes", n.at, n.length, len(b))
				}
			}
		}
		at := int64(0)
		for _, r := range rows {
			if r.Offset < at || r.Bytes <= 0 || r.Bytes > int64(len(b))-r.Offset || r.Bytes%int64(positions) != 0 {
				t.Fatalf("%d positions: rows %v in %d bytes", positions, rows, len(b))
			}
			at = r.Offset + r.Bytes
		}
	})
}
