package workload

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// TestEveryRequestHasAKey writes a request with a value in each field to a mix and reads it
// back. A new field without a key fails here.
func TestEveryRequestHasAKey(t *testing.T) {
	want := job.Request{User: "ann", Pool: "etl", Priority: job.High, Deadline: 90 * time.Minute, SlowStart: 0.5, TaskMemory: 2 << 30, TaskCPUs: 3,
		Hints: [job.Kinds]job.Ratings{{CPU: 1, Memory: 2, Disk: 3, Network: 4}, {CPU: 5, Memory: 6, Disk: 7, Network: 8}}}
	without := map[string]string{ // fields that have no key, and why
		"MaxAttempts":   "the simulator's failures follow its world",
		"TaskTimeout":   "the same",
		"NoSpeculation": "the policy of a run decides it",
	}
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if _, left := without[name]; v.Field(i).IsZero() != left {
			t.Errorf("this test needs a value of the field %s, or a reason why it has no key", name)
		}
	}
	var b bytes.Buffer
	if err := WriteJobs(&b, []Job{{Name: "j", Request: want, Maps: []Task{{Duration: time.Second}}}}); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMix("m.yaml", &b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, m.Classes[0].Request); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
