package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
)

// MixJob is one entry of a mix: an app or a job, and the time of its submission.
type MixJob struct {
	Name    string // of the job, see Options.Name; it wins over that field
	App     *App
	Params  Params
	Job     *Job          // instead of App
	Delay   time.Duration // from the start of the mix to the submission
	After   []int         // indexes of entries that must have ended, in any state, before the submission
	Options Options       // Cluster, Compress and Features are ignored; without Output the result is removed
}

// Swap changes the policy while a mix runs.
type Swap struct {
	At     time.Duration // from the start of the mix
	Policy string
	Set    map[string]string
}

// MixOptions configure the run of a mix.
type MixOptions struct {
	Cluster  ClusterOptions
	Compress string // codec of intermediate data
	// Features serve all jobs of the mix.
	Features []Feature
	Swaps    []Swap
	// Alone runs each job by itself first, to compute MixEntry.Slowdown. Entries with the same
	// name, program, parameters and inputs share one such run.
	Alone bool
	// Learned is the policy's learned state, MixResult.Learned of an earlier run;
	// nil to start without.
	Learned []byte
}

// MixResult reports how a mix ran.
type MixResult struct {
	Policy   string        `json:"policy"`
	Makespan time.Duration `json:"makespan_ns"` // from the first submission to the last end
	// MapUse and ReduceUse are the fractions of the slot time during the makespan
	// in which attempts occupied the slots.
	MapUse    float64    `json:"map_slot_use"`
	ReduceUse float64    `json:"reduce_slot_use"`
	Jobs      []MixEntry `json:"jobs"`
	Learned   []byte     `json:"-"`
}

// MixEntry reports how one entry of a mix ended.
type MixEntry struct {
	Name     string        `json:"name"`
	State    string        `json:"state"`
	Submit   time.Duration `json:"submit_ns"`          // since the mix began
	Wait     time.Duration `json:"wait_ns"`            // from submission to the first task
	Run      time.Duration `json:"run_ns"`             // from the first task to the end
	Alone    time.Duration `json:"alone_ns,omitempty"` // from submission to the end, run alone
	Slowdown float64       `json:"slowdown,omitempty"` // (wait + run) over alone
	Results  []*Result     `json:"results"`            // one for each job of a chain
	Err      error         `json:"-"`
}

// RunMix runs several jobs on one in-process cluster, where they compete for the
// slots. It returns when all have ended. A failed job does not affect the others:
// its entry has the error, and RunMix returns all errors joined.
func RunMix(ctx context.Context, jobs []MixJob, o MixOptions) (*MixResult, error) {
	if len(jobs) == 0 {
		return nil, errors.New("a mix without jobs")
	}
	for i := range jobs {
		for _, p := range jobs[i].After {
			// Only entries before it, so that no two entries can wait for each other.
			if p < 0 || p >= i {
				return nil, fmt.Errorf("%s: it waits for entry %d, which is not one before it (it is number %d)", jobs[i].Name, p, i)
			}
		}
	}
	alone := make([]time.Duration, len(jobs))
	if o.Alone {
		for i := range jobs {
			// A mix often runs the same program on the same input many times. One measurement is
			// enough.
			first := indexSame(jobs[:i], &jobs[i])
			if first >= 0 {
				alone[i] = alone[first]
				continue
			}
			e, err := runAlone(ctx, jobs[i], o)
			if err != nil {
				return nil, fmt.Errorf("%s, alone: %w", jobs[i].Name, err)
			}
			alone[i] = e.Wait + e.Run
		}
	}
	r, err := runMix(ctx, jobs, o)
	// With a result, err holds the errors of single entries, and the report is still made.
	if r == nil {
		return nil, err
	}
	for i := range r.Jobs {
		// The time of a failed job says nothing about its slowdown.
		if e := &r.Jobs[i]; alone[i] > 0 && e.Err == nil {
			e.Alone = alone[i]
			e.Slowdown = float64(e.Wait+e.Run) / float64(alone[i])
		}
	}
	return r, err
}

// indexSame returns the index of an entry that runs the same program as j on the same
// inputs, or -1.
func indexSame(jobs []MixJob, j *MixJob) int {
	return slices.IndexFunc(jobs, func(k MixJob) bool {
		return k.Name == j.Name && k.App == j.App && k.Job == j.Job && maps.Equal(k.Params, j.Params) &&
			slices.Equal(k.Options.Inputs, j.Options.Inputs) &&
			maps.EqualFunc(k.Options.NamedInputs, j.Options.NamedInputs, slices.Equal) &&
			slices.Equal(k.Options.Include, j.Options.Include) && slices.Equal(k.Options.Exclude, j.Options.Exclude)
	})
}

func runAlone(ctx context.Context, j MixJob, o MixOptions) (MixEntry, error) {
	// Without the state that earlier runs have learned: the time alone must not depend on the runs before.
	o.Alone, o.Swaps, o.Learned = false, nil, nil
	j.Delay, j.After, j.Options.Output = 0, nil, ""
	r, err := runMix(ctx, []MixJob{j}, o)
	if err != nil {
		return MixEntry{}, err
	}
	return r.Jobs[0], nil
}

