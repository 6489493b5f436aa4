package outputs

import (
	"math"
	"testing"
)

func TestReadNumber(t *testing.T) {
	for text, want := range map[string]number{
		"420":         {value: 420, unit: 1, digits: 3, whole: true},
		"12.350":      {value: 12.35, unit: 0.001, digits: 5, places: 3},
		"-0.05":       {value: -0.05, unit: 0.01, digits: 1, places: 2},
		"−3":          {value: -3, unit: 1, digits: 1, whole: true},
		"10.0":        {value: 10, unit: 0.1, digits: 3, places: 1, whole: true},
		"15234.":      {value: 15234, unit: 1, digits: 5},
		".5":          {value: 0.5, unit: 0.1, digits: 1, places: 1},
		"1.5e+04":     {value: 15000, unit: 1000, digits: 2, places: 1, exponent: true},
		"1,234,567.8": {value: 1234567.8, unit: 0.1, digits: 8, places: 1},
		"1,23":        {value: 1.23, unit: 0.01, digits: 3, places: 2},
		"0,123":       {value: 0.123, unit: 0.001, digits: 3, places: 3},
		"1.234,50 €":  {value: 1234.5, unit: 0.01, digits: 6, places: 2},
		"1.234.567":   {value: 1234567, unit: 1, digits: 7, whole: true},
		"1,234":       {value: 1234, unit: 1, digits: 4, whole: true},
		"1.234":       {value: 1.234, unit: 0.001, digits: 4, places: 3},
		"1'234":       {value: 1234, unit: 1, digits: 4, whole: true},
		"1\u202f234":  {value: 1234, unit: 1, digits: 4, whole: true},
		"$1,234.50":   {value: 1234.5, unit: 0.01, digits: 6, places: 2},
		"-$5":         {value: -5, unit: 1, digits: 1, whole: true},
		"12.50 €":     {value: 12.5, unit: 0.01, digits: 4, places: 2},
		"12.5%":       {value: 12.5, unit: 0.1, digits: 3, places: 1, percent: true},
		"-Inf":        {value: math.Inf(-1), whole: true},
	} {
		got, ok := readNumber(text)
		if math.Abs(got.unit-want.unit) < 1e-12 {
			got.unit = want.unit
		}
		if !ok || got != want {
			t.Errorf("readNumber(%q) = %+v, %v; want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", ".", "%", "North", "12a", "1,2,3", "1.23,4", "12,34.5", "1.2.3", "2024-03-01", "--5", "e5", "1e9999", "0x10", "12 13"} {
		if got, ok := readNumber(text); ok {
			t.Errorf("readNumber(%q) = %+v; want none", text, got)
		}
	}
}

func TestNumbersAlike(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want grade
	}{
		{"420", "420", same},
		{"420", "420.0", same},
		{"1,234.5", "1234.50", same},
		{"1e3", "1000", same},
		{"12.3456", "12.35", rounded},
		{"12.345", "12.35", rounded}, // a half may go either way
		{"12.345", "12.34", rounded},
		{"15233.62", "15234.", rounded},
		{"15233.62", "15234", rounded},
		{"15001", "1.5e4", rounded},
		{"0.12346", "0.123", rounded},
		{"100000", "100050.0000001", near},
		{"12.3456", "12.34", near}, // cut rather than rounded
		{"0", "-1.4e-14", near},
		{"0.1235", "12.35%", same},
		{"12.35", "12.35%", same},
		{"0.123456", "12.35%", rounded},
		{"420", "419", apart},
		{"10001", "10000", apart}, // within the tolerance, but they are counts
		{"10001.0", "10000", apart},
		{"3.2", "3", apart}, // one digit says too little
		{"0.0512", "0.05", apart},
		{"0.004", "0.00", apart},
		{"12.35", "12.45", apart},
		{"12", "-12", apart},
		{"0.5", "12.35%", apart},
		{"Inf", "1e300", apart},
	} {
		a, _ := readNumber(test.a)
		b, _ := readNumber(test.b)
		for range 2 {
			if got := alike(a, b, defaultTolerance).grade; got != test.want {
				t.Errorf("alike(%+v, %+v) = %d; want %d", a, b, got, test.want)
			}
			a, b = b, a
		}
	}
}

func TestScalarsAlike(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"NA", "NaN", true},
		{"<NA>", "None", true},
		{"NULL", "", true},
		{"TRUE", "True", true},
		{" North", "'north'", true},
		{"New  York", "new york", true},
		{"2024-03-01", "2024-03-01 00:00:00", true},
		{"Northern Te…", "Northern Territory", true},
		{"NA", "0", false},
		{"North", "South", false},
		{"12", "twelve", false},
	} {
		if got := alikeScalars(readScalar(test.a), readScalar(test.b), defaultTolerance).grade != apart; got != test.want {
			t.Errorf("%q and %q are equal: %v; want %v", test.a, test.b, got, test.want)
		}
	}
}
