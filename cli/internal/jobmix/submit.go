package jobmix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/remote"
)

// SubmitOptions say how Submit reaches the cluster.
type SubmitOptions struct {
	// Remote is the cluster. With Detach, Submit returns when the last job is
	// submitted; else when all have ended.
	Remote remote.Cluster
	// SetPolicy installs a policy on the cluster, for the mix's swaps.
	SetPolicy func(ctx context.Context, s mapreduce.Swap) error
	// Accepted, if set, is called from one goroutine at a time when the master
	// has accepted job i of the list under an id.
	Accepted func(i int, id string)
}

// Submitted is the outcome of one job of a mix.
type Submitted struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"` // empty if it was not submitted
	// State is submitted (with Detach), succeeded, failed or killed.
	State   string              `json:"state"`
	Error   string              `json:"error,omitempty"`
	Submit  time.Duration       `json:"submit_ns"` // since the mix began
	Output  string              `json:"output,omitempty"`
	Results []*mapreduce.Result `json:"results,omitempty"` // of the job, or of each job of a chain
	Err     error               `json:"-"`
}

// CheckSubmit returns an error for a job of a mix that a cluster cannot run. detach means that the
// submitter does not stay until the jobs have ended. run needs neither rule: it stays, and has its
// own temporary outputs.
func CheckSubmit(jobs []mapreduce.MixJob, detach bool) error {
	var errs []error
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.Options.Output == "" && !(j.App != nil && j.App.NoOutput):
			errs = append(errs, fmt.Errorf("job %q: output is missing; add it to the file, or name a directory for all with --output", j.Name))
		case detach && len(j.After) > 0:
			errs = append(errs, fmt.Errorf("job %q: it is submitted after another has ended, so --wait is needed", j.Name))
		}
	}
	return errors.Join(errs...)
}

// CheckOutputs returns an error that names two jobs of a mix of which one would write the
// output of the other, or below it. With --overwrite the second one would replace what the
// first one has reported as written. Paths are compared as text: links are not resolved.
func CheckOutputs(jobs []mapreduce.MixJob) error {
	type output struct{ place, job string }
	var list []output
	for i := range jobs {
		if out := jobs[i].Options.Output; out != "" {
			list = append(list, output{place(out), jobs[i].Name})
		}
	}
	slices.SortFunc(list, func(a, b output) int { return cmp.Or(strings.Compare(a.place, b.place), strings.Compare(a.job, b.job)) })
	for i := 1; i < len(list); i++ {
		// Each place ends in a slash, so one that contains others comes directly before them.
		if a, b := list[i-1], list[i]; strings.HasPrefix(b.place, a.place) {
			return fmt.Errorf("jobs %q and %q: output %s of one is, or lies in, the output of the other; give each job its own", a.job, b.job, strings.TrimSuffix(b.place, "/"))
		}
	}
	return nil
}

// place returns a directory's URI in a form in which the directories in it begin with it.
func place(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if ok && scheme != "file" {
		// Cleaned, so that a/b and a//b are one directory.
		return scheme + "://" + path.Join(rest) + "/"
	}
	if ok {
		uri = rest
	}
	if abs, err := filepath.Abs(uri); err == nil {
		uri = abs
	}
	return strings.TrimSuffix(uri, "/") + "/"
}

// PlaceOutputs gives the jobs without an output a directory each below dir. It is
// named after the job, with a number if several have the name.
func PlaceOutputs(jobs []mapreduce.MixJob, dir string) {
	seen := make(map[string]int) // how often each name was given, or asked for
	for i := range jobs {
		j := &jobs[i]
		if j.Options.Output != "" {
			continue
		}
		base := strings.ReplaceAll(cmp.Or(j.Name, "job"), "/", "_")
		if base == "." || base == ".." { // dir itself, or the directory above it
			base = strings.ReplaceAll(base, ".", "_")
		}
		name := base
		for seen[name] > 0 { // a job may be called as the second one of another name is
			seen[base]++
			name = fmt.Sprintf("%s-%d", base, seen[base])
		}
		seen[name]++
		scheme, rest, found := strings.Cut(dir, "://")
		if found {
			j.Options.Output = scheme + "://" + path.Join(rest, name)
		} else {
			j.Options.Output = path.Join(dir, name)
		}
	}
}

