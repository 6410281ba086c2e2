package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
)

// The headings of the two parts of the page. A run replaces one part and keeps the other.
const (
	plainHeading = "# Simulated against real\n"
	wideHeading  = "# Every policy on 4 workers of 2+2 slots\n"
)

// wideGoal is the median error that the simulated times of the second part should not exceed.
const wideGoal = 0.05

// replacePart writes the part of the report that was measured to a file, in place of the same
// part there. Unless the file begins with the heading of a part, it must not exist or be empty.
func (r *report) replacePart(name string) error {
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := string(old)
	if text != "" && !strings.HasPrefix(text, plainHeading) && !strings.HasPrefix(text, wideHeading) {
		return fmt.Errorf("-markdown %s: the file is no report of this command; name another file", name)
	}
	plain, wide := text, ""
	if i := strings.Index(text, wideHeading); i >= 0 {
		plain, wide = text[:i], text[i:]
	}
	var part bytes.Buffer
	r.print(&part)
	if r.settings.wide {
		wide = part.String()
	} else {
		plain = part.String()
	}
	if plain = strings.TrimRight(plain, "\n"); plain != "" {
		plain += "\n"
		if wide != "" {
			plain += "\n"
		}
	}
	return os.WriteFile(name, []byte(plain+wide), 0o666)
}

// printWide writes the second part: a row for each mix, then the errors of all jobs.
func (r *report) printWide(w io.Writer) {
	x := r.settings.shape
	var all []float64
	groups := map[string][]float64{}
	for _, m := range r.mixes {
		name := m.mix.name
		if learns(m.mix.policy) {
			name = "learning"
		}
		all, groups[name] = append(all, m.errors()...), append(groups[name], m.errors()...)
	}
	met := "which is met"
	if within(all) > wideGoal {
		met = "which is not met"
	}
	fmt.Fprintf(w, wideHeading+`
Written by `+"`go -C lab run ./simreal -wide -scale %g`"+`: the ten jobs of the mixes above
under every policy, then with memory limits, on %d workers of %d+%d slots in one process on %d
cores. So up to %d tasks share the cores. %d rounds, in turns; a job's median simulated time is
compared with its median real one.

**Over %d jobs the simulated time is within %.1f %% of the real one at the median; the goal is
%.0f %%, %s.**
`, r.settings.scale, x.workers, x.maps, x.reduces, runtime.NumCPU(), x.workers*(x.maps+x.reduces), r.settings.rounds,
		len(all), 100*within(all), 100*wideGoal, met)
	for _, g := range []struct{ name, words string }{{everyPolicy, "under the policies that do not learn"}, {"learning", "under the two that learn"},
		{memoryLimits, "with memory limits"}} {
		if list := groups[g.name]; len(list) > 0 {
			fmt.Fprintf(w, "It is %.1f %% %s.\n", 100*within(list), g.words)
		}
	}
	fmt.Fprintf(w, `
- The simulator has the workers as nodes on one machine, whose tasks get equal parts of its cores.
- Cost profiles are measured as above, but on this cluster, so that they contain what it costs
  the tasks of a job to share the caches. They also contain the collection of garbage and other
  work outside of tasks, as much as one app alone causes.
- What each app needs beyond its profile where others run was measured before, too, as above, under
  %s, %d times: %s. The costs of the profile are multiplied by it.
- Simulated nodes measure their load twice a second, as the real ones do (load-every).
- Submission times are the times at which the tracker gets the planned jobs. Planning competes
  with the tasks here, so that a job may be planned for longer than the job after it.
- "Memory limits": every second job limits its tasks to %s, where a slot's share of a
  worker's memory is %s, so that each of its tasks occupies two slots.
- The policies that learn run with the parameters of short runs (%s).

What bounds the error:

- "Between rounds" is the median over the jobs of how far a real time is from the job's median
  over the rounds: no prediction of one run can be closer than that.
- "CPU" is the processor time of the whole process, real over simulated. The simulated one is
  that of the tasks by their profiles and these factors.
- "Median, CPU given" is the median error of a simulation in which tasks take the mean processor time that their job's
  tasks took in the real round, and "outside" takes its part of the cores. That error comes from decisions and from the
  sharing of processors. It is no prediction.
- "Outside" is the part of the real processor time that no task used: collection of garbage,
  planning, scheduling.
- A policy that learns decides by the load that it measures, and each decision changes what it
  learns from. The real load includes other processes of the machine.
- With memory limits it depends on milliseconds whether a node has two free slots at the same
  time. Equal simulated tasks of one node end at the same moment and leave two, real ones do not.

`, policies.Default, r.settings.rounds, r.settings.printContention(), harness.FormatSize(wideSlot*3/2), harness.FormatSize(wideSlot), settingsOf(quickLearning("learning-nb")))
	table := harness.NewTable(w, "mix", "policy", "error of a job: median", "90th percentile", "mean, with sign", "median, CPU given", "between rounds", "makespan, s", "simulated, s",
		"its error", "CPU", "outside", "pairs in order", "clock ran")
	for _, m := range r.mixes {
		m.printRow(table)
	}
	fmt.Fprint(w, "\nThe error of each job:\n\n")
	names := []string{"mix", "policy"}
	for i := range r.mixes[0].mix.jobs {
		e := &r.mixes[0].mix.jobs[i]
		names = append(names, fmt.Sprintf("%s, %.3g MiB", e.program, r.settings.scale*float64(e.size)))
	}
	jobs := harness.NewTable(w, names...)
	for _, m := range r.mixes {
		cells := []string{m.mix.name, m.mix.policy}
		for _, e := range m.errors() {
			cells = append(cells, fmt.Sprintf("%+.0f %%", 100*e))
		}
		jobs.Row(cells...)
	}
	fmt.Fprintf(w, "\n## %s: policy %s\n\n", r.mixes[0].mix.name, r.mixes[0].mix.policy)
	r.mixes[0].printPhases(w)
}

