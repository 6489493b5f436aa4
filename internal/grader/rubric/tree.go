package rubric

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Limits of a file. A rubric of a real course has some hundred values.
const (
	maxFile   = 1_000_000 // bytes
	maxValues = 20_000    // values of any kind
	maxDepth  = 64        // objects and lists within one another
	maxShown  = 60        // characters of a value or a key in a message
)

// node is a value of the file. Unlike a map it keeps the order of keys and those that stand twice.
type node struct {
	parent *node
	key    string // its key or index in parent
	kind   byte   // '{', '[', '"', '0', 't' for true and false, 'n' for null
	text   string // what a string says, a number as it is written, true or false
	list   []*node
	at     int    // byte of the file where it begins
	raw    []byte // as it is written
}

// parse reads what json.Unmarshal has found to be JSON. The problems are what encoding/json lets pass.
func parse(data []byte) (*node, *problems) {
	p := parser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), bad: &problems{}}
	p.dec.UseNumber()
	n := p.value(nil, "", 0)
	return n, p.bad
}

type parser struct {
	data   []byte
	dec    *json.Decoder
	bad    *problems
	values int
}

// value reads the next value, nil if a limit is passed.
func (p *parser) value(parent *node, key string, depth int) *node {
	n := &node{parent: parent, key: key, at: int(p.dec.InputOffset())}
	n.at += len(p.data[n.at:]) - len(bytes.TrimLeft(p.data[n.at:], " \t\r\n,:"))
	if p.values++; p.values > maxValues {
		p.bad.add(n, "the file has more than %d values; a rubric needs fewer, so look whether this is the right file", maxValues)
		return nil
	}
	if depth > maxDepth {
		p.bad.add(n, "nested more than %d deep; write it flatter", maxDepth)
		return nil
	}
	token, err := p.dec.Token()
	if err != nil {
		p.bad.add(n, "%v", err)
		return nil
	}
	switch t := token.(type) {
	case json.Delim:
		if n.kind = byte(t); !p.fill(n, depth) {
			return nil
		}
	case string:
		n.kind, n.text = '"', t
	case json.Number:
		if n.kind, n.text = '0', t.String(); !sane(n.text) {
			n.raw = []byte(n.text)
			p.bad.add(n, "%s stands there; want a number of at most %d characters, with an exponent of at most %d; round it", n.show(), maxDigits, maxExponent)
		}
	case bool:
		n.kind, n.text = 't', strconv.FormatBool(t)
	default:
		n.kind = 'n'
	}
	n.raw = p.data[n.at:p.dec.InputOffset()]
	return n
}

// fill reads what an object or a list holds and its closing bracket.
func (p *parser) fill(n *node, depth int) bool {
	seen := map[string]bool{}
	for p.dec.More() {
		key := strconv.Itoa(len(n.list))
		if n.kind == '{' {
			token, err := p.dec.Token()
			if err != nil {
				p.bad.add(n, "%v", err)
				return false
			}
			key, _ = token.(string)
		}
		child := p.value(n, key, depth+1)
		if child == nil {
			return false
		}
		if seen[key] {
			p.bad.add(child, "this key stands twice in one object; remove or rename one of the two")
		}
		seen[key] = true
		n.list = append(n.list, child)
	}
	_, err := p.dec.Token()
	return err == nil
}

// get returns the value of a key, nil if n is no object or has none.
func (n *node) get(key string) *node {
	if n == nil || n.kind != '{' {
		return nil
	}
	return n.child(key)
}

// child returns the value at a key or index.
func (n *node) child(key string) *node {
	for _, c := range n.list {
		if c.key == key {
			return c
		}
	}
	return nil
}

// find follows the tokens of a JSON pointer as far as there is something.
func (n *node) find(tokens []string) *node {
	for _, t := range tokens {
		c := n.child(t)
		if c == nil {
			break
		}
		n = c
	}
	return n
}

// items are what a list or an object holds, none if there is no such value.
func (n *node) items() []*node {
	if n == nil {
		return nil
	}
	return n.list
}

// said is a string without the space around it, "" if there is none.
func (n *node) said() string {
	if n == nil {
		return ""
	}
	return strings.TrimSpace(n.text)
}

// plain is the value as package jsonschema wants it.
func (n *node) plain() any {
	switch n.kind {
	case '{':
		m := make(map[string]any, len(n.list))
		for _, c := range n.list {
			m[c.key] = c.plain()
		}
		return m
	case '[':
		l := make([]any, len(n.list))
		for i, c := range n.list {
			l[i] = c.plain()
		}
		return l
	case '"':
		return n.text
	case '0':
		return json.Number(n.text)
	case 't':
		return n.text == "true"
	}
	return nil
}

// pointer is the value's JSON pointer (RFC 6901).
func (n *node) pointer() string {
	return n.path(func(key string) string { return key })
}

// where is the pointer for a message: with long keys cut short.
func (n *node) where() string {
	if n.parent == nil {
		return "/"
	}
	return n.path(shorten)
}

func (n *node) path(show func(string) string) string {
	var tokens []string
	for ; n.parent != nil; n = n.parent {
		tokens = append(tokens, escape(show(n.key)))
	}
	var b strings.Builder
	for i := len(tokens) - 1; i >= 0; i-- {
		b.WriteString("/" + tokens[i])
	}
	return b.String()
}

// escape writes a key as a token of a JSON pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// show is the value for a message, as it is written.
func (n *node) show() string {
	return shorten(string(n.raw[:min(len(n.raw), 8*maxShown)]))
}

// shorten makes a text one printable line of at most maxShown characters.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}
	return s
}
