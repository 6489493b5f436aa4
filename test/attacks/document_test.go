package attacks

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	document = "../../docs/SECURITY.md"
	begins   = "<!-- What follows is written by the test: UPDATE=1 go test ./test/attacks -->\n"
	ends     = "<!-- Here it ends. -->\n"
)

// The table in the documents is the one that TestAttacks holds.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begins)
	have, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s lacks the lines between which the table stands:\n%s%s", document, begins, ends)
	}
	want := "\n" + markdown() + "\n"
	switch {
	case have == want:
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(document, []byte(before+begins+want+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is not that of the test; UPDATE=1 go test ./test/attacks writes it", document)
	}
}

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, x := range table {
		if names[x.name] || strings.Contains(x.name, "|") {
			t.Errorf("%q is there twice, or cannot stand in a table", x.name)
		}
		names[x.name] = true
		if x.want[byNobody] != denied {
			t.Errorf("%s: whoever has no key is %s; want denied", x.name, x.want[byNobody])
		}
	}
	if len(table) < 60 {
		t.Errorf("the table has %d attacks", len(table))
	}
	seen := 0
	for _, x := range table {
		if x.want[byAnybody].word == own.word {
			seen++
		}
	}
	if 2*seen < len(table) {
		t.Errorf("%d of %d attacks succeed where nobody has keys: the test could not see success", seen, len(table))
	}
}

// markdown is the table as it stands in the documents.
func markdown() string {
	var b strings.Builder
	b.WriteString("| attack |")
	for _, who := range identities {
		fmt.Fprintf(&b, " %s |", who.column)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", columns) + "\n")
	for _, x := range table {
		fmt.Fprintf(&b, "| %s |", strings.NewReplacer("*", `\*`, "<", `\<`, "$", `\$`, "_", `\_`).Replace(x.name))
		for _, v := range x.want {
			fmt.Fprintf(&b, " %s |", v)
		}
		b.WriteString("\n")
	}
	return b.String()
}
