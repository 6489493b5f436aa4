package submitter

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a script for a shell, made from the command line's own grammar.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to use the script.
func (completionCmd) Help() string {
	return "bash: source <(submitter completion bash)\n\nzsh: source <(submitter completion zsh)\n\nfish: submitter completion fish | source"
}

// Run prints the script.
func (c completionCmd) Run(s *session) error {
	script := map[string]func(*kong.Node) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(s.out, script(s.parser.Model.Node))
	return err
}

// place is where a user may be on the command line: behind which commands, and what may come next.
type place struct {
	path     string // commands so far, separated by spaces; "" at first
	commands []*kong.Node
	flags    []*kong.Flag
}

// places lists every node of the grammar, the root first.
func places(root *kong.Node) []place {
	var all []place
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		p := place{path: path}
		for _, flags := range n.AllFlags(true) {
			p.flags = append(p.flags, flags...)
		}
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				p.commands = append(p.commands, child)
			}
		}
		all = append(all, p)
		for _, child := range p.commands {
			walk(child, strings.TrimSpace(path+" "+child.Name))
		}
	}
	walk(root, "")
	return all
}

// words are all that may come next, flags with their dashes.
func (p place) words() []string {
	var words []string
	for _, c := range p.commands {
		words = append(words, c.Name)
	}
	for _, f := range p.flags {
		words = append(words, "--"+f.Name)
	}
	return words
}

// bashScript completes command and flag names, and file names where nothing else fits.
func bashScript(root *kong.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# completion for %[1]s\n_%[1]s() {\n\tlocal word path=\"\" i\n", name)
	b.WriteString("\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase \"${path:+$path }${COMP_WORDS[i]}\" in\n\t\t")
	var paths []string
	for _, p := range places(root) {
		if p.path != "" {
			paths = append(paths, "\""+p.path+"\"")
		}
	}
	b.WriteString(strings.Join(paths, " | ") + ") path=\"${path:+$path }${COMP_WORDS[i]}\" ;;\n\t\tesac\n\tdone\n")
	b.WriteString("\tcase \"$path\" in\n")
	for _, p := range places(root) {
		fmt.Fprintf(&b, "\t\"%s\") word=\"%s\" ;;\n", p.path, strings.Join(p.words(), " "))
	}
	fmt.Fprintf(&b, "\tesac\n\tCOMPREPLY=($(compgen -W \"$word\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _%[1]s %[1]s\n", name)
	return b.String()
}

// zshScript runs the same function in zsh's emulation of bash completion.
func zshScript(root *kong.Node) string {
	return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + bashScript(root)
}

// fishScript describes each command and flag with its help.
func fishScript(root *kong.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s\n", name)
	for _, p := range places(root) {
		when := "__fish_use_subcommand"
		if p.path != "" {
			when = "__fish_seen_subcommand_from " + strings.ReplaceAll(p.path, " ", "; and __fish_seen_subcommand_from ")
		}
		for _, c := range p.commands {
			fmt.Fprintf(&b, "complete -c %s -f -n %s -a %s -d %s\n", name, fishQuote(when), c.Name, fishQuote(c.Help))
		}
		for _, f := range p.flags {
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s -d %s", name, fishQuote(when), f.Name, fishQuote(f.Help))
			if !f.IsBool() {
				b.WriteString(" -r")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
