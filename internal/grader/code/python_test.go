package code_test

import (
	"testing"

	"tandem/internal/grader/notebook"
)

func TestPython(t *testing.T) {
	for _, want := range []row{
		{what: "an equals sign", source: "x = 1; y=x", assigned: "x y", named: "x"},
		{what: "a chain", source: "x = y = 3", assigned: "x y"},
		{what: "unpacking", source: "a, b = f()\n(c, d), e = g\n[h, *i] = j\nk, = l", assigned: "a b c d e h i k", called: "f", named: "g j l"},
		{what: "an annotation", source: "x: int = 3\ny: dict[str, int] = {}\nz: int", assigned: "x y", named: "z int dict str"},
		{what: "augmented", source: "x += 1; y //= 2; z **= 3; w @= m", assigned: "x y z w", named: "m"},
		{what: "the walrus", source: "if (n := len(a)) > 3: m = n\nprint(k := 2)", assigned: "n m k", called: "len", named: "a", shown: "k"},
		{what: "loops", source: "for i, row in df.iterrows():\n    total = row\nfor (a, b), c in z: d = a", assigned: "i row total a b c d", called: "iterrows df.iterrows", named: "df z"},
		{what: "with", source: "with open(p) as f, g() as (a, b):\n    x = f\nwith (open(q) as h): y = 1", assigned: "f a b x h y", called: "open g", named: "p q"},
		{what: "except", source: "try: x = 1\nexcept (A, B) as e: y = 2\nelse: z = 3\nfinally:\n    w = 4", assigned: "x e y z w", named: "A B"},
		{what: "imports", source: "import pandas as pd, numpy\nimport os.path\nimport a.b as c\nfrom m import x, y as z\nfrom .n import (p,\n  q as r)\nfrom k import *", assigned: "pd numpy os c x z p r", named: "pandas path m y n q k"},
		{what: "def and class", source: "def f(a, b=2, *c, d: int = 3) -> int:\n    e = a\nclass C(Base):\n    g = 1\nasync def h(): pass", assigned: "f e C g h", named: "a b c d int Base", not: "def"},
		{what: "a decorator", source: "@app.route('/x')\n@cached\ndef f(): pass", assigned: "f", called: "route app.route", named: "app cached"},
		{what: "names in any script", source: "größe = 1; 变量 = 2", assigned: "größe 变量"},
		{what: "a line that goes on", source: "x = 1 + \\\n  2\ny = (1 +\n  z)", assigned: "x y", named: "z"},
		{what: "a match", source: "match x:\n    case 1:\n        y = 2", assigned: "y", named: "x"},

		{what: "a comparison", source: "x == 1; y <= 2; z >= 3; w != 4", named: "x y z w"},
		{what: "an argument's name", source: "f(x=1,\n  y = 2)", called: "f", named: "x y"},
		{what: "a lambda's default", source: "f = lambda x=3, *y: x", assigned: "f", named: "x y"},
		{what: "a comprehension", source: "s = [q for q in z if q]\nt = {k: v for k, v in d}", assigned: "s t", named: "q z k v d"},
		{what: "a key of a dictionary", source: `d = {"total": 1, k: 2}`, assigned: "d", strings: "total", named: "k", not: "total"},
		{what: "a comment", source: "# total = 1\n1 # total = 2", not: "total"},
		{what: "a string", source: `note = "total = 1; it's"; other = 'say "total = 1"'`, assigned: "note other", not: "total"},
		{what: "a docstring", source: "def f():\n    \"\"\"Return total.\n\n    total = 1\n    \"\"\"\n    x = 1", assigned: "f x", not: "total"},
		{what: "prefixes of strings", source: `a = r"\total = 1"; b = b'total'; c = Rb"""total = 1"""; d = u'total'`, assigned: "a b c d", not: "total"},
		{what: "an f-string", source: `s = f"{total:.2f} {df['region'].sum()!r:>{width}} {{literal}} {x != y}"`, assigned: "s", named: "total df width x y", called: "sum", strings: "region", not: "literal f"},
		{what: "an f-string within an f-string", source: `s = f"{f'{inner}'}"`, assigned: "s", named: "inner"},
		{what: "a string that is not closed", source: "x = 'open\ny = 2", assigned: "x y"},
		{what: "three quotes that are not closed", source: "x = 1\ns = '''open\ny = 2", assigned: "x s", not: "y"},
		{what: "an f-string that is not closed", source: "s = f'{total\ny = f\"{a[\"", assigned: "s y", named: "total a"},
		{what: "a bracket that is not closed", source: "print((x)\ny = 3\nz = (4)", assigned: "y z", named: "x", called: "print"},
		{what: "a bracket that is never opened", source: "x = 1)\n]\ny = 2", assigned: "x y"},
		{what: "a part of a variable", source: "df['a'] = 1\ndf.b = 2\ndf.loc[i, 'c'] = 3\ndf['d'] += 4\nf(x).g = 5\na[0], b = 6, 7", assigned: "b", strings: "a|c|d", named: "df loc i g x a"},
		{what: "a semicolon in a string", source: "x = 'a;b=1'", assigned: "x"},
		{what: "a call that begins on the next line", source: "f\n(x)", named: "f x", shown: "x"},

		{what: "calls by paths", source: "pd.merge(a, b, on='id')\nnp.random.default_rng(1).normal(size=3)", called: "merge pd.merge default_rng np.random.default_rng normal", named: "pd np random a b on size", strings: "id"},
		{what: "columns", source: "df.groupby('region').agg(revenue=('units', 'sum'))\ndf[['x', \"y\"]]; df.price", strings: "region|units|x|y", named: "revenue price df", called: "groupby agg sum"},
		{what: "columns in a query", source: `df.query("price > 3 and region == 'North'"); smf.ols("y ~ x", data=d)`, named: "price region y x data", called: "query ols", not: "and North"},
		{what: "functions that are handed over", source: "df.apply(np.sqrt); map(int, x); df.agg({'a': 'mean'}); df.pivot_table(aggfunc='max')", called: "sqrt np.sqrt int mean max agg"},
		{what: "a string that is no aggregate", source: "f('mean'); df.agg(region=('a', 'b'))", called: "f agg", named: "region", not: "mean a b"},
		{what: "words of the language", source: "if True and not None: pass", not: "True None pass and"},

		{what: "magics", source: "%matplotlib inline\n!pip install total\n?total\nfiles = !ls total\nx = 7 % 4\ny = (8\n  % x)", assigned: "files x y", not: "pip total matplotlib"},
		{what: "a magic that runs code", source: "%time df = load()", assigned: "df", called: "load"},
		{what: "a cell magic that runs code", source: "%%time\ndf = load()", assigned: "df", called: "load"},
		{what: "a cell of R that hands back", source: "%%R -i df -o total,rest -w 400\nx <- sum(df)", assigned: "total rest x", called: "sum", not: "i o w"},
		{what: "a line of R", source: "a = 1\n%R -o b b <- mean(x)\n%R y <- 2\nc = 3", assigned: "a b y c", called: "mean", not: "R o"},
		{what: "a cell of R", source: "%%R -i df\ntotal <- sum(x)", assigned: "total", called: "sum", not: "i df"},
		{what: "a cell of something else", source: "%%bash\ntotal=1", not: "total"},

		{what: "shown alone", source: "x = 1\ny\nx", assigned: "x", named: "y", shown: "x"},
		{what: "shown before a comment", source: "x\n\n# done\n", shown: "x"},
		{what: "kept from being shown", source: "x;"},
		{what: "shown by methods", source: "df.head(10).round(2)", shown: "df"},
		{what: "shown by functions", source: "print(a)\ndisplay(b.head(), c)\nprint('Total:', round(d, 2), sep=e)\nprint(f'{g:.1f} and {h.x}', str(i))", shown: "a b c d g i"},
		{what: "shown within a text", source: "print('Total: ' + str(a))\nprint('%d of %.1f' % (b, c))\nprint('{:.2f}'.format(d))\nprint('%s' % e)\nprint(f'{g:.2f}'.replace('.', ','))", shown: "a b c d e g"},
		{what: "a sum is not shown", source: "print(a + b)"},
		{what: "shown in another order and dress", source: "df.sort_values('x').reset_index(drop=True).style.format('{:.2f}')", shown: "df"},
		{what: "not shown", source: "a.head()\nb = c.head()\nd.describe()\ne['x']", assigned: "b"},
		{what: "help is not shown", source: "x?"},
		{what: "shown within a loop", source: "for i in z:\n    print(i)", assigned: "i", shown: "i"},

		{what: "nothing", source: ""},
		{what: "numbers", source: "x = 1e-3 + 0x1F - 1_000j - .5", assigned: "x", not: "e j x1F"},
		{what: "windows line ends", source: "x = 1\r\ny = 2\r\n", assigned: "x y"},
	} {
		t.Run(want.what, func(t *testing.T) { want.check(t, notebook.Python) })
	}
}
