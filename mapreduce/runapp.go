package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/slotwise/slotwise/internal/feature"
)

// Check returns the app's parameters with defaults filled in. Unknown and missing
// parameters are errors.
func (a *App) Check(given Params) (Params, error) {
	p := Params{}
	known := map[string]bool{}
	for _, d := range a.Params {
		known[d.Name] = true
		v, ok := given[d.Name]
		switch {
		case ok:
			p[d.Name] = v
		case d.Required:
			return nil, fmt.Errorf("%s needs the parameter %s: %s", a.Name, d.Name, d.Help)
		default:
			p[d.Name] = d.Default
		}
	}
	for name := range given {
		if !known[name] {
			return nil, fmt.Errorf("%s has no parameter %s", a.Name, name)
		}
	}
	return p, nil
}

// RunApp runs an app with the given parameters. It returns the results of the
// app's jobs in the order in which they ended, also with an error. [Run] describes
// errors and cancellation.
func RunApp(ctx context.Context, a *App, given Params, o Options) (results []*Result, err error) {
	pl, err := newPlanner(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pl.target.Close()) }()
	return pl.runApp(ctx, a, given, o)
}

// runApp runs an app, which may be a chain.
func (pl *planner) runApp(ctx context.Context, a *App, given Params, o Options) ([]*Result, error) {
	p, err := a.Check(given)
	if err != nil {
		return nil, err
	}
	if a.Chain != nil {
		return pl.runChain(ctx, a, p, o)
	}
	j, err := a.Job(p)
	if err != nil {
		return nil, err
	}
	r, err := pl.run(ctx, j, &feature.Recipe{App: a.Name, Params: p}, o)
	if r == nil {
		return nil, err
	}
	return []*Result{r}, err
}

// runChain runs the steps of a chain.
func (pl *planner) runChain(ctx context.Context, a *App, p Params, o Options) (results []*Result, err error) {
	temp, remove, err := pl.target.ChainDir(o.Output)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var mu sync.Mutex
	chain := &Chain{files: &Files{pl.schemes}, Params: p, Inputs: o.Inputs, temp: temp, out: o.Output}
	chain.run = func(ctx context.Context, step string, p Params, in []string, out string) error {
		build := a.Steps[step]
		if build == nil {
			return fmt.Errorf("%s has no step %q", a.Name, step)
		}
		j, err := build(p)
		if err != nil {
			return err
		}
		so := o
		so.Inputs, so.Output, so.chainDir = in, out, temp
		if out != o.Output {
			so.OutputCompress = ""
		}
		r, err := pl.run(ctx, j, &feature.Recipe{App: a.Name, Step: step, Params: p}, so)
		if r != nil {
			mu.Lock()
			results = append(results, r)
			mu.Unlock()
		}
		return err
	}
	err = a.Chain(ctx, chain)
	return results, err
}