// printRow writes the row of a mix in the second part.
func (r *mixReport) printRow(t harness.Table) {
	var sizes, apart, share, span, simulated []float64
	same, pairs := 0, 0
	errs := r.errors()
	for i, e := range errs {
		sizes = append(sizes, math.Abs(e))
		real := r.over(i, func(j *jobTimes) float64 { return j.real.Seconds() })
		apart = append(apart, r.over(i, func(j *jobTimes) float64 { return math.Abs(j.real.Seconds()/real - 1) }))
	}
	for i := range r.rounds {
		x := &r.rounds[i]
		s, n := x.ordered()
		same, pairs = same+s, pairs+n
		share, span, simulated = append(share, x.share), append(span, x.span.Seconds()), append(simulated, x.simulated.Seconds())
	}
	t.Rowf("%s | %s | %.1f %% | %.1f %% | %+.1f %% | %.1f %% | %.1f %% | %.2f | %.2f | %+.1f %% | %.2f | %.0f %% | %d of %d | %.0f %%", r.mix.name, r.mix.policy,
		100*harness.Median(sizes), 100*harness.Quantile(sizes, 0.9), 100*harness.Mean(errs), 100*within(r.errorsGiven()), 100*harness.Median(apart),
		harness.Median(span), harness.Median(simulated), 100*(harness.Median(simulated)/harness.Median(span)-1), r.cpuRatio(), 100*r.outside(), same, pairs, 100*harness.Median(share))
}

// outside returns the part of the process's processor time that no task used, the median over
// the rounds.
func (r *mixReport) outside() float64 {
	var list []float64
	for k := range r.rounds {
		list = append(list, outside(&r.rounds[k], r.jobs))
	}
	return harness.Median(list)
}

// cpuRatio returns the processor time of the process, real over simulated.
func (r *mixReport) cpuRatio() float64 {
	var simulated time.Duration
	for i := range r.jobs {
		for _, list := range r.jobs[i].Tasks() {
			for k := range list {
				simulated += list[k].CPU
			}
		}
	}
	var list []float64
	for k := range r.rounds {
		list = append(list, r.rounds[k].cpu.Seconds()/simulated.Seconds())
	}
	return harness.Median(list)
}

// settingsOf returns parameters as name=value, in order of their names.
func settingsOf(set map[string]string) string {
	var list []string
	for k, v := range set {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
