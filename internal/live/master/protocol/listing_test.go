package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestListOrder lists jobs that have not ended before the others, the newest of either first.
func TestListOrder(t *testing.T) {
	c := populated(t)
	for i := range 3 {
		spec := &slotwisev1.JobSpec{User: "u", Synthetic: 2}
		core, err := CoreSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		c.Handle(time.Second, &Submit{Call: Call(20 + i), Request: fmt.Sprint("more", i), Spec: spec, Core: core})
	}
	c.jobs[2].final, c.jobs[3].final = &slotwisev1.JobStatus{Id: "j2"}, &slotwisev1.JobStatus{Id: "j3"}
	for want, q := range map[string]ListQuery{"j4 j1 j3 j2": {Ended: true, Limit: 9}, "j1 j4": {Limit: 9}, "j1 j3": {Ended: true, Offset: 1, Limit: 2}} {
		list, _ := c.List(q)
		var ids []string
		for _, j := range list {
			ids = append(ids, j.Id)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
}
