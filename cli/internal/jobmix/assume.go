// Package jobmix connects a job mix, which is text, with programs and files.
// One file serves three commands:
//
//	run, submit   Programs returns the program to start for each job
//	sim           Assume completes the number of tasks and their costs where
//	              the file leaves them to a program
//
// The package workload parses the file and does no I/O. This package looks at
// the input files that a mix names.
package jobmix

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/live/profile"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// Cluster holds the properties of a virtual cluster that determine the number
// of a job's tasks, if the file and the program do not state it.
type Cluster struct {
	MapSlots, ReduceSlots int
	Features              []mapreduce.Feature // to find the inputs of programs
}

// mapBuffer is the assumed sort memory of a map of the virtual cluster. It
// bounds the size of splits as a real worker's memory does.
const mapBuffer = 64 << 20

// defaultProfiles are measured costs of built-in apps, for mixes that state none.
// "slotwise profile" wrote them.
//
//go:embed profiles.yaml
var defaultProfiles string

// generic is the cost profile of an unmeasured program. Its costs are in the
// middle of the built-in apps'.
var generic = workload.Profile{Source: "a guess, middling among the built-in apps",
	MapStart: 0.002, MapCPU: 0.01, MapSelectivity: 1, CombinerRatio: 1, SortCPU: 0.005,
	ReduceStart: 0.002, ReduceCPU: 0.01, ReduceSelectivity: 1}

// sourceless is the cost profile of an app that reads no input. Each of its maps
// is assumed to take a second.
var sourceless = workload.Profile{Source: "a guess: 1 s of CPU for each map",
	MapStart: 1, CombinerRatio: 1, ReduceStart: 0.01}

// Assume completes a mix for the simulator. Where the file leaves the number of
// tasks to a program, it lists the program's input and divides it by the rules of
// run; where the file states no times, it takes the costs of the app from the
// mix's profiles, else from those built in. It returns a sentence for each
// assumption. An error names the file, the line, the entry, and what to state.
func Assume(ctx context.Context, m *workload.Mix, on Cluster, lookup LookupFunc) (assumed []string, err error) {
	known, err := workload.ReadProfiles("built-in profiles", strings.NewReader(defaultProfiles))
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range m.Classes {
		a := &assumption{class: &m.Classes[i], on: on, block: m.Block, known: known}
		if err := a.complete(ctx, lookup); err != nil {
			// All entries are looked at, so that one command shows the errors of all.
			errs = append(errs, fmt.Errorf("%s: %w", a.class.Describe(), err))
			continue
		}
		if len(a.said) > 0 {
			assumed = append(assumed, fmt.Sprintf("%s: %s", a.class.Describe(), strings.Join(a.said, "; ")))
		}
	}
	return assumed, errors.Join(errs...)
}

// assumption collects the assumptions about one class. It writes the tasks and costs into the
// class.
type assumption struct {
	class *workload.Class
	on    Cluster
	block int64
	known []workload.Profile
	job   *mapreduce.Job // nil if there is no such app
	said  []string
}

