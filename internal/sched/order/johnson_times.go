package order

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Times remembers how long tasks of jobs of a name took in the mean. The zero
// value knows nothing.
type Times struct {
	all    named
	byName map[string]*named
	names  []string // oldest first
}

// maxNames bounds the names remembered, since some people put a date into each.
const maxNames = 4096

// named holds counts and mean seconds by kind.
type named struct {
	Name    string             `json:"name,omitempty"`
	Count   [job.Kinds]int64   `json:"count"`
	Seconds [job.Kinds]float64 `json:"seconds"`
}

func (n *named) add(k job.Kind, seconds float64) {
	n.Count[k]++
	n.Seconds[k] += (seconds - n.Seconds[k]) / float64(n.Count[k])
}

// Add takes in the time of a task of a job of that name, in seconds.
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
	if len(t.names) == maxNames {
		delete(t.byName, t.names[0])
		t.names = slices.Delete(t.names, 0, 1)
	}
	t.byName[n.Name] = n
	t.names = append(t.names, n.Name)
}

// Of returns the mean time of a kind of task in seconds: of jobs of that name;
// if none is known of all jobs; if none is known 1.
func (t *Times) Of(name string, k job.Kind) float64 {
	if n := t.byName[name]; n != nil && n.Count[k] > 0 {
		return n.Seconds[k]
	}
	if t.all.Count[k] > 0 {
		return t.all.Seconds[k]
	}
	return 1
}

// The kind and version that a state of Times begins with.
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

// Save returns what is remembered, as JSON.
func (t *Times) Save() ([]byte, error) {
	s := timesState{Kind: timesKind, Version: timesVersion, All: t.all, Names: []named{}}
	for _, name := range t.names {
		s.Names = append(s.Names, *t.byName[name])
	}
	return json.Marshal(&s)
}

// Load replaces what is remembered by what Save returned. A state that is not
// whole, of another kind or version, or impossible is refused, and nothing of
// it is taken over.
func (t *Times) Load(state []byte) error {
	var s timesState
	if err := sched.ReadState(state, "task times", timesKind, timesVersion, &s); err != nil {
		return err
	}
	fresh := Times{all: s.All}
	for i := range s.Names {
		n := &s.Names[i]
		if fresh.byName[n.Name] != nil || n.Name == "" {
			return fmt.Errorf("state of task times: name %q stands twice or is none", n.Name)
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

func (n *named) check() error {
	for k, x := range n.Seconds {
		if n.Count[k] < 0 || !(x >= 0) || math.IsInf(x, 0) || n.Count[k] == 0 && x != 0 {
			return fmt.Errorf("%d tasks of %q took %g s each", n.Count[k], n.Name, x)
		}
	}
	return nil
}
