package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
)

// print writes the report as Markdown.
func (r *report) print(w io.Writer) {
	var all []jobReport
	for i := range r.mixes {
		all = append(all, r.mixes[i].jobs...)
	}
	fmt.Fprintf(w, `# Simulated against real

Mixes of jobs were run for real, in the local shell, and in the simulator, from
profiles measured beforehand on other inputs; see `+"`bench/simreal`"+`, which wrote
this page. Times are from a job's submission to its end.

**Over %d jobs of %d mixes the simulated time is within %.1f %% of the real one at
the median; the aim is 10 %%, which is %s.** Real times are medians of %d rounds; beside them is how much the
rounds themselves differ.

%d workers of 1+1 slots on %d cores; load averages at the start: %s. Where that is
well above 0 the real runs shared the machine, which no simulated one did, and their
errors are not those of the model alone.

`, len(all), len(r.mixes), 100*within(all), verdict(within(all)), r.settings.rounds, r.settings.workers, runtime.NumCPU(), r.load)
	for i := range r.mixes {
		r.mixes[i].print(w, r.settings.scale)
	}
	r.printProfiles(w)
}

func (m *mixReport) print(w io.Writer, scale float64) {
	fmt.Fprintf(w, "## %s: policy %s\n\n", m.mix.name, m.mix.policy)
	fmt.Fprintln(w, "| job | input, MiB | maps | submitted, s | real, s | rounds differ by | simulated, s | error |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for i := range m.jobs {
		j := &m.jobs[i]
		fmt.Fprintf(w, "| %s | %g | %d | %.2f | %.3f | %.1f %% | %.3f | %+.1f %% |\n", j.entry.program, scale*float64(j.entry.size), j.maps,
			scale*j.entry.at.Seconds(), median(j.real).Seconds(),
			100*(slices.Max(j.real)-slices.Min(j.real)).Seconds()/median(j.real).Seconds(), j.simulated.Seconds(), 100*j.error())
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| job | start, ms | maps, ms | a map, ms | its CPU | rest, ms | a reduce, ms | its CPU |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for i := range m.jobs {
		j := &m.jobs[i]
		fmt.Fprintf(w, "| %s |", j.entry.program)
		for _, of := range []func(phases) float64{
			func(p phases) float64 { return p.start }, func(p phases) float64 { return p.maps }, func(p phases) float64 { return p.mapTask }, func(p phases) float64 { return p.mapCPU },
			func(p phases) float64 { return p.rest }, func(p phases) float64 { return p.reduce }, func(p phases) float64 { return p.reduceCPU },
		} {
			var list []float64
			for _, p := range j.realPhases {
				list = append(list, 1000*of(p))
			}
			fmt.Fprintf(w, " %.1f / %.1f |", median(list), 1000*of(j.phases))
		}
		fmt.Fprintln(w)
	}
	span, simulated := median(m.spans), m.simulated
	fmt.Fprintf(w, "\nWithin %.1f %% at the median. Makespan %.3f s, simulated %.3f s (%+.1f %%).\n%d of %d rounds count; %.1f %% of the machine was not taken by others, in the median.\n\n",
		100*within(m.jobs), span.Seconds(), simulated.Seconds(), 100*(simulated.Seconds()/span.Seconds()-1), len(m.shares), m.tried, 100*median(m.shares))
}

func (r *report) printProfiles(w io.Writer) {
	fmt.Fprint(w, "## Profiles\n\nCore-seconds for each GB (10⁹ bytes), or milliseconds for each task or job.\n\n")
	fmt.Fprintln(w, "| app | plan | a map | map | sort, for each GB emitted | a reduce | reduce | merge, for each comparison | emitted over read | left over emitted | falls with the power | written over left |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
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
