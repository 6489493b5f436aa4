package check_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

// long is a history of so many jobs, of 14 events each; one of a hundred is lost.
func long(jobs int) []history.Event {
	var all []history.Event
	for i := range jobs {
		id := fmt.Sprintf("job-%07d", i)
		name := strings.NewReplacer(`"id":"a"`, `"id":"`+id+`"`, `"job_id":"a"`, `"job_id":"`+id+`"`)
		events := of(id, whole()[:13]...)
		for j := range events {
			if events[j].Record != nil {
				events[j].Record = json.RawMessage(name.Replace(string(events[j].Record)))
			}
		}
		if i%100 == 99 {
			events = events[:10]
		}
		all = append(append(all, events...), fault(fmt.Sprintf("decode-%d", i%8), "kill: anywhere"))
	}
	return story(append(all, ended())...)
}

func BenchmarkCheck(b *testing.B) {
	for _, jobs := range []int{750, 7_500, 75_000} {
		events := long(jobs)
		b.Run(fmt.Sprintf("events=%d", len(events)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := check.Check(events); len(v.Violations) != jobs/100 {
					b.Fatalf("%d violations", len(v.Violations))
				}
			}
		})
	}
}
