package protocol

import (
	"strings"
	"testing"
)

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"h:4222":                             "h:4222",
		"nats://h:4222":                      "nats://h:4222",
		"nats://a:1, nats://b:2,c:3":         "nats://a:1,nats://b:2,c:3",
		"nats://u:s3cret@h:1, nats://h:2":    "nats://u:xxxxx@h:1,nats://h:2",
		"nats://a:1,nats://u:s3cret@h:2":     "nats://a:1,nats://u:xxxxx@h:2",
		"nats://:s3cret@h":                   "nats://:xxxxx@h",
		"nats://s3cret@h":                    "nats://xxxxx@h",
		"nats://u:s3%63ret@h":                "nats://u:xxxxx@h",
		"nats://u:s3,cret@h":                 "nats://u:xxxxx@h",
		"nats://s3,cret:s3cret@h":            "nats://xxxxx@h",
		"nats://u:s3@cret@h":                 "nats://u:xxxxx@h",
		"u:s3cret@h:1":                       "xxxxx@h:1",
		"a:1,u:s3cret@h:1":                   "xxxxx@h:1",
		"http://u:s3cret@h/path":             "http://u:xxxxx@h/path",
		"http://h/path?key=s3cret":           "http://h/path?xxxxx",
		"nats://u:s3cret@[::1":               "nats://xxxxx@[::1",
		"nats://u:s3%zzcret@h":               "nats://xxxxx@h",
		"nats://u:1/s3cret@h":                "nats://xxxxx@h",
		"nats://s3/cret@h":                   "nats://xxxxx@h",
		"nats://u:s3 cret@h":                 "nats://xxxxx@h",
		"nats://u:#s3cret@h":                 "nats://xxxxx@h",
		"nats://u:s3cret-a://b@h":            "nats://xxxxx@h",
		"nats://u:s3cret":                    "nats://xxxxx",
		"nats://u:s3cret@a,nats://s3cret@b,": "nats://u:xxxxx@a,nats://xxxxx@b,",
	} {
		if got := RedactURL(in); got != want {
			t.Errorf("RedactURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRedactText(t *testing.T) {
	for in, want := range map[string]string{
		`open /etc/tandem@1.yaml: no such file`:        `open /etc/tandem@1.yaml: no such file`,
		`unexpected argument nats://u:s3cret@h`:        `unexpected argument nats://u:xxxxx@h`,
		`unexpected argument u:s3cret@h, did you mean`: `unexpected argument xxxxx@h, did you mean`,
		`got "nats://u:s3cret@h" (3)`:                  `got "nats://u:xxxxx@h" (3)`,
		`got http://h?key=s3cret, and no more`:         `got http://h?xxxxx and no more`,
		`got nats://u:one s3cret@h`:                    `got nats://xxxxx@h`,
	} {
		if got := RedactText(in); got != want {
			t.Errorf("RedactText(%q) = %q, want %q", in, got, want)
		}
	}
}

// What comes before the @ of a URL without commas never shows.
func FuzzRedactURL(f *testing.F) {
	for _, s := range []string{"pass", "a/b", "a b", "%zz", "a?b#c", "a@b", "a:b", "a://b", ":", "[", "é"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, password string, named bool) {
		secret := "s3cret" + password + "s3cret"
		list := "nats://" + secret + "@h:1"
		if named {
			list = "nats://user:" + secret + "@h:1"
		}
		if strings.Contains(password, ",") || !named && strings.Contains(password, ":") { // of several URLs, or with a user
			return
		}
		if got := RedactURL(list); strings.Contains(got, "s3cret") {
			t.Errorf("RedactURL(%q) = %q", list, got)
		}
	})
}
