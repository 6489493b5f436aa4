package ask

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
)

var (
	// tilde is ~name/, in quotes or a path: y ~a/b is a formula of R. loose is one that stands free.
	tilde = regexp.MustCompile("[\"'`/]~([A-Za-z][\\w.-]*)/")
	loose = regexp.MustCompile(`(?:^|\s)~([A-Za-z][\w.-]*)/`)
)

// sharedHomes belong to systems and images that many use: they say where a notebook ran, and not who ran it.
var sharedHomes = []string{
	"all users", "app", "azureuser", "codespace", "coder", "colab", "conda", "default", "default user", "docker", "ec2-user", "gitpod", "jovyan", "jupyter", "linuxbrew", "noteable", "public", "root",
	"rstudio", "runner", "runneradmin", "sagemaker-user", "sandbox", "shared", "staff", "student", "students", "ubuntu", "user", "users", "vscode",
}

// isHomes reports whether a path is where the folders of users lie, as systems, tracebacks, JSON and file:// write it, and whether their names may have spaces.
func isHomes(path string) (ok, spaces bool) {
	at := strings.LastIndexAny(path, `/\`)
	if at < 0 {
		return false, false
	}
	name, root := path[at+1:], strings.TrimRight(path[:at], `/\`)
	before, _ := utf8.DecodeLastRuneInString(path[:at])
	drive := len(root) > 1 && root[len(root)-1] == ':' && unicode.IsLetter(rune(root[len(root)-2]))
	windows := drive || path[at] == '\\'
	switch {
	case name == "home", strings.HasSuffix(root, "/home") && slices.Contains([]string{"staff", "students", "users"}, name):
		return path[at] == '/', false
	case name == "Users", windows && strings.EqualFold(name, "users"), drive && strings.EqualFold(name, "documents and settings"):
		return true, true
	}
	// a folder of data may be called users, too
	return name == "users" && (at == 0 || !unicode.In(before, unicode.L, unicode.N) && !strings.ContainsRune(`_.~)]}\/-`, before)), true
}

// account returns where the name of a user's folder ends that a text begins with. What begins with $, { or % stands for one. A name with spaces must have a slash behind it.
func account(text string, spaces bool) int {
	end, words := 0, 0 // of the first word
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		behind, _ := utf8.DecodeRuneInString(text[i+size:])
		switch {
		case i == 0 && strings.ContainsRune(" $%&=", r), r == ' ' && words == maxWords, r == ' ' && behind == ' ':
			return end
		case r == ' ' && spaces:
			if words++; words == 1 {
				end = i
			}
		case r == '\'' && i > 0 && unicode.IsLetter(behind): // O'Neil
		case (r == '/' || r == '\\') && words > 0 && text[i-1] != ' ':
			return i
		case unicode.IsSpace(r), strings.ContainsRune("/\\\"'`<>|:*?,;()[]{}$", r):
			if words == 0 {
				end = i
			}
			return end
		}
	}
	if words == 0 {
		end = len(text)
	}
	return end
}

// accounts are where names of users' folders stand in a text, in order.
func accounts(kind notebook.Kind, text string) [][2]int {
	var list [][2]int
	add := func(from, to int) {
		name := strings.TrimRight(text[from:to], ".!")
		if name != "" && !slices.Contains(sharedHomes, strings.ToLower(name)) {
			list = append(list, [2]int{from, from + len(name)})
		}
	}
	for at := 0; ; {
		slash := strings.IndexAny(text[at:], `/\`)
		if slash < 0 {
			break
		}
		slash += at
		for at = slash; at < len(text) && (text[at] == '/' || text[at] == '\\'); at++ {
		}
		if ok, spaces := isHomes(text[max(0, slash-maxRoot):slash]); ok {
			add(at, at+account(text[at:boundary(text, min(len(text), at+maxAccount))], spaces))
		}
	}
	if strings.Contains(text, "~") {
		for _, m := range tilde.FindAllStringSubmatchIndex(text, -1) {
			add(m[2], m[3])
		}
		if kind != notebook.Code {
			for _, m := range loose.FindAllStringSubmatchIndex(text, -1) {
				add(m[2], m[3])
			}
		}
	}
	slices.SortFunc(list, func(a, b [2]int) int { return a[0] - b[0] })
	return list
}

// logins are the names of users' folders that a notebook names. Paths on the web say nothing of its author.
func logins(nb *notebook.Notebook) []string {
	if nb == nil {
		return nil
	}
	var list []string
	look := func(kind notebook.Kind, text string) {
		for _, at := range accounts(kind, text) {
			begin := strings.LastIndexAny(text[max(0, at[0]-maxURL):at[0]], " \t\n\"'`<>(") + 1 + max(0, at[0]-maxURL)
			login := text[at[0]:at[1]]
			if scheme, _, ok := strings.Cut(text[begin:at[0]], "://"); (!ok || scheme == "file") && !slices.Contains(list, login) && len(list) < maxLogins {
				list = append(list, login)
			}
		}
	}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		look(c.Kind, c.Source)
		for _, o := range c.Outputs {
			look("", o.Text)
			look("", o.HTML)
		}
	}
	return list
}

const (
	maxRoot    = 40  // bytes before a name that say that it is one
	maxAccount = 200 // bytes of a name
	maxWords   = 4   // of a name
	maxLogins  = 10  // names of folders of one notebook that are looked for elsewhere in it
	maxURL     = 300 // bytes before a path in which an address on the web may begin
)
