package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// print writes the part of the report that was measured, as Markdown.
func (r *report) print(w io.Writer) {
	if r.settings.wide {
		r.printWide(w)
		return
	}
	var all, spreads []float64
	same, pairs := 0, 0
	for _, m := range r.mixes {
		all, spreads = append(all, m.errors()...), append(spreads, m.spread()...)
		if m.mix.alone {
			continue // each job starts at 0
		}
		for i := range m.rounds {
			s, n := m.rounds[i].ordered()
			same, pairs = same+s, pairs+n
		}
	}
	fmt.Fprintf(w, plainHeading+`

Mixes of jobs were run for real, in the local shell, and in the simulator, from
cost profiles measured before each round on other inputs. `+"`go -C lab run ./simreal`"+` writes
this page. Times are from a job's submission to its end.

**Over %d jobs of %d mixes the simulated time is within %.1f %% of the real one at
the median and within %.1f %% for nine of ten; the goals are %.0f and %.0f %%, which is %s.** The rounds
themselves are %.1f %% apart at the median and %.1f %% for nine of ten. Of %d pairs of jobs whose real ends are
clearly apart, %d end in the same order in the simulation (%.1f %%).

`, len(all), len(r.mixes), 100*within(all), 100*ninth(all), 100*goal, 100*goalNinth, metOrNot(all), 100*harness.Median(spreads), 100*harness.Quantile(spreads, 0.9),
		pairs, same, 100*float64(same)/float64(max(1, pairs)))
	fmt.Fprintf(w, `%d workers with %d+%d slots on %d cores; %d rounds, each with profiles and one run of each mix. A
reference loop beside both shows whether the speed of the machine has changed; if so, the simulated nodes get it.
Each number is the median over the rounds. Real times are measured with a clock
that pauses while other processes use the processors that ours could use. Each mix
has the share of the time for which the clock ran; on an otherwise idle machine it
is 100 %%. Where it is far below, the effect of other processes on the caches is
still in the numbers.

Beside others an app needs more processor time than its profile says, which was measured with that app alone.
Each program ran alone on the inputs of the profiles, before the mixes, and then all together: %s.
The costs of its profile are multiplied by this in mixes where several jobs run at once. There tasks cannot use the share of the
cores that planning takes, by the profiles, either.

`, r.settings.shape.workers, r.settings.shape.maps, r.settings.shape.reduces, runtime.NumCPU(), r.settings.rounds, r.settings.printContention())
	r.printSources(w)
	for _, m := range r.mixes {
		m.print(w, r.settings.scale)
	}
	r.printProfiles(w)
}

// printContention returns the factors of the programs in words.
func (s *settings) printContention() string {
	var list []string
	for i, f := range s.contention {
		list = append(list, fmt.Sprintf("%s %+.1f %%", programs[i].name, 100*(f-1)))
	}
	return strings.Join(list, ", ")
}

// print writes the tables of one mix.
func (r *mixReport) print(w io.Writer, scale float64) {
	fmt.Fprintf(w, "## %s: policy %s\n\n", r.mix.name, r.mix.policy)
	table := harness.NewTable(w, "job", "input, MiB", "maps", "submitted, s", "real, s", "rounds differ by", "simulated, s", "error")
	errs := r.errors()
	for i := range r.jobs {
		e := &r.mix.jobs[i]
		real := r.over(i, func(j *jobTimes) float64 { return j.real.Seconds() })
		var times []time.Duration
		for k := range r.rounds {
			times = append(times, r.rounds[k].jobs[i].real)
		}
		table.Rowf("%s | %g | %d | %.2f | %.3f | %.1f %% | %.3f | %+.1f %%", e.program, scale*float64(e.size), len(r.jobs[i].Maps),
			r.over(i, func(j *jobTimes) float64 { return j.submitted.Seconds() }), real, 100*(slices.Max(times)-slices.Min(times)).Seconds()/real,
			r.over(i, func(j *jobTimes) float64 { return j.simulated.Seconds() }), 100*errs[i])
	}
	var share, span, simulated []float64
	for i := range r.rounds {
		x := &r.rounds[i]
		share, span, simulated = append(share, x.share), append(span, x.span.Seconds()), append(simulated, x.simulated.Seconds())
	}
	fmt.Fprintf(w, "\nWithin %.1f %% at the median. Makespan %.3f s, simulated %.3f s (%+.1f %%). The clock ran for %.1f %% of the time; %d of %d rounds count.\n\n",
		100*within(r.errors()), harness.Median(span), harness.Median(simulated), 100*(harness.Median(simulated)/harness.Median(span)-1), 100*harness.Median(share), len(r.rounds), r.tried)
	r.printPhases(w)
}

