package llamacpp

import (
	"bytes"
	le "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/slots"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// adapter writes a LoRA of the small llama model that changes nothing.
func adapter(t *testing.T) string {
	t.Helper()
	text := func(s string) string {
		return string(le.LittleEndian.AppendUint64(nil, uint64(len(s)))) + s
	}
	b := []byte("GGUF")
	b = le.LittleEndian.AppendUint32(b, 3)
	b = le.LittleEndian.AppendUint64(b, 2) // tensors
	b = le.LittleEndian.AppendUint64(b, 4) // keys
	for _, kv := range [][2]string{{"general.type", "adapter"}, {"general.architecture", "llama"}, {"adapter.type", "lora"}} {
		b = append(b, text(kv[0])+"\x08\x00\x00\x00"+text(kv[1])...)
	}
	b = append(b, text("adapter.lora.alpha")+"\x06\x00\x00\x00\x00\x00\x80\x3f"...)
	const width, rank = 64, 4
	for i, name := range []string{"a", "b"} {
		dims := [][2]uint64{{width, rank}, {rank, width}}[i]
		b = append(b, text("blk.0.attn_q.weight.lora_"+name)...)
		b = le.LittleEndian.AppendUint32(b, 2)
		b = le.LittleEndian.AppendUint64(b, dims[0])
		b = le.LittleEndian.AppendUint64(b, dims[1])
		b = le.LittleEndian.AppendUint32(b, 0) // f32
		b = le.LittleEndian.AppendUint64(b, uint64(i*4*width*rank))
	}
	b = append(b, bytes.Repeat([]byte{0}, 32-len(b)%32+2*4*width*rank)...)
	return write(t, "adapter.gguf", string(b))
}

// What the fingerprint cannot tell is not moved, and the reason says what to change.
func TestAttachedServersThatMoveNoStates(t *testing.T) {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, model(t, tinymodel.BPE))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"adapter":             {[]string{"--lora", adapter(t)}, "--lora"},
		"adapter not applied": {[]string{"--lora", adapter(t), "--lora-init-without-apply"}, "--lora"},
		"relative model path": {[]string{"--model", relative}, "absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			e := attach(t, Options{SlotDir: dir}, append(tt.args, "--ctx-size", "1024", "--slot-save-path", dir)...)
			d, err := e.Describe(t.Context())
			if err != nil || d.KVTransfer != nil || !strings.Contains(d.NoKVTransfer, tt.says) {
				t.Errorf("mover %+v, reason %q, %v; want one that says %q", d.KVTransfer, d.NoKVTransfer, err, tt.says)
			}
			r := ask(prose(1, 100), 4)
			r.Export = true
			p, err := e.Prefill(t.Context(), r)
			if err != nil || p.State != nil || p.Failure != jobs.FailNoState {
				t.Errorf("prefill %+v, %v; want no state", p, err)
			}
		})
	}
}

// A server that was started again with another file of the same name is not taken for the one before.
func TestAnotherModelUnderTheSameName(t *testing.T) {
	spec := tinymodel.Tiny(tinymodel.BPE)
	file := filepath.Join(t.TempDir(), "model.gguf")
	var port int
	var e *Engine
	start := func() *supervisor.Process {
		var p *supervisor.Process
		until(t, "the server answers", func() bool {
			if p == nil || ended(p) {
				var err error
				if p, err = supervisor.Start(binary(t), []string{"--model", file, "--port", fmt.Sprint(port), "--threads", "1", "--ctx-size", "512"}, "", environment(""), t.Output()); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Stop)
			}
			_, err := slots.Describe(t.Context(), slots.NewClient(nil), slots.Endpoint{URL: fmt.Sprintf("http://127.0.0.1:%d", port)})
			return err == nil && !ended(p)
		})
		return p
	}
	seen := map[string]bool{}
	for seed := range uint64(2) {
		spec.Seed = seed + 1
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := tinymodel.WriteFile(file, spec); err != nil {
			t.Fatal(err)
		}
		if e == nil {
			var err error
			if port, err = freePort(); err != nil {
				t.Fatal(err)
			}
			if e, err = New(Options{URL: fmt.Sprintf("http://127.0.0.1:%d", port)}); err != nil {
				t.Fatal(err)
			}
			defer e.Close()
		}
		p := start()
		if err := e.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := e.Describe(t.Context())
		if err != nil || d.ModelDigest == "" {
			t.Fatalf("%+v, %v", d, err)
		}
		seen[d.ModelDigest] = true
		p.Stop()
	}
	if len(seen) != 2 {
		t.Errorf("digests %v, want two", seen)
	}
}