// Submit submits the jobs of a mix to a cluster, each at its time, and makes
// the swaps at theirs. Jobs reach the master in the order of their times, or of
// the list where the times are equal, so that the preparation of a large job
// delays those after it. Jobs that wait for others are not part of this order.
//
// A failed job does not stop the others; the error joins the errors of all
// jobs. When ctx ends, Submit kills the jobs that it waits for and submits no
// further job.
func Submit(ctx context.Context, jobs []mapreduce.MixJob, swaps []mapreduce.Swap, o SubmitOptions) ([]Submitted, error) {
	s := &submitter{o: o, start: time.Now(), jobs: jobs, done: make([]Submitted, len(jobs)),
		accepted: make([]chan struct{}, len(jobs)), ended: make([]chan struct{}, len(jobs))}
	for i := range jobs {
		s.accepted[i], s.ended[i] = make(chan struct{}), make(chan struct{})
	}
	var wg sync.WaitGroup
	before := -1 // the last job that waits for its time alone
	for _, i := range s.order() {
		turn := before
		wg.Go(func() { s.submit(ctx, i, turn) })
		if len(jobs[i].After) == 0 {
			before = i
		}
	}
	swapErr := s.swap(ctx, swaps)
	wg.Wait()
	errs := []error{swapErr}
	for i := range s.done {
		if e := &s.done[i]; e.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.Name, e.Err))
		}
	}
	return s.done, errors.Join(errs...)
}

// submitter submits the jobs of one mix. A separate goroutine submits each job;
// it owns done[i] until it closes ended[i].
type submitter struct {
	o        SubmitOptions
	start    time.Time
	jobs     []mapreduce.MixJob
	done     []Submitted
	accepted []chan struct{} // closed when the master has answered
	ended    []chan struct{}
	mu       sync.Mutex // serialises calls of o.Accepted
}

// order returns the indexes of the jobs by time of submission.
func (s *submitter) order() []int {
	list := make([]int, len(s.jobs))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(s.jobs[a].Delay, s.jobs[b].Delay) })
	return list
}

// submit submits job i at its time, but not before the master has accepted job
// turn, unless turn is negative.
func (s *submitter) submit(ctx context.Context, i, turn int) {
	j, e := &s.jobs[i], &s.done[i]
	// Called at the latest when this job ends, whatever happens: the next job in the order
	// waits for this call.
	answered := sync.OnceFunc(func() { close(s.accepted[i]) })
	defer close(s.ended[i])
	defer answered()
	// Killed until something else is known: an interrupt before the submission leaves it so.
	*e = Submitted{Name: j.Name, State: "killed", Output: j.Options.Output}
	wait := []<-chan struct{}{}
	if turn >= 0 {
		wait = append(wait, s.accepted[turn])
	}
	for _, p := range j.After {
		wait = append(wait, s.ended[p])
	}
	if e.Err = s.sleep(ctx, j.Delay, wait); e.Err != nil {
		e.Error = "not submitted"
		return
	}
	// A copy, because Accepted differs from job to job.
	cluster := s.o.Remote
	cluster.Accepted = func(id string) {
		e.ID, e.Submit = id, time.Since(s.start)
		if s.o.Accepted != nil {
			s.mu.Lock()
			s.o.Accepted(i, id)
			s.mu.Unlock()
		}
		// The next job of the order may be submitted from here on.
		answered()
	}
	o := j.Options
	o.Name, o.Remote = cmp.Or(j.Name, o.Name), &cluster
	if j.App != nil {
		e.Results, e.Err = mapreduce.RunApp(ctx, j.App, j.Params, o)
	} else {
		var r *mapreduce.Result
		if r, e.Err = mapreduce.Run(ctx, j.Job, o); r != nil {
			e.Results = []*mapreduce.Result{r}
		}
	}
	switch {
	case e.Err == nil && cluster.Detach:
		e.State, e.Results = "submitted", nil
	case e.Err == nil:
		e.State = "succeeded"
	// With a cancelled context the job was killed by this command; the state of the beginning
	// stays.
	case ctx.Err() == nil:
		e.State = "failed"
	}
	if e.Err != nil {
		e.Error = e.Err.Error()
	}
}

// sleep waits until a time since the start of the mix, and for all channels. It
// returns the cause if ctx ends first.
func (s *submitter) sleep(ctx context.Context, until time.Duration, channels []<-chan struct{}) error {
	t := time.NewTimer(until - time.Since(s.start))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// After the time and not beside it: both must have come, in any order.
	for _, c := range channels {
		select {
		case <-c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}

// swap installs policies at their times. A swap that fails stops no later one and no
// jobs.
func (s *submitter) swap(ctx context.Context, swaps []mapreduce.Swap) error {
	swaps = slices.SortedStableFunc(slices.Values(swaps), func(a, b mapreduce.Swap) int { return cmp.Compare(a.At, b.At) })
	var errs []error
	for _, x := range swaps {
		if err := s.sleep(ctx, x.At, nil); err != nil {
			break
		}
		if err := s.o.SetPolicy(ctx, x); err != nil {
			errs = append(errs, fmt.Errorf("policy %s at %v: %w", x.Policy, x.At, err))
		}
	}
	return errors.Join(errs...)
}
