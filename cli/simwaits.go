package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/console"
	simreport "github.com/slotwise/slotwise/internal/report"
	"github.com/slotwise/slotwise/mapreduce"
)

// comparison is the object that --json prints and report.json holds.
type comparison struct {
	*simreport.Study
	// Waits are those of all jobs, by run, with --explain.
	Waits []runWaits `json:"waits,omitempty"`
}

// runWaits is what held the jobs of a run back.
type runWaits struct {
	Policy string    `json:"policy"`
	Seed   uint64    `json:"seed"`
	Jobs   []jobWait `json:"jobs"`
}

// jobWait is what held a job back, longest first.
type jobWait struct {
	Job   int              `json:"job"` // place in the workload, from 0
	Name  string           `json:"name"`
	ID    string           `json:"id"`
	Waits []mapreduce.Wait `json:"waits"`
}

// waits gathers what held the jobs of each run back, if that was asked for.
func (s *study) waits() []runWaits {
	if !s.flags.explain {
		return nil
	}
	var all []runWaits
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		w := runWaits{Policy: r.Policy, Seed: r.Seed, Jobs: []jobWait{}}
		for i := range r.result.Jobs {
			j := &r.result.Jobs[i]
			x := jobWait{Job: i, Name: r.draft.jobs[i].Name, ID: j.ID.String(), Waits: []mapreduce.Wait{}}
			for _, h := range j.Waits {
				x.Waits = append(x.Waits, mapreduce.Wait{Tasks: h.Kind.String(), For: h.For, Reason: h.Words})
			}
			w.Jobs = append(w.Jobs, x)
		}
		all = append(all, w)
	}
	return all
}

// heldShown is for how many jobs of a run it is printed what held them back.
const heldShown = 10

// printHeld prints what held the jobs back that were held back longest.
func (w *runWaits) printHeld(out io.Writer) {
	jobs := slices.SortedStableFunc(slices.Values(w.Jobs), func(a, b jobWait) int { return cmp.Compare(b.total(), a.total()) })
	fmt.Fprintf(out, "\npolicy %s, seed %d: what held jobs back longest\n", w.Policy, w.Seed)
	for _, j := range jobs[:min(heldShown, len(jobs))] {
		printWait(out, j.Name, j.ID, j.Waits)
	}
	if more := len(jobs) - heldShown; more > 0 {
		fmt.Fprintf(out, "and %s less; --json tells of all\n", console.Plural(more, "job"))
	}
}

// total is for how long a job was held back, maps and reduces together.
func (j *jobWait) total() time.Duration {
	sum := time.Duration(0)
	for _, x := range j.Waits {
		sum += x.For
	}
	return sum
}
