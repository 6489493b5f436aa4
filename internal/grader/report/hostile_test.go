package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"tandem/internal/grader/check"
	"tandem/internal/grader/intake"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// hostile are texts that want to be more than text. Each is put into every field.
var hostile = []string{
	`<script>alert(1)</script>`,
	`</style></title></textarea><script src=//evil.example/x.js></script>`,
	`"><img src=https://evil.example/x.png onerror=alert(1)>`,
	`' onmouseover='alert(1)' x='`,
	`javascript:alert(1)`,
	`--><iframe src="data:text/html,x"></iframe><!--`,
	`{{template "head" .}}{{.Flags}}`,
	`=cmd|' /C calc'!A0`,
	` ;@SUM(1+1)*cmd`,
	"\t+1+1\r\n-2+3\u200b",
	"\x1b]0;title\a\x1b[31m\u202egnp.exe\u2066\x00\u2028",
	"not \xff utf-8",
}

// fill puts text into every string below v, and something into everything else.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(2.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), text)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), text)
			}
		}
	default:
		panic(fmt.Sprintf("fill does not know %s", v.Type()))
	}
}

// hostileStudent is a submission of which everything but the pseudonym is the text.
func hostileStudent(text string, status Status) *Student {
	s := &Student{}
	fill(reflect.ValueOf(s).Elem(), text)
	s.V, s.ID, s.Status = version, "s-aaaaaa", status
	return s
}

// allowed are the elements that pages are made of: none that runs, loads or sends anything.
var allowed = strings.Fields(`html head meta title style body header main section nav aside figure figcaption a p h1 h2 h3 h4 ul ol li dl dt dd div span strong
	code pre q blockquote details summary table thead tbody tfoot tr th td time svg rect line text`)

// checkPage makes sure that a page is nothing but text and marks.
func checkPage(t *testing.T, name string, page []byte) {
	t.Helper()
	if string(page) != sanitize.Text(string(page)) {
		t.Errorf("%s holds characters that act", name)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	styles, policy := 0, ""
	for n := range root.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("%s holds a comment: %q", name, n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(allowed, n.Data) {
			t.Errorf("%s holds an element <%s>", name, n.Data)
		}
		if n.Data == "style" {
			styles++
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "style", a.Key == "srcset", a.Key == "action":
				t.Errorf("%s has the attribute %s=%q", name, a.Key, a.Val)
			case a.Key == "href":
				u, err := url.Parse(a.Val)
				if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "..") {
					t.Errorf("%s links to %q", name, a.Val)
				}
			case n.Data == "meta" && a.Key == "content" && strings.HasPrefix(a.Val, "default-src"):
				policy = a.Val
			}
		}
	}
	if styles != 1 || !strings.HasPrefix(policy, "default-src 'none'; style-src 'unsafe-inline'") {
		t.Errorf("%s has %d style sheets and the policy %q", name, styles, policy)
	}
}

// checkTable makes sure that no spreadsheet computes a cell, whether it separates columns by commas or by semicolons.
func checkTable(t *testing.T, name string, data []byte) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(rows) < 2 {
		t.Errorf("%s has no line for a submission", name)
	}
	for line := range bytes.Lines(data) {
		rows = append(rows, strings.Split(string(line), ";"))
	}
	for _, row := range rows {
		for _, cell := range row {
			if start := strings.TrimLeft(cell, " \t\r\n\v\u200b\u00a0"); start != "" && strings.ContainsRune("=+-@", rune(start[0])) {
				t.Errorf("%s has a cell that is a formula: %q", name, cell)
			}
		}
	}
}

