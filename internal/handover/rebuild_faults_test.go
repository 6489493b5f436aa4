package handover

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Whatever the sender says of the rows, or sends in place of the rest, the whole state travels and is right.
func TestOddPrefixes(t *testing.T) {
	instead := func(of string, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/"+of) {
				answer(w)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	says := func(text string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return instead(wantPrefix, func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) })
	}
	changed := func(of string, change func([]byte) []byte) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			content := rec.Body.Bytes()
			if strings.HasSuffix(r.URL.Path, "/"+of) {
				content = change(content)
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(content)
		}
	}
	parts := func(change func(*prefix)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return changed(wantPrefix, func(b []byte) []byte {
			var p prefix
			if err := json.Unmarshal(b, &p); err != nil {
				t.Error(err)
			}
			change(&p)
			b, _ = json.Marshal(p)
			return b
		})
	}
	name := strings.Repeat("0", 64)
	for _, tt := range []struct {
		name  string
		fails bool
		spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
	}{
		{"no prefix", true, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(404) })},
		{"error", true, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(500) })},
		{"redirect", true, instead(wantPrefix, func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(302)
		})},
		{"not known yet", false, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(202) })},
		{"nothing", true, says("")},
		{"no JSON", true, says("rows")},
		{"endless", true, says(strings.Repeat("[", mostPrefix+1))},
		{"no rows", true, says(`{"name":"` + name + `"}`)},
		{"no name", true, parts(func(p *prefix) { p.Name = "" })},
		{"overlapping", true, parts(func(p *prefix) { p.Rows[1].Offset = p.Rows[0].Offset + p.Rows[0].Bytes - 1 })},
		{"backwards", true, parts(func(p *prefix) { p.Rows[0], p.Rows[1] = p.Rows[1], p.Rows[0] })},
		{"beyond the end", true, parts(func(p *prefix) { p.Rows[testLayers-1].Bytes += testOwn + 1 })},
		{"far beyond the end", true, parts(func(p *prefix) { p.Rows[testLayers-1].Bytes = 1<<63 - 1 })},
		{"before the beginning", true, parts(func(p *prefix) { p.Rows[0].Offset = -1 })},
		{"empty", true, parts(func(p *prefix) { p.Rows[0].Bytes = 0 })},
		{"all of it", true, parts(func(p *prefix) { p.Rows = []protocol.Span{{Bytes: testRows + testLayers*(testOwn+12) + 1006}} })},
		{"many", true, parts(func(p *prefix) { p.Rows = make([]protocol.Span, mostRows+1) })},
		{"one byte early", true, parts(func(p *prefix) { p.Rows[0].Offset-- })},
		{"one byte less", true, parts(func(p *prefix) { p.Rows[0].Bytes-- })},
		{"another name", false, parts(func(p *prefix) { p.Name = name })},
		{"no rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(404) })},
		{"not the rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(503) })},
		{"a range of the rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(206) })},
		{"rest cut", true, changed(wantRest, func(b []byte) []byte { return b[:len(b)-1] })},
		{"rest with more", true, changed(wantRest, func(b []byte) []byte { return append(b, 0) })},
		{"rest with another byte", true, changed(wantRest, flip(5000))},
		{"rest of another file", true, changed(wantRest, func(b []byte) []byte { return make([]byte, len(b)) })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHalves(t)
			state, content := offerLayered(t, h.server, "one", 1, 10)
			wantMoved(t, h.fetch(t, state, content), false, false)
			state, content = offerLayered(t, h.server, "two", 1, 20)
			spoilt := behind(t, h.server, state, tt.spoil)
			wantMoved(t, h.fetch(t, spoilt, content), false, tt.fails)
			if log := h.book.String(); strings.Contains(log, "WARN") != (tt.fails || tt.name == "another name") {
				t.Errorf("want a warning: %t; log: %s", tt.fails, log)
			}
			wantSecret(t, h.book.String(), spoilt)
		})
	}
}

// When neither what is put together nor the whole is right, nothing is used.
func TestNothingIsRight(t *testing.T) {
	h := newHalves(t)
	state, content := offerLayered(t, h.server, "one", 1, 10)
	h.fetch(t, state, content)
	state, _ = offerLayered(t, h.server, "two", 1, 20)
	spoilt := behind(t, h.server, state, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		if !strings.HasSuffix(r.URL.Path, "/"+wantPrefix) && !strings.HasSuffix(r.URL.Path, "/"+wantDigest) {
			b[len(b)-1] ^= 1
		}
		_, _ = w.Write(b)
	})
	_, err := h.client.Fetch(t.Context(), spoilt, h.dir, "x-", nil)
	wantFailure(t, err, jobs.FailDigest, spoilt, h.dir)
}
