package mapreduce

import (
	"context"
	"fmt"
	"os"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// RunAttempt checks whether a worker has started this process to run one
// attempt of a task, or the function of a chain. If so it does that and exits; otherwise
// it returns at once. [Main] does this by itself. Another program whose jobs run on
// clusters must call RunAttempt before it reads its arguments. lookup finds an
// app by its name. features must be the same as for submitting jobs, including
// remote.Client().
func RunAttempt(lookup func(name string) (*App, error), features ...Feature) {
	role := os.Getenv(feature.AttemptVariable)
	// A variable of the environment and no argument, because programs parse their own arguments.
	if role != "1" && role != feature.DriverValue {
		return
	}
	set, err := feature.Combine(features)
	if err == nil && set.Cluster == nil {
		err = errNoClient
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "this program cannot run tasks for a cluster:", err)
		os.Exit(ExitFailed)
	}
	var status int
	if role == feature.DriverValue {
		status = set.Cluster.RunDriver(set.Schemes, func(ctx context.Context, c *feature.Chain, t feature.Target) error {
			return drive(ctx, c, t, set.Schemes, lookup)
		})
	} else {
		files := &Files{schemes: set.Schemes}
		status = set.Cluster.RunAttempt(set.Schemes, func(r *feature.Recipe) (*engine.Program, error) { return build(r, files, lookup) })
	}
	// Before the exit, which runs no deferred functions.
	set.Schemes.CloseIdle()
	os.Exit(status)
}

// build makes the functions of a job from its recipe.
func build(r *feature.Recipe, files *Files, lookup func(name string) (*App, error)) (*engine.Program, error) {
	j, err := jobFrom(r, lookup)
	if err != nil {
		return nil, err
	}
	p, err := j.compile(context.Background(), files)
	// The cuts come from the plan: sampling again could give other ranges than another attempt has.
	if err == nil && j.TotalOrder {
		p.Partition = engine.RangePartition(r.Cuts)
	}
	return p, err
}

func jobFrom(r *feature.Recipe, lookup func(name string) (*App, error)) (*Job, error) {
	// Commands need no app: the recipe has all of a streaming job, and the worker's own executable runs it.
	if s := r.Streaming; s != nil {
		return Streaming(StreamingOptions{Mapper: s.Mapper, Reducer: s.Reducer, Combiner: s.Combiner, Properties: s.Properties, Stderr: os.Stderr})
	}
	a, err := lookup(r.App)
	if err != nil {
		return nil, err
	}
	if r.Step == "" {
		if a.Job == nil {
			return nil, fmt.Errorf("app %s is a chain of jobs: one of its steps must be named", a.Name)
		}
		j, err := a.Job(r.Params)
		if err == nil {
			j.noOutput = a.NoOutput
		}
		return j, err
	}
	step := a.Steps[r.Step]
	if step == nil {
		return nil, fmt.Errorf("app %s has no step %q", a.Name, r.Step)
	}
	return step(r.Params)
}