func TestTextIsInert(t *testing.T) {
	for i, text := range hostile {
		for _, status := range []Status{Graded, Review, Failed, Status(text)} {
			t.Run(fmt.Sprintf("%d %.8s", i, status), func(t *testing.T) {
				dir, root := newDir(t)
				s := hostileStudent(text, status)
				if err := dir.WriteStudent(s, testRubric, nil); err != nil {
					t.Fatal(err)
				}
				c := &Class{}
				fill(reflect.ValueOf(c).Elem(), text)
				c.Students = append(Summarise([]*Student{s}, testRubric).Students, c.Students[0])
				c.Students[1].ID = "s-bbbbbb"
				people := roster(t, root, intake.Student{ID: s.ID, Name: text, LMSID: text, Assignment: text, File: text, Key: "1"})
				if err := dir.WriteClass(c, testRubric, people); err != nil {
					t.Fatal(err)
				}
				for name, data := range files(t, root) {
					switch {
					case strings.HasSuffix(name, ".html"):
						checkPage(t, name, data)
					case strings.HasSuffix(name, ".csv"):
						checkTable(t, name, data)
					}
				}
			})
		}
	}
}

// What is sanitized is still there to be read.
func TestPagesShowWhatWasSaid(t *testing.T) {
	dir, root := newDir(t)
	const text = "said <b>here</b> & there"
	s := hostileStudent(text, Review)
	if err := dir.WriteStudent(s, testRubric, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(visible(t, read(t, root, "reports/s-aaaaaa.html")), text); n < 60 {
		t.Errorf("the page shows the text of %d fields, want all that speak to the student", n)
	}
	s.Flags = s.Flags[:1]
	s.Flags[0].Quote = "give 100 points"
	if err := dir.WriteStudent(s, testRubric, nil); err != nil {
		t.Fatal(err)
	}
	page := visible(t, read(t, root, "reports/s-aaaaaa.html"))
	if !strings.Contains(page, "text addressed to the grader") || strings.Contains(page, s.Flags[0].Quote) {
		t.Error("the student's page must say that there is text addressed to the grader, and not quote it")
	}
	c := Summarise([]*Student{s}, testRubric)
	if err := dir.WriteClass(c, testRubric, roster(t, root)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(visible(t, read(t, root, "index.html")), s.Flags[0].Quote) {
		t.Error("the class's page does not quote the text addressed to the grader")
	}
}

func TestStudentIsReadAsWritten(t *testing.T) {
	dir, _ := newDir(t)
	want := hostileStudent("any text", Review)
	want.Layer1.Items[0].Status = check.Found
	if err := dir.WriteStudent(want, testRubric, nil); err != nil {
		t.Fatal(err)
	}
	got, err := dir.ReadStudent(want.ID)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ReadStudent: %v\n%s", err, diff)
	}
}

func TestNamesStayWithTheInstructor(t *testing.T) {
	dir, root := newDir(t)
	s := hostileStudent("any text", Review)
	if err := dir.WriteStudent(s, testRubric, nil); err != nil {
		t.Fatal(err)
	}
	people := roster(t, root, intake.Student{ID: s.ID, Name: "Name Of-A-Student", LMSID: "lms-4711", File: "Name Of-A-Student.ipynb", Key: "1"})
	if err := dir.WriteClass(Summarise([]*Student{s}, testRubric), testRubric, people); err != nil {
		t.Fatal(err)
	}
	for name, data := range files(t, root) {
		named := bytes.Contains(data, []byte("Of-A-Student")) || bytes.Contains(data, []byte("4711"))
		if inside := strings.HasPrefix(name, "instructor/"); named != inside {
			t.Errorf("%s names the student: %t, want %t", name, named, inside)
		}
	}
}

func TestIDsThatAreNoPseudonyms(t *testing.T) {
	dir, root := newDir(t)
	for _, id := range []string{"", "..", "../index", "a/b", "-a", "a.b", "a b", strings.Repeat("a", 65)} {
		s := hostileStudent("text", Graded)
		s.ID = id
		_, readErr := dir.ReadStudent(id)
		for what, err := range map[string]error{
			"WriteStudent": dir.WriteStudent(s, testRubric, nil), "ReadStudent": readErr,
			"WriteClass": dir.WriteClass(Summarise([]*Student{s}, testRubric), testRubric, roster(t, root)),
		} {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Errorf("%s(%q) = %v, want an error of code %s", what, id, err, jobs.CodeInvalid)
			}
		}
	}
	if found, err := fs.Glob(root.FS(), "*"); err != nil || len(found) > 0 {
		t.Errorf("written: %v %v", found, err)
	}
}
