package fleet

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder has the fleets of the benchmarks.
const folder = "../../../../test/fleets"

func TestFleets(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d fleets in %s, %v", len(files), folder, err)
	}
	for _, file := range files {
		f, err := Read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if f.Name+".json" != filepath.Base(file) || f.About == "" {
			t.Errorf("%s: name %q, about %q", file, f.Name, f.About)
		}
		for _, m := range f.Machines {
			if found, err := f.Machine(m.Name); err != nil || found.Name != m.Name {
				t.Errorf("%s: machine %s: %v", file, m.Name, err)
			}
			for n := 1; n < 40000; n += 500 {
				whole, rest := m.PrefillSeconds(n+500, 0), m.PrefillSeconds(n+500, n)
				if rest <= 0 || math.Abs(whole-rest-m.PrefillSeconds(n, 0)) > 1e-9 {
					t.Errorf("%s: %s: a prompt of %d tokens takes %v s, the last 500 of them %v s", file, m.Name, n+500, whole, rest)
				}
				if m.TokenSeconds(n+500, 1) < m.TokenSeconds(n, 1) {
					t.Errorf("%s: %s: a token after %d takes less than after %d", file, m.Name, n+500, n)
				}
			}
			for busy := 2; busy <= m.Slots; busy++ {
				one, each, fewer := m.TokenSeconds(4096, 1), m.TokenSeconds(4096, busy), m.TokenSeconds(4096, busy-1)
				if each < fewer || each/float64(busy) > fewer/float64(busy-1) || each < one {
					t.Errorf("%s: %s: with %d busy a token takes %v s, with one fewer %v s; want each slower, all together faster", file, m.Name, busy, each, fewer)
				}
			}
		}
	}
}

func TestTables(t *testing.T) {
	f, err := Read(filepath.Join(folder, "spark-mac-qwen.json"))
	if err != nil {
		t.Fatal(err)
	}
	spark, err := f.Machine("spark")
	if err != nil {
		t.Fatal(err)
	}
	busy := *spark
	busy.Busy = map[int]float64{2: 1.5, 4: 2}
	for what, figures := range map[string][2]float64{
		"a share of the first length":     {spark.PrefillSeconds(256, 0), 0.393 / 2},
		"a length of the table":           {spark.PrefillSeconds(4096, 0), 1.417},
		"between two":                     {spark.PrefillSeconds(3072, 0), (0.686 + 1.417) / 2},
		"beyond the last":                 {spark.PrefillSeconds(49152, 0), 16.95 + 10.14},
		"beside what is cached":           {spark.PrefillSeconds(4096, 2048), 1.417 - 0.686},
		"all cached":                      {spark.PrefillSeconds(4096, 4096), 0},
		"a token at the start":            {spark.TokenSeconds(0, 1), 1 / 61.1},
		"a token between two":             {spark.TokenSeconds(2048, 1), 2 / (61.1 + 54.8)},
		"a token beyond the last":         {spark.TokenSeconds(50000, 1), 1 / 30.2},
		"a token beside another":          {busy.TokenSeconds(0, 2), 1.5 / 61.1},
		"a token beside two, as with two": {busy.TokenSeconds(0, 3), 1.5 / 61.1},
		"a token beside seven":            {busy.TokenSeconds(0, 8), 2 / 61.1},
		"a state":                         {f.StateBytes(1000), 98320000},
	} {
		if math.Abs(figures[0]-figures[1]) > 1e-9*figures[1] {
			t.Errorf("%s: %v, want %v", what, figures[0], figures[1])
		}
	}
	if _, err := f.Machine("cray"); err == nil {
		t.Error("found a machine that the fleet does not have")
	}
}

func TestReadRefuses(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(folder, "spark-mac-qwen.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(data) {
		t.Fatal("no JSON")
	}
	for name, tt := range map[string]struct{ old, other, want string }{
		"unknown field":      {`"about"`, `"abuot"`, "unknown field"},
		"no model":           {`"qwen3-coder:30b"`, `""`, "want model"},
		"no slots":           {`"slots": 1`, `"slots": 0`, "want a name, slots"},
		"other slots":        {`"slots": 1`, `"slots": 2`, "as many slots"},
		"shrinking lengths":  {`"tokens": 2048`, `"tokens": 512`, "growing tokens"},
		"shrinking times":    {`"value": 0.686`, `"value": 0.3`, "growing"},
		"a rate of nothing":  {`"value": 61.1`, `"value": 0`, "values above 0"},
		"one name twice":     {`"name": "mac"`, `"name": "spark"`, "two machines"},
		"no decode machine":  {`"role": "decode"`, `"role": "prefill"`, "roles"},
		"another role":       {`"role": "decode"`, `"role": "both"`, "roles"},
		"a machine speeds":   {`"slots": 1,`, `"slots": 1, "slower": -1,`, "slower"},
		"busy makes faster":  {`"slots": 1,`, `"slots": 1, "busy": {"2": 0.5},`, "busy"},
		"link without speed": {`1.1e9`, `0`, "link_bytes_per_second"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fleet.json")
			if err := os.WriteFile(path, []byte(strings.Replace(string(data), tt.old, tt.other, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := Read("absent.json"); err == nil {
		t.Error("read a file that is not there")
	}
}
