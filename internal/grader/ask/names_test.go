package ask

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// classMasks are those of a class whose rubric says nothing.
func classMasks() *Masks {
	return NewMasks(Assignment{Rubric: &rubric.Rubric{Raw: []byte("unit_price orders region Garden")}})
}

// TestMaskForms: what is a name, and what is code or a word although a student is called so.
func TestMaskForms(t *testing.T) {
	masks := classMasks()
	for _, tt := range []struct{ names, in, want string }{
		{"Jane Doe", "doejane doejane_hw3.ipynb hw3_JaneDoe2.csv janeDoe_df jane-doe j.doe jdoe doej J. Doe; Doe, J", "[student] [student]_hw3.ipynb hw3_[student]2.csv [student]_df [student] [student] [student] [student] [student]; [student]"},
		{"doejane", "Jane Doe; Doe, Jane; doejane; jane_doe; JaneDoe; jdoe; J. Doe", "[student]; [student]; [student]; [student]; [student]; [student]; [student]"},
		{"annlee", "Ann Lee; Lee, Ann; AnnLee; lee, ann", "[student]; [student]; [student]; lee, ann"},
		{"Jane Doe", "jane, does it? plot(j, doe); janedoes; xjanedoe", "jane, does it? plot(j, doe); janedoes; xjanedoe"},
		{"Ann Lee", "Joann Lee Ann; Doe Ann Lee Ann", "Joann [student]; Doe [student]"}, // one that is none does not hide the next
		{"Jane Doe", "Doe Jane Doe; Jane Doe Jane", "[student]; [student] [student]"},
		{"JaneDoe", "Jane says; Doe, Jane", "[student] says; [student]"},
		{"Anna Lindholm", "Annas Notebook, Lindholms-Mac, ANNA, anna", "[student] Notebook, [student]-Mac, [student], anna"},
		{"Jane Marie Doe", "Doe, Jane M; J. M. Doe; JMDoe; jane doe; Marie Doe; jm_doe", "[student]; [student]; [student]; [student]; [student]; [student]"},
		{"An van der Berghe", "vanderberghe; Berghe, An van der; van der Berghe; avanderberghe; der die das", "[student]; [student]; [student]; [student]; der die das"},
		{"Omar al-Farsi", "alfarsi; Al-Farsi Omar; o.alfarsi", "[student]; [student]; [student]"},
		{"Jürgen Müßig", "Juergen Muessig, Jurgen Mussig, muessig_juergen, M\\u00fc\\u00dfig, MÜSSIG", "[student], [student], [student], [student], [student]"},
		{"Juergen Mueller", "Jürgen Müller", "[student]"},
		{"Tina O'Brixton", "obrixton_tina; O’Brixton; Tina O'Brixton", "[student]; [student]; [student]"},
		{"王小明", "我是王小明。小明 王 王_小明 小明", "我是[student]。[student] [student] 小明"},
		{"김민준", "김민준입니다 \u1100\u1175\u11b7\u1106\u1175\u11ab\u110c\u116e\u11ab", "[student]입니다 [student]"},
		{"Jane Doe", "'\\njane doe\\tjane_doe', Ja\u200bne Doe, Jane%20Doe", "'\\n[student]\\t[student]', [student], [student]"},
		{"Jane Doe", "values: Jan…", "values: Jan…"},
		{"Marianne Doe", "values: x, Maria…", "values: x, [student]…"},

		// words that are code, or prose
		{"Max Mean", "max(x); mean(df$x); agg([min, max, mean]); max_mean; Mean; Max Mean, Mean, Max", "max(x); mean(df$x); agg([min, max, mean]); max_mean; Mean; [student], [student]"},
		{"Rose Li", "rose <- 1; li = [rose]; li.append(x); Rose Li; roseli", "rose <- 1; li = [rose]; li.append(x); [student]; [student]"},
		{"Xenia Max", "aes(xmax = 3); f(x, max(y)); x.max", "aes(xmax = 3); f(x, max(y)); x.max"},
		{"Wei Li", "weil es so ist; for li in x: wei", "weil es so ist; for li in x: wei"},
		{"Paul Lott", "plot(x); p, lott", "plot(x); p, lott"},
		{"Dan Price", "f(d, price); Price * 2; unit_price", "f(d, price); Price * 2; unit_price"},
		{"mean", "mean(x)", "mean(x)"},
		{"Na Me", "name, na.me; Na Me", "name, na.me; [student]"},
		{"dataset", "set data; data set; dataset", "set data; data set; dataset"},
		{"Jane_Doe_final_project", "Final Project of Jane Doe", "Final Project of [student]"},
	} {
		if got := masks.Of(nil, []string{tt.names})(tt.in); got != tt.want {
			t.Errorf("%s: %q becomes\n%q, want\n%q", tt.names, tt.in, got, tt.want)
		}
	}
}

