package hadoop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched/job"
)

// Means survive a restart, damaged state changes nothing, and memory is bounded.
func TestTimesState(t *testing.T) {
	var a, b Times
	a.Add("sort", job.Map, 4)
	a.Add("sort", job.Map, 8)
	a.Add("", job.Reduce, 2)
	state, err := a.Save()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Load(state); err != nil || b.Of("sort", job.Map) != 6 || b.Of("new", job.Reduce) != 2 || b.Of("sort", job.Reduce) != 2 {
		t.Errorf("loaded %+v, %v", b, err)
	}
	for text, want := range map[string]string{
		"":                       "EOF",
		string(state[:20]):       "EOF",
		string(state) + "1":      "data follows",
		`{"kind":"tumm"}`:        `state of "tumm"`,
		`{"kind":"task-times"}`:  "version 0",
		`{"kind":"x","extra":1}`: "unknown field",
		strings.Replace(string(state), `"sort"`, `""`, 1): "is empty",
		strings.Replace(string(state), "[6,", "[-6,", 1):  "took -6 s",
	} {
		if err := b.Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || b.Of("sort", job.Map) != 6 {
			t.Errorf("%q: %v", text, err)
		}
	}
	for i := range maxNames + 5 {
		a.Add(fmt.Sprint("job", i), job.Map, 1)
	}
	if len(a.names) != maxNames || len(a.byName) != maxNames || slices.Contains(a.names, "sort") {
		t.Errorf("%d names", len(a.names))
	}
}
