package check_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

func TestPrint(t *testing.T) {
	events := []history.Event{
		submitted(job), accepted(), delivered("decode-1", "RELAY", 1), fault("decode-1", "kill: between publish\nand ack\x1b[31m"), healed("decode-1"), again(stored("RESULTS", 7)),
		told(failure), found("RESULTS", 7, other), expect("yes"), ended(),
	}
	want := `submitted                               1
accepted                                1
refused                                 0
succeeded                               1
failed                                  0
cancelled                               0
expired                                 0
left                                    0
ended, and still queued                 0
texts compared                          1
handed over                             0
deliveries                              1
engine calls                            0
fault: kill                             1
    between publish?and ack?[31m        1
VIOLATED: wrong text                    1
VIOLATED: untold                        1
violations                              2

wrong text: job a: the text 9390298f3fb0 is not what the engine says when asked directly
     0.000  submitted  caller-1  jobs.prefill.m:1.batch.a
     0.100  accepted   caller-1  INTAKE#1
     0.200  delivered  decode-1  RELAY#1
     0.300  fault      decode-1                            kill: between publish?and ack?[31m
     0.400  healed     decode-1
     0.500  stored     decode-1  RESULTS#7                 again
     0.600  told       caller-1                            failed, attempts_exhausted, text e3b0c44298fc
     0.700  found                RESULTS#7                 succeeded, text 9390298f3fb0
     0.800  expected   engine-1                            text 8a798890fe93

untold: job a: the caller was told something else than RESULTS says
     0.000  submitted  caller-1  jobs.prefill.m:1.batch.a
     0.100  accepted   caller-1  INTAKE#1
     0.200  delivered  decode-1  RELAY#1
     0.300  fault      decode-1                            kill: between publish?and ack?[31m
     0.400  healed     decode-1
     0.500  stored     decode-1  RESULTS#7                 again
     0.600  told       caller-1                            failed, attempts_exhausted, text e3b0c44298fc
     0.700  found                RESULTS#7                 succeeded, text 9390298f3fb0
     0.800  expected   engine-1                            text 8a798890fe93
`
	if diff := cmp.Diff(want, check.Check(story(events...)).String()); diff != "" {
		t.Error(diff)
	}
}

func TestPrintShowsNoTexts(t *testing.T) {
	secret := strings.NewReplacer(`"text":"no"`, `"text":"SECRET"`, `"custom_id":"c"`, `"custom_id":"SECRET"`)
	v := check.Check(story(
		submitted(job), accepted(), told(failure), found("INTAKE", 1, job), found("RELAY", 1, hop), found("DLQ", 1, letter), found("DLQ", 2, secret.Replace(letter)),
		found("RESULTS", 7, secret.Replace(other)), expect("SECRET and more"), expect("yes"), ended(),
	))
	want := []string{"duplicate a", "invented a", "wrong text a", "untold a"}
	if diff := cmp.Diff(want, broken(v)); diff != "" {
		t.Error(diff)
	}
	if got := v.String(); strings.Contains(got, "SECRET") {
		t.Errorf("a text is shown:\n%s", got)
	}
}

func TestPrintKeepsToTwenty(t *testing.T) {
	for n, more := range map[int]string{20: "", 21: "\nand 1 more\n", 23: "\nand 3 more\n"} {
		var events []history.Event
		for i := range n {
			id := fmt.Sprintf("job-%02d", i)
			events = append(events, of(id, submitted(record(job, `"id":"a"`, `"id":"`+id+`"`)), accepted())...)
		}
		got := check.Check(story(append(events, ended())...)).String()
		if shown := strings.Count(got, "\nlost: job "); shown != 20 || !strings.HasSuffix(got, more) || more == "" && strings.Contains(got, " more\n") {
			t.Errorf("%d violations of %d are shown:\n%s", shown, n, got)
		}
	}
}

// broke is a pipe that nobody reads.
type broke struct{}

var errBroke = errors.New("broken pipe")

func (broke) Write([]byte) (int, error) { return 0, errBroke }

func TestWrite(t *testing.T) {
	v := check.Check(story(submitted(job), accepted(), ended()))
	var b strings.Builder
	if err := v.Write(&b); err != nil || b.String() != v.String() {
		t.Errorf("wrote %q, %v", b.String(), err)
	}
	if err := v.Write(broke{}); !errors.Is(err, errBroke) {
		t.Errorf("got %v, want %v", err, errBroke)
	}
}
