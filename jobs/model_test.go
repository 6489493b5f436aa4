package jobs

import (
	"strings"
	"testing"
)

func TestCanonicalModel(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3-coder:30b":                                     "qwen3-coder:30b",
		"disaggregated:qwen3-coder:30b":                       "qwen3-coder:30b",
		"disaggregated:llama3":                                "llama3:latest",
		"llama3":                                              "llama3:latest",
		"library/llama3":                                      "llama3:latest",
		"registry.ollama.ai/library/llama3:8b":                "llama3:8b",
		"registry.ollama.ai/team/llama3":                      "team/llama3:latest",
		"hf.co/unsloth/Qwen3-GGUF:Q4_K_M":                     "hf.co/unsloth/Qwen3-GGUF:Q4_K_M",
		"localhost:5000/team/m":                               "localhost:5000/team/m:latest",
		"disaggregated:registry.ollama.ai/disaggregated:m:1b": "m:1b",
		"modèle": "modèle:latest",
	} {
		got, err := CanonicalModel(name)
		if err != nil || got != want {
			t.Errorf("CanonicalModel(%q) = %q, %v; want %q", name, got, err, want)
		}
		if again, err := CanonicalModel(got); err != nil || again != got {
			t.Errorf("CanonicalModel(%q) = %q, %v; want it unchanged", got, again, err)
		}
	}
}

func TestCanonicalModelRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"":                             "model is empty",
		"disaggregated:":               "model is empty",
		"registry.ollama.ai/library/":  "model is empty",
		"team/":                        "lacks a part",
		":30b":                         "lacks a part",
		"m:":                           "lacks a part",
		"a model":                      "white space",
		"model\n":                      "white space",
		"m\u202eodel":                  "cannot be printed",
		"m\xff":                        "cannot be printed",
		strings.Repeat("m", MaxName):   "207 bytes long", // with :latest
		strings.Repeat("é", MaxName/2): "607 bytes long",
	} {
		_, err := CanonicalModel(name)
		wantInvalid(t, err, want)
	}
}

func TestEncodeToken(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3-coder:30b":                 "qwen3-coder:30b",
		"hf.co/unsloth/Qwen3-GGUF:Q4_K_M": "hf~co+unsloth+Qwen3-GGUF:Q4_K_M",
		"":                                "",
		"~+=":                             "=7E=2B=3D",
		"a b*>\\":                         "a=20b=2A=3E=5C",
		"é\xff\x00":                       "=C3=A9=FF=00",
	} {
		if got := EncodeToken(name); got != want {
			t.Errorf("EncodeToken(%q) = %q, want %q", name, got, want)
		}
		if got, err := DecodeToken(want); err != nil || got != name {
			t.Errorf("DecodeToken(%q) = %q, %v; want %q", want, got, err, name)
		}
	}
}

func TestDecodeTokenRefuses(t *testing.T) {
	for _, token := range []string{"a.b", "a b", "*", ">", "é", "=", "=4", "=ff", "=zz", "=41", "=+1", "=_1", "/"} {
		if name, err := DecodeToken(token); err == nil {
			t.Errorf("DecodeToken(%q) = %q, want an error", token, name)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "qwen3-coder:30b", "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", "=41", "~+=", "\x00\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := EncodeToken(s)
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`.*>/\`, r) }) {
			t.Errorf("EncodeToken(%q) = %q, which is no subject token and folder name", s, token)
		}
		if back, err := DecodeToken(token); err != nil || back != s {
			t.Errorf("DecodeToken(%q) = %q, %v; want %q", token, back, err, s)
		}
		if name, err := DecodeToken(s); err == nil && EncodeToken(name) != s {
			t.Errorf("two tokens, %q and %q, stand for %q", s, EncodeToken(name), name)
		}
		if m, err := CanonicalModel(s); err == nil {
			if again, err := CanonicalModel(m); err != nil || again != m {
				t.Errorf("CanonicalModel(%q) = %q, but of that it is %q, %v", s, m, again, err)
			}
		}
	})
}
