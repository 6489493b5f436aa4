// Package schema describes Go types as JSON schemas, with their comments as descriptions.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Dialect is the version of JSON Schema that is written.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// Object is a JSON object whose members keep their order.
type Object []Member

// Member is a member of an object: its key, a string, and its value.
type Member [2]any

// MarshalJSON writes the members in order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m[0]); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(m[1]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Format writes a schema as a file has it.
func Format(o Object) ([]byte, error) {
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	// json.MarshalIndent writes <, > and & for the sake of HTML.
	return append([]byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data))), '\n'), nil
}

// Rules are what Go types do not say, by "Type.member", the type being the Go one and the member the JSON one; an element of a list or map is
// "Type.member.*".
type Rules struct {
	Limits   map[string]Object       // members of the schema of a value
	Fixed    map[string]Object       // schemas of values, instead of those of their types
	Optional map[string]bool         // may be missing, though it is always written
	Required map[string]bool         // must be there, though Go leaves it out if it is zero
	Whole    map[string]Object       // by type: rules about an object as a whole
	Open     map[reflect.Type]bool   // string types of which a newer version may know more values
	Files    map[reflect.Type]string // types that have a schema in a file of their own
	Explain  bool                    // each field must have a comment
}

// Generator builds the schemas of types of one module.
type Generator struct {
	Rules
	module, root string             // path and folder
	packages     map[string]*Source // by path
	defs         Object
	names        map[reflect.Type]string // of structs that are in defs
}

// NewGenerator returns a generator for types of the module, whose source is in the folder root.
func NewGenerator(module, root string, rules Rules) *Generator {
	return &Generator{Rules: rules, module: module, root: root, packages: map[string]*Source{}, names: map[reflect.Type]string{}}
}

// Defs are the structs that the schemas built so far refer to, as "#/$defs/Name".
func (g *Generator) Defs() Object { return g.defs }

// Root is the schema of a struct by itself, without that it is in Defs.
func (g *Generator) Root(t reflect.Type) (Object, error) {
	g.names[t] = g.name(t)
	return g.structure(t)
}

// name is what the schema calls a struct: by its package, too, where another one has the name already.
func (g *Generator) name(t reflect.Type) string {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	for _, other := range g.names {
		if other == name {
			parts := strings.Split(t.PkgPath(), "/")
			from := parts[len(parts)-1]
			return strings.ToUpper(from[:1]) + from[1:] + name
		}
	}
	return name
}

// Value is the schema of the values of a type.
func (g *Generator) Value(t reflect.Type) (Object, error) { return g.value(t, t.Name()) }

// source is that of a type's package; of a type outside the module there is none.
func (g *Generator) source(t reflect.Type) (*Source, error) {
	path := t.PkgPath()
	src := g.packages[path]
	if src == nil {
		src = &Source{}
		if dir, ok := strings.CutPrefix(path, g.module+"/"); ok {
			var err error
			if src, err = Read(filepath.Join(g.root, dir)); err != nil {
				return nil, err
			}
		}
		g.packages[path] = src
	}
	return src, nil
}

// structure describes a struct as an object; unknown members are allowed, since they survive.
func (g *Generator) structure(t reflect.Type) (Object, error) {
	src, err := g.source(t)
	if err != nil {
		return nil, err
	}
	properties, required, err := g.members(t, t.Name())
	if err != nil {
		return nil, err
	}
	var o Object
	if about := src.Types[t.Name()]; about != "" {
		o = Object{{"description", about}}
	}
	o = append(o, Object{{"type", "object"}, {"properties", properties}}...)
	if len(required) > 0 {
		o = append(o, Member{"required", required})
	}
	return append(o, g.Whole[t.Name()]...), nil
}

// members are those of a struct and of what is embedded in it; owner is the type that has them.
func (g *Generator) members(t reflect.Type, owner string) (properties Object, required []string, err error) {
	src, err := g.source(t)
	if err != nil {
		return nil, nil, err
	}
	for f := range t.Fields() {
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			p, r, err := g.members(inner, inner.Name())
			if err != nil {
				return nil, nil, err
			}
			properties, required = append(properties, p...), append(required, r...)
			continue
		}
		if name == "" {
			name = f.Name
		}
		about := src.Fields[t.Name()][f.Name]
		if about == "" && g.Explain {
			return nil, nil, fmt.Errorf("field %s.%s has no comment: say what it holds", t.Name(), f.Name)
		}
		shape, err := g.value(f.Type, owner+"."+name)
		if err != nil {
			return nil, nil, err
		}
		if about != "" {
			shape = append(Object{{"description", about}}, shape...)
		}
		properties = append(properties, Member{name, shape})
		if at := owner + "." + name; flags == "" && !g.Optional[at] || g.Required[at] {
			required = append(required, name)
		}
	}
	return properties, required, nil
}

// value describes the values of a type; at is the place that they have, as in Rules.
func (g *Generator) value(t reflect.Type, at string) (Object, error) {
	limit := g.Limits[at]
	src, err := g.source(t)
	switch {
	case err != nil:
		return nil, err
	case g.Files[t] != "":
		return Object{{"$ref", g.Files[t]}}, nil
	case g.Fixed[at] != nil:
		return g.Fixed[at], nil
	case t == reflect.TypeFor[time.Time]():
		return Object{{"type", "string"}, {"format", "date-time"}}, nil
	case t == reflect.TypeFor[json.RawMessage]():
		return limit, nil
	case src.Values[t.Name()] != nil:
		return g.constants(t, src), nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), at)
	case reflect.Array:
		return g.collection("array", "items", t.Elem(), at)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return append(Object{{"type", "string"}, {"contentEncoding", "base64"}}, limit...), nil
		}
		return g.collection("array", "items", t.Elem(), at)
	case reflect.Map:
		return g.collection("object", "additionalProperties", t.Elem(), at)
	case reflect.Struct:
		name, seen := g.names[t]
		if !seen {
			name = g.name(t)
			g.names[t] = name
			body, err := g.structure(t)
			if err != nil {
				return nil, err
			}
			g.defs = append(g.defs, Member{name, body})
		}
		return Object{{"$ref", "#/$defs/" + name}}, nil
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer", reflect.Float64: "number", reflect.Float32: "number",
	}
	kind, ok := kinds[t.Kind()]
	if !ok {
		return nil, fmt.Errorf("%s is a %s, for which no schema is known", at, t)
	}
	return append(Object{{"type", kind}}, limit...), nil
}

func (g *Generator) collection(kind, key string, elem reflect.Type, at string) (Object, error) {
	inner, err := g.value(elem, at+".*")
	return append(Object{{"type", kind}, {key, inner}}, g.Limits[at]...), err
}

// constants lists the values of a string type.
func (g *Generator) constants(t reflect.Type, src *Source) Object {
	var all []any
	for _, v := range src.Values[t.Name()] {
		o := Object{{"const", v.Text}}
		if v.Comment != "" {
			o = append(o, Member{"description", v.Comment})
		}
		all = append(all, o)
	}
	if g.Open[t] {
		return Object{{"type", "string"}, {"anyOf", append(all, Object{{"description", "one of a newer version"}})}}
	}
	return Object{{"oneOf", all}}
}