// phaseColumns are the columns of the table of phases.
var phaseColumns = []struct {
	name string
	of   func(*phases) float64 // seconds
}{
	{"before the first task", func(p *phases) float64 { return p.start }},
	{"maps", func(p *phases) float64 { return p.maps }},
	{"a map", func(p *phases) float64 { return p.mapTask }},
	{"its CPU", func(p *phases) float64 { return p.mapCPU }},
	{"after the maps", func(p *phases) float64 { return p.rest }},
	{"a reduce", func(p *phases) float64 { return p.reduce }},
	{"its CPU", func(p *phases) float64 { return p.reduceCPU }},
}

// printPhases writes the phases of each job, real / simulated.
func (r *mixReport) printPhases(w io.Writer) {
	fmt.Fprint(w, "Where the time went, real / simulated, in milliseconds:\n\n")
	names := []string{"job"}
	for _, p := range phaseColumns {
		names = append(names, p.name)
	}
	table := harness.NewTable(w, names...)
	for i := range r.jobs {
		cells := []string{r.mix.jobs[i].program}
		for _, p := range phaseColumns {
			cells = append(cells, fmt.Sprintf("%.0f / %.0f", 1000*r.over(i, func(j *jobTimes) float64 { return p.of(&j.realPhases) }),
				1000*r.over(i, func(j *jobTimes) float64 { return p.of(&j.simulatedPhases) })))
		}
		table.Row(cells...)
	}
	fmt.Fprintln(w)
}

// printSources writes which programs and phases the error comes from: for each program the sum of
// a phase over its jobs in all mixes, simulated over real.
func (r *report) printSources(w io.Writer) {
	fmt.Fprint(w, "Where the error comes from: all jobs of a program together, simulated against real. A phase that takes less\n"+
		"than a hundredth of the response times has no number.\n\n")
	names := []string{"program", "jobs", "response"}
	for _, p := range phaseColumns {
		names = append(names, p.name)
	}
	table := harness.NewTable(w, names...)
	for _, p := range programs {
		jobs, response := 0, [2]float64{}
		sums := make([][2]float64, len(phaseColumns))
		for _, m := range r.mixes {
			for i := range m.jobs {
				if m.mix.jobs[i].program != p.name {
					continue
				}
				jobs++
				response[0] += m.over(i, func(j *jobTimes) float64 { return j.real.Seconds() })
				response[1] += m.over(i, func(j *jobTimes) float64 { return j.simulated.Seconds() })
				for c, of := range phaseColumns {
					sums[c][0] += m.over(i, func(j *jobTimes) float64 { return of.of(&j.realPhases) })
					sums[c][1] += m.over(i, func(j *jobTimes) float64 { return of.of(&j.simulatedPhases) })
				}
			}
		}
		if jobs == 0 {
			continue
		}
		cells := []string{p.name, fmt.Sprint(jobs), fmt.Sprintf("%+.0f %%", 100*(response[1]/response[0]-1))}
		for _, x := range sums {
			text := ""
			if max(x[0], x[1]) > response[0]/100 && x[0] > 0 {
				text = fmt.Sprintf("%+.0f %%", 100*(x[1]/x[0]-1))
			}
			cells = append(cells, text)
		}
		table.Row(cells...)
	}
	fmt.Fprintln(w)
}

// printProfiles writes the cost profiles that the simulations used.
func (r *report) printProfiles(w io.Writer) {
	fmt.Fprint(w, "## Cost profiles\n\nCore-seconds for each GB (10⁹ bytes), or milliseconds for each job or task.\n\n")
	table := harness.NewTable(w, "app", "plan", "a map", "map", "sort, for each GB emitted", "a reduce", "reduce", "merge, for each comparison",
		"emitted over read", "left over emitted", "falls with the power", "written over left")
	for i := range r.profiles {
		p := &r.profiles[i]
		table.Rowf("%s | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f | %.3g | %.3g | %.2g | %.3g", p.App, 1000*p.Plan,
			1000*p.MapStart, 1000*p.MapCPU, 1000*p.SortCPU, 1000*p.ReduceStart, 1000*p.ReduceCPU, 1000*p.MergeCPU,
			p.MapSelectivity, p.CombinerRatio, p.CombinerDecay, p.ReduceSelectivity)
	}
}

// The goals for the errors of simulated times: the median, and for nine of ten.
const (
	goal      = 0.05
	goalNinth = 0.15
)

// metOrNot compares errors with the goals.
func metOrNot(errors []float64) string {
	if within(errors) <= goal && ninth(errors) <= goalNinth {
		return "met"
	}
	return "not met"
}
