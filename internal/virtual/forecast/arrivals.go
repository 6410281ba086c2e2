package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// arrivals describes the jobs that futures submit: at random moments, at the mean rate of the
// recent past, and each like a job of that past. The zero value submits none.
type arrivals struct {
	every time.Duration // mean time between two; 0 is never
	like  []template
	since time.Duration // the first of the submissions from which both follow
}

// template is a job that arrivals resemble. Its tasks state nothing.
type template struct {
	job     workload.Job
	seconds [job.Kinds][]float64 // sorted
	// processors is as in Times.
	processors [job.Kinds]float64
}

const (
	arrivalWindow = time.Hour
	// arrivalApart is the least time between two submissions that count as two. Jobs that
	// are submitted together say nothing about a rate.
	arrivalApart = 2 * time.Second
	leastArrived = 5   // submissions from which a rate is concluded
	mostArrivals = 300 // in one future
	mostTemplate = 20_000
)

// newArrivals concludes from the submissions of the past how jobs will be submitted.
func newArrivals(s *State, o overlap) arrivals {
	var a arrivals
	var times []time.Duration
	var blank tasks
	add := func(submitted time.Duration, spec *job.Spec, maps int, t *Times) {
		// Only the last hour: the rate at night says little about the morning's.
		if submitted < s.At-arrivalWindow {
			return
		}
		times = append(times, submitted)
		tasks := [job.Kinds]int{maps, spec.Reduces}
		var x template
		for k := range job.Kind(job.Kinds) {
			// It counts for the rate and is no template: its times are unknown, or its tasks would take most
			// of the futures' events.
			if tasks[k] > 0 && len(t.Seconds[k]) == 0 || tasks[k] > mostTemplate {
				return
			}
			x.seconds[k] = t.full(k, o)
			slices.Sort(x.seconds[k])
		}
		x.processors = t.Processors
		x.job = workload.Job{Name: spec.Name, Request: spec.Request, Maps: blank.of(maps), Reduces: blank.of(spec.Reduces)}
		// A virtual attempt reports no progress, so a time-out would kill it. The submission is for repeat.
		x.job.TaskTimeout, x.job.Submit = -1, submitted
		a.like = append(a.like, x)
	}
	for i := range s.Past {
		add(s.Past[i].Submitted, &s.Past[i].Spec, s.Past[i].Maps, &s.Past[i].Times)
	}
	for i := range s.Jobs {
		add(s.Jobs[i].Submitted, &s.Jobs[i].Spec, len(s.Jobs[i].Spec.Splits), &s.Jobs[i].Times)
	}
	// Past and live jobs are two lists, each sorted.
	slices.Sort(times)
	times = slices.CompactFunc(times, func(a, b time.Duration) bool { return b-a < arrivalApart })
	if len(times) < leastArrived || len(a.like) == 0 {
		return arrivals{}
	}
	a.since = times[0]
	// From the first submission to the moment of the copy, and not to the last one: a quiet end lowers the
	// rate.
	a.every = (s.At - a.since) / time.Duration(len(times))
	return a
}

// plan returns the jobs that are submitted on the way of a future.
func (w *future) plan(a *arrivals) []workload.Job {
	if a.every <= 0 {
		return nil
	}
	// An id that no job has, so that arrivals draw apart from the tasks and are the same under every variant.
	d := w.run.model.drawOf(w.number, 1<<62)
	at := w.run.state.At
	jobs := make([]workload.Job, mostArrivals)
	w.like = make([]*template, mostArrivals)
	for i := range jobs {
		// Exponential gaps: a Poisson process.
		at += seconds(-float64(a.every.Seconds() * portable.Log(d.uniform())))
		w.like[i] = &a.like[min(len(a.like)-1, int(d.uniform()*float64(len(a.like))))]
		jobs[i] = w.like[i].job
		jobs[i].Submit = at
	}
	return jobs
}

// repeat returns the jobs that are submitted within some time in a future which repeats the past
// from a random moment on. Unlike plan it keeps jobs together that came together, because which
// policy is best for them depends on that.
func (w *future) repeat(a *arrivals, within time.Duration) (jobs []workload.Job) {
	at := w.run.state.At
	past := at - a.since
	if a.every <= 0 || past <= 0 {
		return nil
	}
	d := w.run.model.drawOf(w.number, 1<<62)
	from := seconds(float64(d.uniform() * past.Seconds()))
	type arrival struct {
		after time.Duration
		like  *template
	}
	var list []arrival
	for i := range a.like {
		// The past is a ring: after its last moment comes its first.
		after := (a.like[i].job.Submit - a.since - from + past) % past
		// Twice the bound, because the list is sorted by time only below, where the bound then cuts the
		// latest.
		for ; after <= within && len(list) < 2*mostArrivals; after += past {
			list = append(list, arrival{after, &a.like[i]})
		}
	}
	slices.SortStableFunc(list, func(x, y arrival) int { return cmp.Compare(x.after, y.after) })
	for _, x := range list[:min(len(list), mostArrivals)] {
		j := x.like.job
		j.Submit = at + x.after
		jobs, w.like = append(jobs, j), append(w.like, x.like)
	}
	return jobs
}

// words describes the arrivals as an assumption.
func (a *arrivals) words() string {
	if a.every <= 0 {
		return "no further job is submitted"
	}
	return fmt.Sprintf("jobs are submitted as in the last hour, about one every %v", a.every.Round(time.Second))
}
