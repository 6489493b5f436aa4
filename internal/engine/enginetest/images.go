package enginetest

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/jobs"
)

// painted is a square of a colour, as a message has it.
func painted(t testing.TB, c color.Color) string {
	t.Helper()
	square := image.NewRGBA(image.Rect(0, 0, 56, 56))
	for i := range 56 * 56 {
		square.Set(i%56, i/56, c)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, square); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(file.Bytes())
}

// images: a model that sees is given them, and one that does not refuses them by name.
func (s *suite) images(t *testing.T) {
	seen := func(c color.Color) engine.Request {
		req := greedy("", 12)
		req.Messages = []jobs.Message{{Role: jobs.RoleUser, Content: "What is this?", Images: []string{painted(t, c)}}}
		return req
	}
	if about, err := s.Engine.Describe(patient(t)); err != nil {
		t.Fatal(err)
	} else if about.Capabilities != nil {
		_, err := s.Engine.Generate(patient(t), seen(color.White), discard)
		if CheckError(t, err); jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "image") {
			t.Errorf("a model that does not see: %v (%s), want %s that names images", err, jobs.CodeOf(err), jobs.CodeEngineRefused)
		}
	}
	if s.Seer == nil {
		return // Run has said why
	}
	if err := s.Seer.Load(patient(t)); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Seer.Describe(patient(t)); err != nil || d.Capabilities != nil && !slices.Contains(d.Capabilities, jobs.CanSee) {
		t.Errorf("capabilities are %q, want vision among them; %v", d.Capabilities, err)
	}
	blind := greedy("", 12)
	blind.Messages = []jobs.Message{{Role: jobs.RoleUser, Content: "What is this?"}}
	plain := s.complete(t, blind, s.Seer.Generate)
	red := s.complete(t, seen(color.RGBA{255, 0, 0, 255}), s.Seer.Generate)
	black := s.complete(t, seen(color.Black), s.Seer.Generate)
	if red.Text == black.Text || red.Text == plain.Text {
		t.Errorf("the text is %q of a red square, %q of a black one, and %q of none", red.Text, black.Text, plain.Text)
	}
	if red.PromptTokens < plain.PromptTokens+16 {
		t.Errorf("the prompt has %d tokens with an image, and %d without", red.PromptTokens, plain.PromptTokens)
	}
	p, err := s.Seer.Prefill(patient(t), seen(color.RGBA{255, 0, 0, 255}))
	if err != nil || p.PromptTokens != red.PromptTokens {
		t.Fatalf("Prefill of an image: %d tokens, want %d; %v", p.PromptTokens, red.PromptTokens, err)
	}
	var got emitted
	c, err := s.Seer.Decode(patient(t), seen(color.RGBA{255, 0, 0, 255}), p, got.emit)
	if err != nil {
		t.Fatal(err)
	}
	if got.check(t, c); c.Text != red.Text {
		t.Errorf("the text after Prefill is %q, want %q", c.Text, red.Text)
	}
}
