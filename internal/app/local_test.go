package app

import "testing"

func TestLocalOllamaURL(t *testing.T) {
	for host, want := range map[string]string{
		"":                         "http://127.0.0.1:11434",
		"127.0.0.1":                "http://127.0.0.1:11434",
		"127.0.0.1:12000":          "http://127.0.0.1:12000",
		"0.0.0.0":                  "http://127.0.0.1:11434",
		"0.0.0.0:12000":            "http://127.0.0.1:12000",
		":12000":                   "http://127.0.0.1:12000",
		"[::]:12000":               "http://127.0.0.1:12000",
		"[::1]":                    "http://[::1]:11434",
		"http://127.0.0.1:12000/":  "http://127.0.0.1:12000",
		`"https://ollama.example"`: "https://ollama.example:443",
	} {
		if got := LocalOllamaURL(func(string) string { return host }); got != want {
			t.Errorf("OLLAMA_HOST %q: %s, want %s", host, got, want)
		}
	}
}
