package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The recorded response times follow the jobs when these are sorted. A history in either
// form states them.
func TestRecorded(t *testing.T) {
	const s = time.Second
	const rumen = `{"jobID":"b","submitTime":5000,"finishTime":9000,"totalMaps":1,"mapTasks":[{"startTime":5000,"finishTime":6000}]}
{"jobID":"c","submitTime":6000,"totalMaps":1,"mapTasks":[{"startTime":5000,"finishTime":6000}]}
{"jobID":"a","submitTime":1000,"finishTime":2000,"totalMaps":1,"mapTasks":[{"startTime":5000,"finishTime":6000}]}`
	for text, want := range map[string][]time.Duration{rumen: {s, 4 * s, 0}, strings.ReplaceAll(rumen, `"finishTime":9000,`, ""): {s, 0, 0}} {
		trace, err := ReadRumen("f", strings.NewReader(text), RumenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, trace.Recorded); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	for _, log := range []string{historyLog, jhistLog} {
		trace, err := ReadHistory("h", files("f", log), RumenOptions{})
		if err != nil || len(trace.Recorded) != 1 || trace.Recorded[0] != 151*s {
			t.Errorf("%v, recorded %v, want 151s", err, trace.Recorded)
		}
	}
}
