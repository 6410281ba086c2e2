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

	"github.com/slotwise/slotwise/internal/feature"
	"github.com/slotwise/slotwise/internal/local"
)

// MixJob is one entry of a mix: an app or a job, and when it is submitted.
type MixJob struct {
	Name    string // for the report
	App     *App
	Params  Params
	Job     *Job          // instead of App
	Delay   time.Duration // from the start of the mix to the submission
	After   []int         // indexes of earlier entries that must have ended, well or not, before the submission
	Options Options       // its Cluster is that of the mix; without Output the result is thrown away
}

// Swap changes the policy while a mix runs.
type Swap struct {
	At     time.Duration // from the start of the mix
	Policy string
	Set    map[string]string
}

// MixOptions say on what a mix runs and how.
type MixOptions struct {
	Cluster  ClusterOptions
	Compress string // codec of intermediate data
	// Features are what the jobs need beyond local files. Those of the single
	// jobs are ignored.
	Features []Feature
	Swaps    []Swap
	// Alone has each job run by itself first, to compare with.
	Alone bool
	// Learned is what the policy has learned in an earlier run, from
	// MixResult.Learned; nil if there was none.
	Learned []byte
}

// MixResult says how the jobs of a mix fared.
type MixResult struct {
	Policy   string        `json:"policy"`
	Makespan time.Duration `json:"makespan_ns"` // from the first submission to the last end
	// MapUse and ReduceUse are the fractions of the slots' time that was used
	// during the makespan.
	MapUse    float64    `json:"map_slot_use"`
	ReduceUse float64    `json:"reduce_slot_use"`
	Jobs      []MixEntry `json:"jobs"`
	Learned   []byte     `json:"-"`
}

// MixEntry is one entry of a mix when it has ended.
type MixEntry struct {
	Name     string        `json:"name"`
	State    string        `json:"state"`
	Submit   time.Duration `json:"submit_ns"`          // since the mix began
	Wait     time.Duration `json:"wait_ns"`            // from submission to the first task
	Run      time.Duration `json:"run_ns"`             // from the first task to the end
	Alone    time.Duration `json:"alone_ns,omitempty"` // from submission to the end with nothing beside it
	Slowdown float64       `json:"slowdown,omitempty"` // (wait + run) over alone
	Results  []*Result     `json:"results"`            // one for each job of a chain
	Err      error         `json:"-"`
}

// RunMix runs several jobs on one in-process cluster, so that they compete for
// its slots. It returns when all have ended. A job that fails does not end the
// others: its entry has the error, and RunMix's error joins them all.
func RunMix(ctx context.Context, jobs []MixJob, o MixOptions) (*MixResult, error) {
	if len(jobs) == 0 {
		return nil, errors.New("a mix without jobs")
	}
	for i := range jobs {
		for _, p := range jobs[i].After {
			if p < 0 || p >= i {
				return nil, fmt.Errorf("%s: it waits for entry %d, which is not one before it (it is number %d)", jobs[i].Name, p, i)
			}
		}
	}
	alone := make([]time.Duration, len(jobs))
	if o.Alone {
		for i := range jobs {
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
	if r == nil {
		return nil, err
	}
	for i := range r.Jobs {
		if e := &r.Jobs[i]; alone[i] > 0 && e.Err == nil {
			e.Alone = alone[i]
			e.Slowdown = float64(e.Wait+e.Run) / float64(alone[i])
		}
	}
	return r, err
}

// indexSame finds a job that does the same as j.
func indexSame(jobs []MixJob, j *MixJob) int {
	for i := range jobs {
		if jobs[i].Name == j.Name && jobs[i].App == j.App && jobs[i].Job == j.Job && maps.Equal(jobs[i].Params, j.Params) {
			return i
		}
	}
	return -1
}

func runAlone(ctx context.Context, j MixJob, o MixOptions) (MixEntry, error) {
	o.Alone, o.Swaps, o.Learned = false, nil, nil
	j.Delay, j.After, j.Options.Output = 0, nil, ""
	r, err := runMix(ctx, []MixJob{j}, o)
	if err != nil {
		return MixEntry{}, err
	}
	return r.Jobs[0], nil
}

// runMix starts the cluster, submits each job at its time and swaps policies at
// theirs.
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
			if sleep(ctx, jobs[i].Delay) && waitForAll(ctx, ended, jobs[i].After) {
				r.Jobs[i] = runEntry(ctx, c, localPlanner(c, set.Schemes), &jobs[i], i, start)
			} else {
				r.Jobs[i] = MixEntry{Name: jobs[i].Name, State: "killed", Err: context.Cause(ctx)}
			}
		})
	}
	wg.Wait()
	r.Policy = c.Policy()
	r.Learned, err = c.Learned()
	errs := []error{err, swapped()}
	for i := range r.Jobs {
		if e := &r.Jobs[i]; e.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.Name, e.Err))
		}
	}
	r.sum(c)
	return r, errors.Join(errs...)
}

// swapLater makes the swaps, in order of their times; what it returns stops
// that and says what failed.
func swapLater(ctx context.Context, c *local.Cluster, swaps []Swap) func() error {
	ctx, cancel := context.WithCancel(ctx)
	start := c.Now()
	swaps = slices.SortedStableFunc(slices.Values(swaps), func(a, b Swap) int { return cmp.Compare(a.At, b.At) })
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, s := range swaps {
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

// runEntry runs one entry and describes how it went.
func runEntry(ctx context.Context, c *local.Cluster, p *planner, j *MixJob, i int, start time.Duration) MixEntry {
	o := j.Options
	if o.Output == "" {
		o.Output = filepath.Join(c.TempDir(), fmt.Sprintf("result-%d", i))
	}
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
			r.Output = "" // it is gone when the mix has ended
		}
	}
	e.Submit = submitted - start
	if len(e.Results) > 0 {
		first, last := e.Results[0], e.Results[len(e.Results)-1]
		submitted, ended = first.Submitted, last.Ended
		e.Wait = max(0, first.Started-submitted)
	}
	e.Run = ended - submitted - e.Wait
	return e
}

// sum works out the figures of the whole mix.
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
