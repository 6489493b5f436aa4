package program

import (
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"slot_dir": "/var/slots", "run_dir": "/var/run", "flags": ["--no-cache-idle-slots"], "shared": true}`))
	f.Add([]byte(`{"slot_dir": "slots"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseConfig(b)
		if err != nil {
			return
		}
		if !filepath.IsAbs(c.SlotDir) || !filepath.IsAbs(c.RunDir) {
			t.Fatalf("accepted %+v", c)
		}
		out, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseConfig(out); err != nil || !reflect.DeepEqual(again, c) && len(c.Flags) > 0 {
			t.Fatalf("%+v is read back as %+v, %v", c, again, err)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"pid": 12, "port": 45425, "host": "127.0.0.1", "model": "/m.gguf", "args": ["--model", "/m.gguf"], "slot_dir": "/s", "started": "2026-01-02T03:04:05Z", "ticks": 4711}`))
	f.Add([]byte(`{"pid": -1}`))
	f.Add([]byte(`{"pid": 1, "port": 80, "model": "m", "host": "::ffff:127.0.0.1"}`))
	f.Add([]byte(`{"pid": 1, "port": 80, "model": "m", "host": "198.51.100.7"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := parseRecord(b)
		if !ok {
			return
		}
		// A process id that is not positive would signal groups, or everybody.
		if r.PID < 1 || r.Port < 1 || r.Port > 65535 || r.Model == "" {
			t.Fatalf("accepted %+v", r)
		}
		if ip := net.ParseIP(strings.Split(r.Host, "%")[0]); r.Host != "localhost" && !ip.IsLoopback() {
			t.Fatalf("accepted a server at %q", r.Host)
		}
	})
}

func TestValue(t *testing.T) {
	args := strings.Fields("--port 1 --model a -m b --host")
	for name, want := range map[string]string{"--model": "a", "-m": "b", "--port": "1", "--host": "", "--other": ""} {
		if got, ok := value(args, name); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %t; want %q", name, got, ok, want)
		}
	}
}
