package table

import (
	"strings"
	"testing"
)

func read(t *testing.T, text string) *Table {
	t.Helper()
	table, err := ReadCSV(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestPandas holds the text against what pandas 2 prints.
func TestPandas(t *testing.T) {
	table := read(t, "region,orders,revenue,average\nNorth,145,8018,55.29655172\nunknown,9,913.6,101.51111111\n")
	_, got := table.Pandas()
	want := `
    region  orders  revenue     average
0    North     145   8018.0   55.296552
1  unknown       9    913.6  101.511111`[1:]
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// TestR holds the texts against what IRkernel shows.
func TestR(t *testing.T) {
	table := read(t, "region,orders,revenue,average\nNorth,145,8018,55.29655172\nunknown,9,913.6,101.51111111\n")
	page, _, markdown, plain := table.R("tibble")
	if want := `
  region  orders revenue average  
1 North   145    8018.0   55.29655
2 unknown   9     913.6  101.51111`[1:]; plain != want {
		t.Errorf("printed\n%s\nwant\n%s", plain, want)
	}
	for _, want := range []string{
		"<caption>A tibble: 2 × 4</caption>",
		"\t<tr><th scope=col>&lt;chr&gt;</th><th scope=col>&lt;int&gt;</th><th scope=col>&lt;dbl&gt;</th><th scope=col>&lt;dbl&gt;</th></tr>",
		"\t<tr><td>unknown</td><td>  9</td><td> 913.6</td><td>101.51111</td></tr>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("HTML has no %q:\n%s", want, page)
		}
	}
	if want := "| North | 145 | 8018.0 |  55.29655 |"; !strings.Contains(markdown, want) {
		t.Errorf("Markdown has no %q:\n%s", want, markdown)
	}
	if page, _, _, _ := table.R("data.frame"); !strings.Contains(page, "<tr><th scope=row>2</th><td>unknown</td>") {
		t.Errorf("HTML of a data frame does not number its rows:\n%s", page)
	}
}

func TestJoinAndGroup(t *testing.T) {
	orders := read(t, "id,customer,value\n1,a,10\n2,b,2.5\n3,x,4\n4,a,1\n")
	customers := read(t, "customer,region\na,North\nb,South\n")
	joined := orders.LeftJoin(customers, "customer")
	if len(joined.Rows) != 4 || joined.Rows[2][3] != nil {
		t.Errorf("joined rows are %v, want 4, the third without a region", joined.Rows)
	}
	known := joined.Where(func(r Row) bool { return !r.Missing("region") })
	summary := known.Group("region", Count("n"), Sum("value", "value"), Mean("mean", "value")).Ascending("value")
	if got, want := summary.grid(summary.rCells(), 1, false), `
  region n value mean
1 South  1  2.5  2.5 
2 North  2 11.0  5.5 `[1:]; got != want {
		t.Errorf("summary is\n%s\nwant\n%s", got, want)
	}
}

func TestReadCSVNeedsCells(t *testing.T) {
	for _, text := range []string{"", "a,b\n", "a,b\n1\n"} {
		if table, err := ReadCSV(strings.NewReader(text)); err == nil {
			t.Errorf("ReadCSV(%q) = %v, want an error", text, table)
		}
	}
}

func TestRNumber(t *testing.T) {
	for x, want := range map[float64]string{25540.35: "25540.35", 61.54301204819278: "61.54301", 0.1: "0.1", 420: "420", 12345678.9: "12345679"} {
		if got := RNumber(x); got != want {
			t.Errorf("RNumber(%v) = %s, want %s", x, got, want)
		}
	}
}
