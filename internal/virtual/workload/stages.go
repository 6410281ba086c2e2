package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// stage is a set of equal tasks of a job whose stages form a graph, as in Spark and in
// Alibaba's traces.
type stage struct {
	name string
	// parents are indexes of stages that must end before the stage begins.
	parents []int
	tasks   []Task
}

// addStages adds the jobs into which the stages of a traced job are translated. base holds
// what these jobs have in common. It returns the indexes of the added jobs that no other
// one follows, and reports false if the parents form a cycle.
//
// Two stages become the maps and the reduces of one job if the second one has only parents
// without parents of their own, and these parents have no other child. Every other stage
// becomes a separate job: of maps if it has no parents, else of reduces, after the jobs
// of its parents. So every order of two stages in the graph is kept, and no other is added.
// Reduces begin after the last map, and their time counts from that end.
func (im *importer) addStages(line int, base Job, stages []stage) (last []int, ok bool) {
	order, ok := topological(stages)
	if !ok {
		return nil, false
	}
	children := make([]int, len(stages))
	for _, s := range stages {
		for _, p := range s.parents {
			children[p]++
		}
	}
	// A job here is maps and then reduces, and the reduces may follow these maps alone. So parents join a
	// stage's job only if they wait for nothing, since a job's maps start at once, and if no other stage
	// waits for them: that one would have to wait for the reduces, too, an order that the graph lacks.
	joined := make([]bool, len(stages)) // maps of a job with reduces
	for i := range stages {
		parents := stages[i].parents
		if len(parents) > 0 && !slices.ContainsFunc(parents, func(p int) bool { return len(stages[p].parents) > 0 || children[p] != 1 }) {
			for _, p := range parents {
				joined[p] = true
			}
		}
	}
	jobs := 0
	for _, isMaps := range joined {
		if !isMaps {
			jobs++
		}
	}
	jobOf := make([]int, len(stages)) // index in im.jobs
	followed := map[int]bool{}
	for _, i := range order {
		s := &stages[i]
		if joined[i] {
			continue
		}
		j := base
		j.After = slices.Clone(base.After)
		// Stages start after their parents; with Hadoop's default reduces would hold slots from 5 % of the
		// maps on.
		j.SlowStart = 1
		switch {
		case len(s.parents) == 0:
			j.Maps = s.tasks
		// All parents have joined or none has, so the first one decides.
		case joined[s.parents[0]]:
			for _, p := range s.parents {
				j.Maps = append(j.Maps, stages[p].tasks...)
			}
			j.Reduces = s.tasks
		default:
			for _, p := range s.parents {
				j.After = append(j.After, jobOf[p])
				followed[jobOf[p]] = true
			}
			j.Reduces = s.tasks
		}
		for t := range j.Reduces {
			// The traced stage began after its parents, so all of a task's time is after the last map.
			// Without the mark the simulator would let a part overlap with the maps.
			j.Reduces[t].Fetch = -1
		}
		// Each parent is within the bound, their sum may not be.
		if n := len(j.Maps); n > MaxTasks {
			im.fail(line, "job %q: %s", base.Name, checkTasks(job.Map, float64(n)))
			// Not false, which the caller reports as a circle: the error is recorded.
			return nil, true
		}
		// A single job keeps the traced job's name, by which results are compared with the trace.
		if jobs > 1 {
			j.Name = fmt.Sprintf("%s/%s", base.Name, s.name)
		}
		// Parents come first in order, so jobOf has an entry when a later stage needs it.
		jobOf[i] = len(im.jobs)
		im.add(line, j)
	}
	for _, i := range order {
		if !joined[i] && !followed[jobOf[i]] {
			last = append(last, jobOf[i])
		}
	}
	return last, true
}

// topological returns the indexes of the stages with parents before children, and
// otherwise in the order of the slice. It reports false if there is a cycle.
func topological(stages []stage) ([]int, bool) {
	waits := make([]int, len(stages))
	children := make([][]int, len(stages))
	for i, s := range stages {
		waits[i] = len(s.parents)
		for _, p := range s.parents {
			children[p] = append(children[p], i)
		}
	}
	var order []int
	for i := range stages {
		if waits[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, c := range children[order[k]] {
			if waits[c]--; waits[c] == 0 {
				order = append(order, c)
			}
		}
	}
	return order, len(order) == len(stages)
}

// follower finds the job of an application that had ended last before another one of the
// same application was submitted. The program submitted the second job after the first,
// so a replay must not run them at the same time.
type follower struct {
	ended []endedJob
}

// endedJob is a job that has been added, with the time of its end and the indexes of its
// last jobs in importer.jobs.
type endedJob struct {
	end  time.Duration
	last []int
}

// after returns the jobs to wait for at a time of submission.
func (f *follower) after(submit time.Duration) []int {
	best := -1
	for i := range f.ended {
		// On a tie the job that was added later, which the program started later.
		if e := &f.ended[i]; e.end <= submit && (best < 0 || e.end >= f.ended[best].end) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return slices.Clone(f.ended[best].last)
}

// add records a job. Only the most recent ones matter, which bounds the memory.
func (f *follower) add(end time.Duration, last []int) {
	// An application that keeps more than 64 jobs alive at once may wait for one too few; a list of all would
	// make a log of a million jobs quadratic.
	const most = 64
	if len(f.ended) == most {
		f.ended = slices.Delete(f.ended, 0, 1)
	}
	f.ended = append(f.ended, endedJob{end, last})
}

// span returns the time between two moments in ms as the duration of a task: at least
// 1 ms. It returns an error if the second is before the first or implausibly late.
func span(start, end int64) (time.Duration, error) {
	switch ms := end - start; {
	// The clocks of two machines may disagree by more than a short task takes.
	case start < 0 || end < start:
		return 0, fmt.Errorf("it finished at %d, before it started at %d", end, start)
	case ms > int64(maxTime/time.Millisecond):
		return 0, fmt.Errorf("it took %d ms, more than 10 years", ms)
	default:
		// 0 would mean that the task has no duration and goes through stages.
		return time.Duration(max(1, ms)) * time.Millisecond, nil
	}
}

// epoch returns a time in ms since the epoch as a time of submission. Importers make it
// relative to the first job later.
func epoch(ms int64) time.Duration {
	return time.Duration(min(ms, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
}
