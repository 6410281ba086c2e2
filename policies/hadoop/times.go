package hadoop

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Times remembers the mean task times of jobs by name. The zero value is empty
// and ready to use.
type Times struct {
	all    named // of all jobs
	byName map[string]*named
	names  []string // in order of their first job
}

// maxNames bounds the number of names, because some users put a date into each.
// The oldest is forgotten first.
const maxNames = 4096

// named holds counts of tasks and mean seconds by kind. It is part of the saved
// state.
type named struct {
	Name    string             `json:"name,omitempty"`
	Count   [job.Kinds]int64   `json:"count"`
	Seconds [job.Kinds]float64 `json:"seconds"`
}

func (n *named) add(k job.Kind, seconds float64) {
	n.Count[k]++
	n.Seconds[k] += (seconds - n.Seconds[k]) / float64(n.Count[k])
}

// Add includes a task of a job of the given name in the means.
func (t *Times) Add(name string, k job.Kind, seconds float64) {
	t.all.add(k, seconds)
	if name == "" {
		return
	}
	n := t.byName[name]
	if n == nil {
		n = &named{Name: name}
		t.put(n)
	}
	n.add(k, seconds)
}

func (t *Times) put(n *named) {
	if t.byName == nil {
		t.byName = make(map[string]*named)
	}
	// Users choose the names, so their number is bounded; the oldest one leaves.
	if len(t.names) == maxNames {
		delete(t.byName, t.names[0])
		t.names = slices.Delete(t.names, 0, 1)
	}
	t.byName[n.Name] = n
	t.names = append(t.names, n.Name)
}

// Of returns the mean seconds of a task of a job of the given name. Without
// such tasks it returns the mean of all jobs, and without any task 1.
func (t *Times) Of(name string, k job.Kind) float64 {
	// A job whose earlier runs had no reduces says nothing about theirs.
	if n := t.byName[name]; n != nil && n.Count[k] > 0 {
		return n.Seconds[k]
	}
	if t.all.Count[k] > 0 {
		return t.all.Seconds[k]
	}
	return 1
}

// The kind and version in the saved state of Times.
const (
	timesKind    = "task-times"
	timesVersion = 1
)

type timesState struct {
	Kind    string  `json:"kind"`
	Version int     `json:"version"`
	All     named   `json:"all"`
	Names   []named `json:"names"`
}

// Save returns the means as JSON.
func (t *Times) Save() ([]byte, error) {
	s := timesState{Kind: timesKind, Version: timesVersion, All: t.all, Names: []named{}}
	for _, name := range t.names {
		s.Names = append(s.Names, *t.byName[name])
	}
	return json.Marshal(&s)
}

// Load replaces the means by saved ones. It rejects state that is incomplete,
// invalid, or of another kind or version, and then changes nothing.
func (t *Times) Load(state []byte) error {
	var s timesState
	if err := sched.ReadState(state, "task times", timesKind, timesVersion, &s); err != nil {
		return err
	}
	fresh := Times{all: s.All}
	// In order, so that the oldest name is again the first to be forgotten.
	for i := range s.Names {
		n := &s.Names[i]
		if fresh.byName[n.Name] != nil || n.Name == "" {
			return fmt.Errorf("state of task times: name %q is empty or appears twice", n.Name)
		}
		fresh.put(n)
	}
	for _, n := range append(s.Names, s.All) {
		if err := n.check(); err != nil {
			return fmt.Errorf("state of task times: %w", err)
		}
	}
	*t = fresh
	return nil
}

// check returns an error if the counts and means contradict each other.
func (n *named) check() error {
	for k, x := range n.Seconds {
		if n.Count[k] < 0 || !(x >= 0) || math.IsInf(x, 0) || n.Count[k] == 0 && x != 0 {
			return fmt.Errorf("%d tasks of %q took %g s each", n.Count[k], n.Name, x)
		}
	}
	return nil
}