// TestMaskHomes: whose folder it is is masked, whoever that is.
func TestMaskHomes(t *testing.T) {
	masks := classMasks()
	for _, tt := range []struct {
		kind     notebook.Kind
		in, want string
	}{
		{"", "/Users/zq/x /home/q7/y.py file:///Users/q%20r/z /export/home/q", "/Users/[student]/x /home/[student]/y.py file:///Users/[student]/z /export/home/[student]"},
		{"", `C:\Users\Q R\x "c:\\users\\q\\y" C:\\\\Users\\\\q D:/Users/q/z \\host\Users\q\x C:\Documents and Settings\Q\x`, `C:\Users\[student]\x "c:\\users\\[student]\\y" C:\\\\Users\\\\[student] D:/Users/[student]/z \\host\Users\[student]\x C:\Documents and Settings\[student]\x`},
		{"", `file:///C:/Users/Zoe%20O'B/x /mnt/c/Users/q and /home/students/q/x`, `file:///C:/Users/[student]/x /mnt/c/Users/[student] and /home/students/[student]/x`},
		{"", `File "/home/q/a.py", line 1; ('/home/q','/users/w'); in /home/q.`, `File "/home/[student]/a.py", line 1; ('/home/[student]','/users/[student]'); in /home/[student].`},
		{"", "~q/x and http://host.example/~q/x", "~[student]/x and http://host.example/~[student]/x"},
		{"", "/Users/Shared/x /home/jovyan/y /home/runner/z C:\\Users\\Public /home/conda/feedstock_root", "/Users/Shared/x /home/jovyan/y /home/runner/z C:\\Users\\Public /home/conda/feedstock_root"},
		{"", "/home/$USER/x /home/{name}/x C:\\Users\\%USERNAME% ~/x data/users/2024.csv /home /home/", "/home/$USER/x /home/{name}/x C:\\Users\\%USERNAME% ~/x data/users/2024.csv /home /home/"},
		{notebook.Code, "lm(y ~block/plot); x = '~q/data'", "lm(y ~block/plot); x = '~[student]/data'"},
	} {
		m := masks.of(nil, nil)
		got := m.mask(tt.kind, tt.in)
		if got != tt.want {
			t.Errorf("%q becomes\n%q, want\n%q", tt.in, got, tt.want)
		}
		if again := m.mask(tt.kind, got); again != got {
			t.Errorf("%q, masked again, becomes %q", got, again)
		}
	}
}

// TestMaskLogins: the name of a home folder is masked in the rest of the notebook, unless all may have it.
func TestMaskLogins(t *testing.T) {
	for _, tt := range []struct{ path, in, want string }{
		{"/home/qsmithers/x", "qsmithers; Smithers, Q; jovyan", "[student]; [student]; jovyan"},
		{`C:\\Users\\Jane Doe\\x`, "jdoe, Doe", "[student], Doe"},
		{"/home/rose/x", "rose <- 1; Rose", "rose <- 1; [student]"},
		{"/home/orders/x /home/project/y /home/jovyan/z", "orders, project, jovyan", "orders, project, jovyan"},
		{"https://data.example/home/figures/x", "figures", "figures"},
		{"file:///home/figures/x", "figures", "[student]"},
	} {
		nb := &notebook.Notebook{Cells: []notebook.Cell{{Kind: notebook.Markdown, Source: "see " + tt.path}}}
		if got := classMasks().Of(nb, nil)(tt.in); got != tt.want {
			t.Errorf("beside %s, %q becomes %q, want %q", tt.path, tt.in, got, tt.want)
		}
	}
}

// FuzzMask: what is masked is valid text, and a name that stands free is masked whatever stands beside it.
func FuzzMask(f *testing.F) {
	for _, text := range []string{"Doe, Jane /home/x", "xjane doe jane", "C:\\Users\\q r\\x", "J\u0308ane\u200b Do\u00e9 …", "\\u00fcjdoe", "~a/b", "Jane%20", "'Jane'Doe", "/home/é\xff", "C:/Users/ x " + strings.Repeat("ü", 200)} {
		f.Add(text)
	}
	m := classMasks().of(nil, []string{"Jane Doe", "müllerinjo", "王小明", "4829137"})
	f.Fuzz(func(t *testing.T, text string) {
		if got := m.mask("", text); utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		if free := m.mask("", text+" jane_doe "+text); strings.Contains(free, " jane_doe ") {
			t.Errorf("beside %q the name stays: %q", text, free)
		}
	})
}

// TestMaskIsLinear: texts that nearly are names, or nothing but paths, cost no more than others.
func TestMaskIsLinear(t *testing.T) {
	m := classMasks().of(nil, []string{"a-a a a a a a a a a b", strings.Repeat("ab", 30), "Jane Doe"})
	for _, unit := range []string{"a", "a ", "ab", "/", "/home/", "\\", "~", "C:\\Users\\a ", "jane. ", "…", "é", "\u0301", "@", "\\u00fc"} {
		begin := time.Now()
		m.mask("", strings.Repeat(unit, 200_000/len(unit)))
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("200 kB of %q take %v", unit, took)
		}
	}
}

// BenchmarkMask masks 60 notebooks of 100 kB, each with a student's names, paths included.
func BenchmarkMask(b *testing.B) {
	masks := classMasks()
	for name, line := range map[string]string{
		"latin":    "The remark on prices and orders is that total_revenue <- sum(x$price * qty) # see C:/Users/x or mail.\n",
		"cyrillic": "Выручка по регионам растёт, см. таблицу ниже\n",
		"chinese":  "各地区的收入在第四季度有所增长，见下表。总收入\n",
		"korean":   "지역별 매출은 4분기에 증가했습니다 아래 표 참조\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, 100_000/len(line))
			for b.Loop() {
				for n := range 60 {
					masks.of(nil, []string{fmt.Sprintf("Jane%c Maria van Doelinger", 'a'+n%26), "4829137"}).mask(notebook.Code, text)
				}
			}
		})
	}
}
