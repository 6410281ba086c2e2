package hadoopconf

import (
	"errors"
	"fmt"
	"io"

	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/sched/job"
)

// ReadAllocations reads a fair-scheduler.xml. It warns of elements that Hadoop does not
// know, and of a maximum below the minimum; the maximum wins then. It reads the <queue>
// elements of Hadoop 2 and 3 as pools. An element that it cannot convert is an error.
func ReadAllocations(r io.Reader) (fair.Allocations, []Warning, error) {
	root, err := parse(r)
	if err != nil {
		return fair.Allocations{}, nil, err
	}
	if root.name != "allocations" {
		return fair.Allocations{}, nil, &Error{root.line, root.name, "the top-level element must be <allocations>"}
	}
	// Before the reading, so that the rest knows one form only.
	if err := asPools(root); err != nil {
		return fair.Allocations{}, nil, err
	}
	a := allocReader{conf: fair.NewAllocations(), seen: map[string]bool{}}
	// Defaults apply to all pools, also to pools that precede the defaults in the file.
	for _, e := range root.children {
		// A pool copies the defaults when it is first named.
		if e.name != "pool" && e.name != "user" {
			a.take(e, a.conf.Set)
		}
	}
	for _, e := range root.children {
		if e.name == "pool" || e.name == "user" {
			a.named(e)
		}
	}
	if a.err != nil {
		return fair.Allocations{}, a.warnings, a.err
	}
	return a.conf, a.warnings, nil
}

// allocReader collects allocations; err is the first error.
type allocReader struct {
	conf     fair.Allocations
	seen     map[string]bool
	warnings []Warning
	err      error
}

// take passes an element's text to a setter and keeps the first error.
func (a *allocReader) take(e *element, set func(name, value string) error) {
	switch err := set(e.name, e.text); {
	case errors.Is(err, fair.ErrUnknown):
		a.warn(e, "is unknown and was passed over")
	case err != nil:
		a.fail(e, errors.Unwrap(err).Error())
	// The setter has read the text only.
	case len(e.children) > 0:
		a.warn(e.children[0], "is unknown and was passed over")
	}
}

// named reads a pool or a user.
func (a *allocReader) named(e *element) {
	name := e.attrs["name"]
	if name == "" {
		a.fail(e, "has no attribute name")
		return
	}
	// Hadoop adds the settings of both to one pool, so the same is done here, but an operator has probably
	// copied a block.
	if a.seen[e.name+" "+name] {
		a.warn(e, fmt.Sprintf("names %q again; what it says is added", name))
	}
	a.seen[e.name+" "+name] = true
	set := a.conf.SetUser
	if e.name == "pool" {
		set = a.conf.SetPool
		// Also a pool without settings exists from now on, as in Hadoop.
		a.conf.AddPool(name, a.conf.Pool(name))
	}
	for _, c := range e.children {
		a.take(c, func(key, value string) error { return set(name, key, value) })
	}
	if e.name != "pool" {
		return
	}
	// After all of its settings, since their order in the file is free.
	p := a.conf.Pool(name)
	for k := range job.Kind(job.Kinds) {
		if p.Max[k] < p.Min[k] {
			a.warn(e, fmt.Sprintf("pool %q: at most %d %ss is less than at least %d, and wins", name, p.Max[k], k, p.Min[k]))
		}
	}
}

func (a *allocReader) warn(e *element, text string) {
	a.warnings = append(a.warnings, Warning{e.line, e.name, text})
}

func (a *allocReader) fail(e *element, text string) {
	if a.err == nil {
		a.err = &Error{e.line, e.name, text}
	}
}
