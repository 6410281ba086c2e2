package console

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// AppendAttempts converts attempts that the tracker remembers and appends them to out.
func AppendAttempts(out []Attempt, list []protocol.Execution) []Attempt {
	for i := range list {
		e := &list[i]
		a := Attempt{ID: e.ID.String(), Kind: 'm', Task: e.ID.Index, State: e.State.String(), Node: e.Node, Speculative: e.Speculative,
			Progress: e.Progress, Started: e.StartedMs, Ended: e.EndedMs, OutputBytes: e.OutputBytes, Error: e.Error}
		if e.ID.Kind == job.Reduce {
			a.Kind = 'r'
		}
		if e.Level != 0 {
			a.Level = e.Level.String()
		}
		out = append(out, a)
	}
	return out
}

// DescribePolicy describes a policy with its parameters. Known has the names of reg, and the
// policy's own if it is a composition.
func DescribePolicy(reg *sched.Registry, name string, set map[string]string) *Policy {
	p := &Policy{Name: name, Known: reg.Names()}
	if !slices.Contains(p.Known, p.Name) {
		p.Known = append(p.Known, p.Name)
	}
	info, err := reg.Describe(name)
	if err != nil {
		return p // the journal may name a policy of another program
	}
	for _, part := range info.Parts {
		x := Part{Role: part.Part, Name: part.Name, Summary: part.Summary}
		for _, y := range part.Params {
			x.Params = append(x.Params, Param{Name: y.Name, Value: cmp.Or(set[y.Name], y.Default), Default: y.Default, Doc: y.Help})
		}
		p.Parts = append(p.Parts, x)
	}
	return p
}
