package enginetest

import (
	"encoding/json"
	"fmt"
	"slices"
)

// object is a JSON schema, of the part that [satisfies] knows.
type object = map[string]any

// verdict is the schema that the suite asks for: bounded, so that a model without sense finishes it.
var verdict = object{
	"type":                 "object",
	"required":             []any{"comments", "passed", "score", "verdict"},
	"additionalProperties": false,
	"properties": object{
		"score":   object{"type": "integer", "minimum": 0.0, "maximum": 100.0},
		"verdict": object{"type": "string", "enum": []any{"good", "weak"}},
		"passed":  object{"type": "boolean"},
		"comments": object{
			"type": "array", "minItems": 1.0, "maxItems": 2.0,
			"items": object{"type": "string", "maxLength": 12.0},
		},
	},
}

func schemaOf(schema object) json.RawMessage {
	data, err := json.Marshal(schema)
	if err != nil {
		panic(err) // a constant of this package
	}
	return data
}

// satisfies checks a decoded JSON value against a schema.
func satisfies(schema object, value any) error {
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, value) {
		return fmt.Errorf("%v is none of %v", value, list)
	}
	bounds := func(what string, n float64, least, most string) error {
		low, hasLow := schema[least].(float64)
		high, hasHigh := schema[most].(float64)
		if hasLow && n < low || hasHigh && n > high {
			return fmt.Errorf("%s %v is not within %s %v and %s %v", what, n, least, schema[least], most, schema[most])
		}
		return nil
	}
	switch v := value.(type) {
	case object:
		return satisfiesObject(schema, v)
	case []any:
		if schema["type"] != "array" {
			break
		}
		items, _ := schema["items"].(object)
		for _, item := range v {
			if err := satisfies(items, item); err != nil {
				return fmt.Errorf("in an array: %w", err)
			}
		}
		return bounds("length", float64(len(v)), "minItems", "maxItems")
	case string:
		if schema["type"] != "string" {
			break
		}
		return bounds("length", float64(len([]rune(v))), "minLength", "maxLength")
	case float64:
		if schema["type"] != "number" && (schema["type"] != "integer" || v != float64(int64(v))) {
			break
		}
		return bounds("number", v, "minimum", "maximum")
	case bool:
		if schema["type"] == "boolean" {
			return nil
		}
	}
	return fmt.Errorf("%v is no %v", value, schema["type"])
}

func satisfiesObject(schema object, value object) error {
	if schema["type"] != "object" {
		return fmt.Errorf("an object is no %v", schema["type"])
	}
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := value[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	for name, v := range value {
		property, ok := properties[name].(object)
		if !ok {
			if schema["additionalProperties"] == false {
				return fmt.Errorf("%q is too much", name)
			}
			continue
		}
		if err := satisfies(property, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
