package enginetest

import (
	"encoding/json"
	"testing"
)

// TestSatisfies makes sure that the check of schema output says no where it must.
func TestSatisfies(t *testing.T) {
	for text, want := range map[string]bool{
		`{"score": 7, "verdict": "good", "passed": true, "comments": ["well done"]}`:           true,
		`{"score": 100, "verdict": "weak", "passed": false, "comments": ["", "twelve runes"]}`: true,
		`{"score": 7, "verdict": "good", "passed": true}`:                                      false,
		`{"score": 7.5, "verdict": "good", "passed": true, "comments": ["x"]}`:                 false,
		`{"score": 101, "verdict": "good", "passed": true, "comments": ["x"]}`:                 false,
		`{"score": "7", "verdict": "good", "passed": true, "comments": ["x"]}`:                 false,
		`{"score": 7, "verdict": "fine", "passed": true, "comments": ["x"]}`:                   false,
		`{"score": 7, "verdict": "good", "passed": 1, "comments": ["x"]}`:                      false,
		`{"score": 7, "verdict": "good", "passed": true, "comments": []}`:                      false,
		`{"score": 7, "verdict": "good", "passed": true, "comments": ["a", "b", "c"]}`:         false,
		`{"score": 7, "verdict": "good", "passed": true, "comments": ["thirteen runes"]}`:      false,
		`{"score": 7, "verdict": "good", "passed": true, "comments": [1]}`:                     false,
		`{"score": 7, "verdict": "good", "passed": true, "comments": ["x"], "more": 1}`:        false,
		`[]`:   false,
		`null`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := satisfies(verdict, v); (err == nil) != want {
			t.Errorf("satisfies(%s) = %v, want ok %t", text, err, want)
		}
	}
}