// say adds an assumption.
func (a *assumption) say(format string, args ...any) {
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

// complete states the class's tasks and costs as far as the file does not.
func (a *assumption) complete(ctx context.Context, lookup LookupFunc) error {
	c := a.class
	tasks, reduces, costs := c.NeedsTasks(), c.NeedsReduces(), c.NeedsCosts()
	if !tasks && !reduces && !costs {
		return nil
	}
	err := a.findJob(lookup)
	switch {
	// Without the program nothing says how many maps there are. The other values have
	// defaults.
	case err != nil && tasks:
		return fmt.Errorf("the number of its tasks is unknown: %w; state maps and map-time, or work", err)
	case err != nil:
		a.say("no reduces, because %v", err)
	}
	switch {
	case tasks:
		err = a.planTasks(ctx)
	case reduces && a.job != nil:
		n, why := a.reduces(int64(c.Input.Mean()))
		c.Reduces = workload.Fixed(float64(n))
		a.say("%s, %s", terminal.Plural(n, "reduce"), why)
		err = nil
	default:
		err = nil
	}
	if costs && err == nil {
		a.findCosts()
	}
	return err
}

// findJob builds the job that the class would run. It builds no chain: what a later step reads is
// known only when the step before it has run.
func (a *assumption) findJob(lookup LookupFunc) error {
	c, given := a.class, a.class.Program
	if given.Streaming() {
		// Nothing runs, so no standard error is needed.
		p, err := newStreaming(given, nil)
		if err != nil {
			return err
		}
		a.job = p.streaming
		return nil
	}
	app, err := lookup(c.App)
	if err != nil {
		return err
	}
	if app.Chain != nil {
		return fmt.Errorf("%s is a chain of jobs, whose later inputs are known only when it runs", c.App)
	}
	var params mapreduce.Params
	if given != nil {
		params = given.Params
	}
	if params, err = app.Check(params); err != nil {
		return err
	}
	a.job, err = app.Job(params)
	return err
}

// planTasks states the maps and reduces of the program, from the files that it
// reads.
func (a *assumption) planTasks(ctx context.Context) error {
	c := a.class
	// The maps come from a parameter, so there is no input to list.
	if n := a.job.Synthetic; n > 0 {
		reduces, why := a.reduces(0)
		c.SetTasks(make([]workload.Task, n), reduces)
		a.say("%s as its parameters say, and %s, %s", terminal.Plural(n, "map"), terminal.Plural(reduces, "reduce"), why)
		return nil
	}
	given := c.Program
	if given == nil || len(given.Inputs) == 0 {
		return fmt.Errorf("the number of its maps is unknown: add input, or state input-size or maps")
	}
	in, err := profile.List(ctx, a.job, mapreduce.Options{Features: a.on.Features, Inputs: given.Inputs, Include: given.Include, Exclude: given.Exclude,
		Format: given.Format, Columns: given.Columns})
	if err != nil {
		return fmt.Errorf("input: %w; without the files here, state their size as input-size", err)
	}
	size, stated := given.SplitSize, "as split-size says"
	if size == 0 {
		folds, sorts := a.job.Aggregate != mapreduce.NoFold, a.job.Reducer != nil
		// The same rule as in run, with the virtual cluster's slots, so that sim and run plan the
		// same maps.
		size = input.ChooseSplitSize(in.Bytes, a.on.MapSlots, folds, sorts, mapBuffer)
		stated = fmt.Sprintf("as run would choose for %s", terminal.Plural(a.on.MapSlots, "map slot"))
	}
	// Before the splits are made: a terabyte in splits of one byte would fill the memory
	// first.
	if in.Bytes/size > workload.MaxTasks {
		return fmt.Errorf("%s of input in splits of %s are too many maps; the most are %d", terminal.Bytes(in.Bytes), terminal.Bytes(size), workload.MaxTasks)
	}
	splits, err := in.Split(ctx, size)
	if err != nil {
		return err
	}
	maps := make([]workload.Task, len(splits))
	for i, s := range splits {
		maps[i].Input = s.Split.Bytes
	}
	reduces, why := a.reduces(in.Bytes)
	c.SetTasks(maps, reduces)
	a.say("%s for %s of input in splits of %s, %s; %s, %s", terminal.Plural(len(maps), "map"), terminal.Bytes(in.Bytes),
		terminal.Bytes(size), stated, terminal.Plural(reduces, "reduce"), why)
	return nil
}

// reduces returns how many reduces the program has, by the rule of run, and why.
func (a *assumption) reduces(bytes int64) (n int, why string) {
	switch j, stated := a.job, int(a.class.Reduces.Mean()); {
	case j.Reducer == nil:
		return 0, "because it has no reducer"
	// The file wins over the app, which wins over the rule, as in run.
	case stated > 0:
		return stated, "as stated"
	case j.Reduces > 0:
		return j.Reduces, "as the app chooses"
	default:
		return input.ChooseReduces(bytes, a.on.ReduceSlots, j.TotalOrder),
			fmt.Sprintf("as run would choose for %s", terminal.Plural(a.on.ReduceSlots, "reduce slot"))
	}
}

// findCosts gives the class a built-in cost profile.
func (a *assumption) findCosts() {
	c := a.class
	for i := range a.known {
		if a.known[i].App == c.App {
			c.Profile = &a.known[i]
			a.say("costs of %s from the built-in profile (%s)", c.App, c.Profile.Source)
			return
		}
	}
	c.Profile = &generic
	if a.job != nil && a.job.Synthetic > 0 {
		c.Profile = &sourceless
	}
	what := "the commands"
	if c.App != "" {
		what = c.App
	}
	a.say("costs of %s unknown: %s; measure them with slotwise profile, or state map-time", what, c.Profile.Source)
}
