package slots

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A text is cut into tokens once; what was asked long ago is forgotten, and a failure is asked for again.
func TestConstant(t *testing.T) {
	var asked []string
	fail := false
	c := NewClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Path)
		if fail {
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader(`{}`))}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"tokens":[1,2]}`))}, nil
	})})
	s, err := New(Config{Client: c}, Identity{Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(text string, want int) {
		t.Helper()
		if tokens, err := s.Tokens(t.Context(), text); err != nil || len(tokens) != 2 || len(asked) != want {
			t.Errorf("%d tokens, %v, after %d questions; want 2 after %d", len(tokens), err, len(asked), want)
		}
	}
	cut("a", 1)
	cut("a", 1)
	cut("b", 2)
	cut("a", 2)
	large := strings.Repeat("x", memoBytes/2)
	cut(large+"1", 3)
	cut("b", 3)
	cut(large+"2", 4) // which pushes out the first three
	cut("a", 5)
	cut(strings.Repeat(large, 3), 6)
	cut(strings.Repeat(large, 3), 7) // which has no room

	fail = true
	if _, err := s.Tokens(t.Context(), "c"); err == nil {
		t.Error("no error from a server that failed")
	}
	fail = false
	cut("c", 9)
}
