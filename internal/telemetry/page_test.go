package telemetry_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"tandem/internal/telemetry"
)

const (
	page   = "../../docs/METRICS.md"
	begins = "<!-- What follows is written by the test: UPDATE=1 go test ./internal/telemetry -->\n"
	ends   = "<!-- Here it ends. -->\n"
)

// The page has all metrics of the table, and no other.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begins)
	have, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s lacks the lines between which the table stands:\n%s%s", page, begins, ends)
	}
	want := "\n" + markdown() + "\n"
	switch {
	case have == want:
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(page, []byte(before+begins+want+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is not that of the code; UPDATE=1 go test ./internal/telemetry writes it", page)
	}
}

func markdown() string {
	var b strings.Builder
	b.WriteString("| metric | type | of | what it is | labels |\n|---|---|---|---|---|\n")
	buckets := map[string][]string{}
	var order []string
	for _, m := range telemetry.Metrics() {
		var at, labels []string
		for _, s := range m.At {
			at = append(at, string(s))
		}
		for _, l := range m.Labels {
			values := l.Of
			if values == "" {
				values = strings.Join(l.Values, ", ")
			}
			labels = append(labels, fmt.Sprintf("`%s`: %s", l.Name, values))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(at, ", "), m.Help, strings.Join(labels, "; "))
		if m.Buckets != nil {
			var list []string
			for _, bound := range m.Buckets {
				list = append(list, strconv.FormatFloat(bound, 'f', -1, 64))
			}
			bounds := strings.Join(list, ", ")
			if buckets[bounds] == nil {
				order = append(order, bounds)
			}
			buckets[bounds] = append(buckets[bounds], "`"+m.Name+"`")
		}
	}
	b.WriteString("\n| buckets | of |\n|---|---|\n")
	for _, bounds := range order {
		fmt.Fprintf(&b, "| %s | %s |\n", bounds, strings.Join(buckets[bounds], ", "))
	}
	return b.String()
}
