package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// Check returns the app's parameters with defaults filled in. Unknown and missing
// parameters are errors.
func (a *App) Check(given Params) (Params, error) {
	if err := a.checkNames(given); err != nil {
		return nil, err
	}
	p := Params{}
	for _, d := range a.Params {
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
	return p, nil
}

// checkNames returns an error for a parameter that the app does not have. It comes before
// errors for parameters that are missing: a misspelt parameter is both.
func (a *App) checkNames(given Params) error {
	var known []string
	for _, d := range a.Params {
		known = append(known, d.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) {
			continue
		}
		if best := suggest.Nearest(name, known); best != "" {
			return fmt.Errorf("%s has no parameter %s; did you mean %s?", a.Name, name, best)
		}
		return fmt.Errorf("%s has no parameter %s", a.Name, name)
	}
	return nil
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
	if results, err = pl.runApp(ctx, a, given, o); errors.Is(err, errDryRun) {
		err = nil
	}
	return results, err
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
	j.noOutput = a.NoOutput
	r, err := pl.run(ctx, j, &feature.Recipe{App: a.Name, Params: p}, o)
	if r == nil {
		return nil, err
	}
	return []*Result{r}, err
}

// runChain runs a chain: its function in this process, or on a cluster in a driver.
func (pl *planner) runChain(ctx context.Context, a *App, p Params, o Options) (results []*Result, err error) {
	c, err := chainOf(a, p, o)
	if err != nil {
		return nil, &PlanError{err}
	}
	steps := &steps{planner: pl, app: a, options: o}
	outcomes, err := pl.target.RunChain(ctx, c, func(ctx context.Context, dir string) error {
		chain := steps.chain(p, dir)
		err := a.Chain(ctx, chain)
		if failed := chain.failed.Load(); failed != nil {
			return *failed // err may be a consequence, such as an output that Then has not made
		}
		return err
	})
	results = steps.ended()
	for _, out := range outcomes {
		results = append(results, newResult(out, cmp.Or(out.Output, o.Output)))
	}
	return results, err
}

// chainOf describes a chain for a target that runs its function elsewhere.
func chainOf(a *App, p Params, o Options) (*feature.Chain, error) {
	// Here, because no step is planned in this process: the driver would find out only on the
	// cluster.
	if o.Output == "" {
		return nil, errors.New("no output directory is given")
	}
	c := &feature.Chain{
		Name: cmp.Or(o.Name, a.Name), App: a.Name, Params: p, Inputs: o.Inputs, NamedInputs: o.NamedInputs, Include: o.Include, Exclude: o.Exclude, Output: o.Output,
		Replace: storage.ReplaceOf(o.Overwrite, o.Force),
		Reduces: o.Reduces, SplitSize: o.SplitSize, Compress: o.Compress, OutputCompress: o.OutputCompress,
		Request: o.Request, Progress: o.progress(),
	}
	if choice := o.choice(); choice.Given() {
		rows, err := o.rows()
		if err != nil {
			return nil, err
		}
		// "" would mean in the driver that the user has chosen no format.
		c.Rows = cmp.Or(rows.String(), format.Auto)
	}
	if o.OutputFormat != "" || len(o.OutputColumns) > 0 {
		rows, err := o.outputRows()
		if err != nil {
			return nil, err
		}
		c.OutputRows = cmp.Or(rows.String(), format.Text)
	}
	return c, nil
}

// drive runs the function of a chain in a driver.
func drive(ctx context.Context, c *feature.Chain, t feature.Target, schemes *storage.Schemes, lookup func(string) (*App, error)) error {
	a, err := lookup(c.App)
	if err != nil {
		return err
	}
	if a.Chain == nil {
		return fmt.Errorf("app %s is no chain of jobs", c.App)
	}
	o := Options{
		Inputs: c.Inputs, NamedInputs: c.NamedInputs, Include: c.Include, Exclude: c.Exclude, Output: c.Output,
		Overwrite: c.Replace != storage.ReplaceNothing, Force: c.Replace == storage.ReplaceAll, Reduces: c.Reduces,
		SplitSize: c.SplitSize, Compress: c.Compress, OutputCompress: c.OutputCompress, Request: c.Request,
		Notify: feature.NotifyLog, Format: c.Rows, OutputFormat: c.OutputRows,
	}
	// The submitter has named the chain. Without this its steps would have the same names in
	// every chain of the app.
	if c.Name != a.Name {
		o.Name = c.Name
	}
	_, err = (&planner{t, schemes}).runChain(ctx, a, c.Params, o)
	return err
}

// steps runs the steps of one chain. Several goroutines may use it.
type steps struct {
	planner *planner
	app     *App
	options Options // of the chain

	mu struct {
		sync.Mutex
		results []*Result         // in the order in which the steps ended
		outputs map[string]string // the step that writes to each output
	}
}

// chain returns the object by which the app's function runs the steps. dir holds the
// intermediate outputs.
func (s *steps) chain(p Params, dir string) *Chain {
	s.options.chainDir = dir
	return &Chain{made: map[string]int{}, files: &Files{s.planner.schemes, s.options.outages()}, Params: p, Inputs: s.options.Inputs, temp: dir, out: s.options.Output, run: s.run}
}

// run runs the job of a step.
func (s *steps) run(ctx context.Context, step string, p Params, in []string, out string) error {
	build := s.app.Steps[step]
	if build == nil {
		return &feature.FinalError{Err: fmt.Errorf("%s has no step %q", s.app.Name, step)}
	}
	if err := s.claim(step, out); err != nil {
		return err
	}
	j, err := build(p)
	if err != nil {
		return err
	}
	o := s.options
	// A copy of the chain's options, since steps may run at the same time.
	o.Inputs, o.Output = in, out
	// The chain's named inputs are for the steps that have sources of these names. Another step would
	// refuse them as unknown.
	names := sourceNames(j)
	o.NamedInputs = maps.Clone(o.NamedInputs)
	maps.DeleteFunc(o.NamedInputs, func(name string, _ []string) bool { return !slices.Contains(names, name) })
	if o.Name != "" {
		o.Name += "/" + j.Name
	}
	// The user's wishes are for the chain's result. Intermediate outputs are read by later steps in the
	// step's own format.
	if out != s.options.Output {
		o.OutputCompress, o.OutputFormat, o.OutputColumns, o.Overwrite, o.Force = "", "", nil, false, false
	}
	r, err := s.planner.run(ctx, j, &feature.Recipe{App: s.app.Name, Step: step, Params: p}, o)
	if r != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.results = append(s.mu.results, r)
	}
	return err
}

// claim notes that a step writes to an output. On a cluster the output identifies the
// step, so no two may have one.
func (s *steps) claim(step, out string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.mu.outputs[out]; taken {
		return &feature.FinalError{Err: fmt.Errorf("%s: step %s writes to %s, which is the output of step %s: each step needs an output of its own", s.app.Name, step, out, other)}
	}
	if s.mu.outputs == nil {
		s.mu.outputs = map[string]string{}
	}
	s.mu.outputs[out] = step
	return nil
}

// ended returns the results of the steps.
func (s *steps) ended() []*Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.results
}
