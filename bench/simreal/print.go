package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// print writes the report as Markdown.
func (r *report) print(w io.Writer) {
	var all []float64
	same, pairs := 0, 0
	for _, m := range r.mixes {
		all = append(all, m.errors()...)
		if m.mix.alone {
			continue // all begin at 0
		}
		for i := range m.rounds {
			s, n := m.rounds[i].ordered()
			same, pairs = same+s, pairs+n
		}
	}
	fmt.Fprintf(w, `# Simulated against real

Mixes of jobs were run for real, in the local shell, and in the simulator, from
profiles measured beforehand on other inputs; `+"`go run ./bench/simreal`"+` has
written this page. Times are from a job's submission to its end.

**Over %d jobs of %d mixes the simulated time is within %.1f %% of the real one at
the median; the aim is %.0f %%, which is %s.** Of %d pairs of jobs whose real ends are
clearly apart, the simulator has %d in the same order (%.1f %%).

`, len(all), len(r.mixes), 100*within(all), 100*aim, verdict(within(all)), pairs, same, 100*float64(same)/float64(max(1, pairs)))
	fmt.Fprintf(w, `%d workers of 1+1 slots on %d cores; %d rounds of each mix, all mixes in turn. Each
number is the median over the rounds. Real times are by a clock that stands still
while other processes have the processors that ours could use: the part of the time
for which it went is told with each mix, and is 100 %% on a machine of one's own.
Where it is far below, what others did to the caches is still in the numbers.

`, r.settings.workers, runtime.NumCPU(), r.settings.rounds)
	for _, m := range r.mixes {
		m.print(w, r.settings.scale)
	}
	r.printProfiles(w)
}

func (r *mixReport) print(w io.Writer, scale float64) {
	fmt.Fprintf(w, "## %s: policy %s\n\n", r.mix.name, r.mix.policy)
	header(w, "job", "input, MiB", "maps", "submitted, s", "real, s", "rounds differ by", "simulated, s", "error")
	for i := range r.jobs {
		e := &r.mix.jobs[i]
		real := r.over(i, func(j *ran) float64 { return j.real.Seconds() })
		var times []time.Duration
		for k := range r.rounds {
			times = append(times, r.rounds[k].jobs[i].real)
		}
		fmt.Fprintf(w, "| %s | %g | %d | %.2f | %.3f | %.1f %% | %.3f | %+.1f %% |\n", e.program, scale*float64(e.size), len(r.jobs[i].Maps),
			r.over(i, func(j *ran) float64 { return j.submitted.Seconds() }), real, 100*(slices.Max(times)-slices.Min(times)).Seconds()/real,
			r.over(i, func(j *ran) float64 { return j.simulated.Seconds() }), 100*r.over(i, (*ran).error))
	}
	var had, span, simulated []float64
	for i := range r.rounds {
		x := &r.rounds[i]
		had, span, simulated = append(had, x.had), append(span, x.span.Seconds()), append(simulated, x.simulated.Seconds())
	}
	fmt.Fprintf(w, "\nWithin %.1f %% at the median. In all %.3f s, simulated %.3f s (%+.1f %%). The clock went for %.1f %% of the time; %d of %d rounds count.\n\n",
		100*within(r.errors()), median(span), median(simulated), 100*(median(simulated)/median(span)-1), 100*median(had), len(r.rounds), r.tried)
	r.printParts(w)
}

// parts are the columns of the table of where the time went.
var parts = []struct {
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

// printParts shows where the time went, real / simulated.
func (r *mixReport) printParts(w io.Writer) {
	fmt.Fprint(w, "Where the time went, real / simulated, in milliseconds:\n\n")
	names := []string{"job"}
	for _, p := range parts {
		names = append(names, p.name)
	}
	header(w, names...)
	for i := range r.jobs {
		fmt.Fprintf(w, "| %s |", r.mix.jobs[i].program)
		for _, p := range parts {
			fmt.Fprintf(w, " %.0f / %.0f |", 1000*r.over(i, func(j *ran) float64 { return p.of(&j.realParts) }),
				1000*r.over(i, func(j *ran) float64 { return p.of(&j.parts) }))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// header writes the first two lines of a table.
func header(w io.Writer, names ...string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
}

func (r *report) printProfiles(w io.Writer) {
	fmt.Fprint(w, "## Profiles\n\nCore-seconds for each GB (10⁹ bytes), or milliseconds for each job or task.\n\n")
	header(w, "app", "plan", "a map", "map", "sort, for each GB emitted", "a reduce", "reduce", "merge, for each comparison",
		"emitted over read", "left over emitted", "falls with the power", "written over left")
	for i := range r.profiles {
		p := &r.profiles[i]
		fmt.Fprintf(w, "| %s | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f | %.3g | %.3g | %.2g | %.3g |\n", p.App, 1000*p.Plan,
			1000*p.MapStart, 1000*p.MapCPU, 1000*p.SortCPU, 1000*p.ReduceStart, 1000*p.ReduceCPU, 1000*p.MergeCPU,
			p.MapSelectivity, p.CombinerRatio, p.CombinerDecay, p.ReduceSelectivity)
	}
}

// aim is how near the simulated times should be to the real ones.
const aim = 0.10

func verdict(err float64) string {
	if err <= aim {
		return "met"
	}
	return "not met"
}
