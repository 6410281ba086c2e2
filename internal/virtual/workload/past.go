package workload

import (
	"fmt"
	"iter"

	"github.com/slotwise/slotwise/sched/job"
)

// PastJob is an ended job of slotwise's own history. Times are in ms since the epoch.
type PastJob struct {
	ID, Name string
	job.Request
	// Chain names the chain whose driver submitted the job; "" if none did.
	Chain            string
	Submitted, Ended int64
	Succeeded        bool
	InputBytes       int64 // of all maps
	Maps, Reduces    []PastTask
}

// PastTask is a task of a PastJob.
type PastTask struct {
	Hosts    []string // of its split
	Attempts []PastAttempt
}

// PastAttempt is an attempt of a PastTask. Ended is 0 while it runs.
type PastAttempt struct {
	Started, Ended int64
	Succeeded      bool
}

// ReadPast reads slotwise's own history, whose jobs come in the order of their numbers. A job
// becomes a job by the rules of ReadRumen. A step of a chain is submitted after the step that
// had ended last before it. Errors and warnings name the folder. This package does no I/O, so
// the caller opens the history.
func ReadPast(folder string, jobs iter.Seq2[*PastJob, error], options TraceOptions) (*Trace, error) {
	im, err := newImporter(folder, options)
	if err != nil {
		return nil, err
	}
	if jobs == nil {
		return nil, fmt.Errorf("%s: this program cannot read slotwise's history", folder)
	}
	o := &RumenOptions{TraceOptions: options}
	chains := map[string]*follower{}
	left := 0
	for p, err := range jobs {
		if err == nil && im.full() {
			break
		}
		switch {
		case err != nil:
		case !p.Succeeded && !options.All:
			left++
		default:
			err = im.past(p, o, chains)
		}
		if err != nil && len(im.r.errs) < maxErrors {
			im.r.errs = append(im.r.errs, fmt.Errorf("%s: %w", folder, err))
		}
	}
	im.warnOf(left, "jobs that did not succeed are left out")
	return im.finish()
}

// past adds a job of the history.
func (im *importer) past(p *PastJob, o *RumenOptions, chains map[string]*follower) error {
	// Without counters: the history's own bytes are of the whole job, and follow below.
	r := &rumenJob{ID: p.ID, Name: p.Name, Submit: &p.Submitted,
		MapTasks: pastTasks(p.Maps), ReduceTasks: pastTasks(p.Reduces)}
	if !p.Succeeded {
		r.Outcome = "FAILED"
	}
	j, ok, err := im.rumen(0, o, r)
	switch {
	case err != nil || !ok:
		return err
	case p.InputBytes < 0 || p.InputBytes > maxBytes:
		return fmt.Errorf("job %q: %d input bytes, must be from 0 to 2⁶⁰", p.ID, p.InputBytes)
	}
	// The whole request: a replayed job asks the scheduler for the same memory, processors and slow start as
	// in the run. The Rumen form can state few of these.
	j.Request = p.Request
	// A local run records the default as if the job had stated it. TraceOptions.SlowStart is for
	// jobs that stated none.
	if j.SlowStart == job.DefaultSlowStart {
		j.SlowStart = 0
	}
	for i := range j.Maps {
		j.Maps[i].Input = share(p.InputBytes, i, len(j.Maps))
	}
	if p.Chain != "" {
		f := chains[p.Chain]
		if f == nil {
			f = &follower{}
			chains[p.Chain] = f
		}
		j.After = f.after(j.Submit)
		// The index that addRecorded below is about to use. If it refuses the job, the whole trace is an
		// error.
		f.add(epoch(max(p.Ended, p.Submitted)), []int{len(im.jobs)})
	}
	j.Origin = Own
	im.addRecorded(0, j, &p.Submitted, &p.Ended)
	return nil
}

// pastTasks translates tasks.
func pastTasks(list []PastTask) []rumenTask {
	tasks := make([]rumenTask, len(list))
	for i := range list {
		tasks[i].ID = fmt.Sprint(i)
		for _, h := range list[i].Hosts {
			tasks[i].PreferredLocation = append(tasks[i].PreferredLocation, struct {
				Layers []string `json:"layers"`
			}{[]string{h}})
		}
		for _, a := range list[i].Attempts {
			x := rumenAttempt{Start: &a.Started}
			if a.Ended > 0 {
				x.Finish = &a.Ended
			}
			if a.Succeeded {
				x.Result = "SUCCESS"
			}
			tasks[i].Attempts = append(tasks[i].Attempts, x)
		}
	}
	return tasks
}
