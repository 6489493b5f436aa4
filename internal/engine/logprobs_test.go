package engine

import (
	"slices"
	"testing"
)

// A token that is a part of a character keeps its bytes: Ollama writes another character in its place, llama-server none.
func TestLogprobsKeepBytes(t *testing.T) {
	var l Logprobs
	l.Add([]TokenLogprob{
		{Token: "ä", Bytes: []int{195, 164}},
		{Token: "\ufffd", Bytes: []int{240, 159}},
		{Token: "", Bytes: []int{152, 128}, Top: []TokenLogprob{{Token: "", Bytes: []int{152}}, {Token: "x"}}},
		{Token: "a"},
	}, 1)
	want := [][]int{nil, {240, 159}, {152, 128}, nil}
	for i, one := range l.All() {
		if !slices.Equal(one.Bytes, want[i]) {
			t.Errorf("%q: bytes %v, want %v", one.Token, one.Bytes, want[i])
		}
	}
	if top := l.All()[2].Top; len(top) != 1 || !slices.Equal(top[0].Bytes, []int{152}) {
		t.Errorf("the others are %+v, want one, with its bytes", top)
	}
	if n := len(l.News()); n != 4 || len(l.News()) != 0 {
		t.Errorf("%d are news at first, and then %d; want 4 and none", n, len(l.News()))
	}
}