// runMix starts the cluster, submits each job and swaps policies at the times
// given.
func runMix(ctx context.Context, jobs []MixJob, o MixOptions) (r *MixResult, err error) {
	set, err := feature.Combine(o.Features)
	if err != nil {
		return nil, err
	}
	c, err := o.Cluster.start(o.Compress, set)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if o.Learned != nil {
		if err := c.LoadLearned(o.Learned); err != nil {
			return nil, err
		}
	}
	r = &MixResult{Jobs: make([]MixEntry, len(jobs))}
	start := c.Now()
	swapped := swapLater(ctx, c, o.Swaps)
	var wg sync.WaitGroup
	ended := make([]chan struct{}, len(jobs))
	for i := range jobs {
		ended[i] = make(chan struct{})
		wg.Go(func() {
			defer close(ended[i])
			// After only names entries before this one, whose channels exist already.
			if sleep(ctx, jobs[i].Delay) && waitForAll(ctx, ended, jobs[i].After) {
				r.Jobs[i] = runEntry(ctx, c, localPlanner(c, set.Schemes, o.Cluster.NoSync), &jobs[i], i, start)
			} else {
				r.Jobs[i] = MixEntry{Name: jobs[i].Name, State: "killed", Err: context.Cause(ctx)}
			}
		})
	}
	wg.Wait()
	r.Policy = c.Policy()
	// After the last job and before the cluster is closed: the policy learns from every job.
	r.Learned, err = c.Learned()
	errs := []error{err, swapped()}
	for i := range r.Jobs {
		if e := &r.Jobs[i]; e.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.Name, e.Err))
		}
	}
	// Even with errors: the report covers the entries that ran.
	r.sum(c)
	return r, errors.Join(errs...)
}

// swapLater swaps policies in the order of their times, in a new goroutine.
// The function that it returns ends the goroutine and returns the errors.
func swapLater(ctx context.Context, c *local.Cluster, swaps []Swap) func() error {
	ctx, cancel := context.WithCancel(ctx)
	start := c.Now()
	swaps = slices.SortedStableFunc(slices.Values(swaps), func(a, b Swap) int { return cmp.Compare(a.At, b.At) })
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, s := range swaps {
			// A time that has passed is swapped at once, so two swaps at one time both happen, in their
			// order.
			if !sleep(ctx, start+s.At-c.Now()) {
				break
			}
			errs = append(errs, c.SetPolicy(s.Policy, s.Set))
		}
		done <- errors.Join(errs...)
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// waitForAll waits until the entries with these indexes have ended. It reports
// false if ctx was cancelled first.
func waitForAll(ctx context.Context, ended []chan struct{}, indexes []int) bool {
	for _, i := range indexes {
		select {
		case <-ended[i]:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// sleep waits for d and reports false if ctx was cancelled first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// runEntry runs one entry and returns its report.
func runEntry(ctx context.Context, c *local.Cluster, p *planner, j *MixJob, i int, start time.Duration) MixEntry {
	o := j.Options
	// The caller wants times only, but a job without an output is refused. The scratch space
	// goes away with the cluster.
	if o.Output == "" {
		o.Output = filepath.Join(c.TempDir(), fmt.Sprintf("result-%d", i))
	}
	o.Name = cmp.Or(j.Name, o.Name)
	e := MixEntry{Name: j.Name, State: "succeeded"}
	submitted := c.Now()
	if j.App == nil {
		var r *Result
		if r, e.Err = p.run(ctx, j.Job, nil, o); r != nil {
			e.Results = []*Result{r}
		}
	} else {
		e.Results, e.Err = p.runApp(ctx, j.App, j.Params, o)
	}
	ended := c.Now()
	if e.Err != nil {
		e.State = "failed"
	}
	for _, r := range e.Results {
		if j.Options.Output == "" {
			r.Output = "" // removed with the cluster
		}
	}
	e.Submit = submitted - start
	// The cluster's times, if a job was submitted: the planning before the submission is no
	// waiting for slots.
	if len(e.Results) > 0 {
		first, last := e.Results[0], e.Results[len(e.Results)-1]
		submitted, ended = first.Submitted, last.Ended
		// Started is 0 if no task was launched.
		e.Wait = max(0, first.Started-submitted)
	}
	e.Run = ended - submitted - e.Wait
	return e
}

// sum computes the makespan and the use of slots from the entries.
func (r *MixResult) sum(c *local.Cluster) {
	first, last := time.Duration(-1), time.Duration(0)
	var maps, reduces time.Duration
	for _, e := range r.Jobs {
		if first < 0 || e.Submit < first {
			first = e.Submit
		}
		last = max(last, e.Submit+e.Wait+e.Run)
		for _, x := range e.Results {
			maps += x.SlotTime.Map
			reduces += x.SlotTime.Reduce
		}
	}
	r.Makespan = last - first
	if r.Makespan > 0 {
		r.MapUse = maps.Seconds() / (r.Makespan.Seconds() * float64(c.MapSlots()))
		r.ReduceUse = reduces.Seconds() / (r.Makespan.Seconds() * float64(c.ReduceSlots()))
	}
}
