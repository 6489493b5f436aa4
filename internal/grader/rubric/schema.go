package rubric

import (
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:generate cp rubric.schema.json ../../../docs/schemas/rubric.schema.json

// schemaFile is the form of a rubric. A description in it is written so that it can stand after "want" in an error.
//
//go:embed rubric.schema.json
var schemaFile []byte

// schema is the form of a rubric, as a tree and compiled from it.
type schema struct {
	tree     *node
	compiled *jsonschema.Schema
}

func loadSchema() (*schema, error) {
	tree, bad := parse(schemaFile)
	if err := bad.err(); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rubric.schema.json", tree.plain()); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("rubric.schema.json")
	return &schema{tree, compiled}, err
}

// check compares a file with the schema. Each place that is wrong becomes one problem.
func (s *schema) check(root *node, unknown []unknownKey) *problems {
	bad := &problems{}
	err := s.compiled.Validate(root.plain())
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		s.explain(failed, root, unknown, bad)
	} else if err != nil {
		bad.add(root, "%v", err)
	}
	return bad
}

// explain goes to the leaves of an error.
func (s *schema) explain(e *jsonschema.ValidationError, root *node, unknown []unknownKey, bad *problems) {
	n := root.find(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.PropertyNames:
		bad.add(n, "%q is a key there; want %s", shorten(k.Property), s.tree.find([]string{"$defs", "key"}).get("description").said())
		return
	case *kind.Required:
		for _, key := range k.Missing {
			remedy := "add it"
			for _, u := range unknown {
				if u.node.parent == n && u.meant == key {
					remedy = "rename " + u.node.where()
				}
			}
			bad.addMissing(n, key, "nothing stands there; want %s; %s", s.want(s.at(e).get("properties").get(key)), remedy)
		}
		return
	}
	if len(e.Causes) == 0 {
		bad.add(n, "%s stands there; want %s", n.show(), s.want(s.at(e)))
	}
	for _, cause := range e.Causes {
		s.explain(cause, root, unknown, bad)
	}
}

// at is the part of the schema that an error speaks of.
func (s *schema) at(e *jsonschema.ValidationError) *node {
	_, pointer, _ := strings.Cut(e.SchemaURL, "#/")
	return s.tree.find(strings.Split(pointer, "/"))
}

// want is what a part of the schema asks for, in words.
func (s *schema) want(part *node) string { return s.follow(part).get("description").said() }

// follow goes where a part of the schema points to.
func (s *schema) follow(part *node) *node {
	for part.get("$ref") != nil {
		part = s.tree.find(strings.Split(strings.TrimPrefix(part.get("$ref").text, "#/"), "/"))
	}
	return part
}

// unknownKey is a key of the file that the schema does not list where it stands.
type unknownKey struct {
	node  *node
	meant string // the key that was probably meant, "" if there is none like it
}

// unknown finds the keys that nobody knows, in the order of the file. What stands below one is not looked at, and neither is what may be any JSON.
func (s *schema) unknown(n, part *node) []unknownKey {
	var list []unknownKey
	part = s.follow(part)
	properties, others := part.get("properties"), part.get("additionalProperties")
	for _, c := range n.list {
		switch {
		case n.kind == '[' && part.get("items") != nil:
			list = append(list, s.unknown(c, part.get("items"))...)
		case n.kind != '{':
		case properties.get(c.key) != nil:
			list = append(list, s.unknown(c, properties.get(c.key))...)
		case others != nil:
			list = append(list, s.unknown(c, others)...)
		case properties != nil:
			list = append(list, unknownKey{c, meant(c.key, n, properties)})
		}
	}
	return list
}

// meant is the key of the schema that is spelt much like key and does not stand in n.
func meant(key string, n, properties *node) string {
	best, least := "", 3
	for _, p := range properties.list {
		if n.get(p.key) != nil {
			continue
		}
		if d := distance(plainKey(key), plainKey(p.key)); d < least && 3*d < len(p.key) {
			best, least = p.key, d
		}
	}
	return best
}

// plainKey is a key without what people write differently: case and what stands between words.
func plainKey(key string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(key))
}

// distance counts the bytes to insert, remove or replace to make b of a (Levenshtein). Texts whose lengths differ by much are simply far apart.
func distance(a, b string) int {
	if d := len(a) - len(b); d > 3 || d < -3 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
