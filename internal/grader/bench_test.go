package grader

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkClass grades 60 notebooks of 770 kB, most of it pictures, with models that answer at once. heap-MB is the most that was in use of the heap when an event was told.
func BenchmarkClass(b *testing.B) {
	source := rand.NewChaCha8([32]byte{1})
	picture := make([]byte, 540<<10)
	for b.Loop() {
		b.StopTimer()
		class := newBench(b, 0)
		for n := range 60 {
			_, _ = source.Read(picture) // never fails
			class.write(studentFile(n+1), drawn(b, n, base64.StdEncoding.EncodeToString(picture)))
		}
		b.StartTimer()
		var most uint64
		look := func(Event) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
		g := class.open()
		look(Event{})
		if _, err := g.Run(b.Context(), class.models, look); err != nil {
			b.Fatal(err)
		}
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(most)/(1<<20), "heap-MB")
	}
}

// drawn is a good notebook with a chart and some 80 kB of remarks.
func drawn(b *testing.B, n int, picture string) []byte {
	data := notebookFile(b, "python", append(solved(),
		cell{source: "prices.plot()", shown: "PICTURE", count: 3},
		cell{markdown: true, source: strings.Repeat(fmt.Sprintf("Remark of number %d on the prices. ", n), 2200)})...)
	image, err := json.Marshal(map[string]string{"image/png": picture})
	if err != nil {
		b.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`{"text/plain":"PICTURE"}`), image, 1)
	if len(data) < 770_000 {
		b.Fatalf("the notebook has only %d bytes", len(data))
	}
	return data
}
