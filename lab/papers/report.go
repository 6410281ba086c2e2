package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/repro"
	"github.com/slotwise/slotwise/lab/harness"
)

// report has the results of a run of the command.
type report struct {
	Cores   int           `json:"cores"`
	Rounds  int           `json:"rounds"`
	Busy    float64       `json:"busy_before"` // share of the processors' time in use before the start
	Start   time.Duration `json:"start_ns"`    // processor time of starting an attempt
	Batches []*measured   `json:"batches"`
}

// numbers returns what a claim speaks of, for each round; see claim.
func (c *claim) numbers(b *batch, values [][]float64) (list []float64) {
	at := func(name string) []float64 {
		return values[slices.IndexFunc(b.contestants, func(x contestant) bool { return x.name == name })]
	}
	of, base := at(c.of), at(c.base)
	for i := range of {
		if c.gain {
			list = append(list, base[i]/of[i]-1)
		} else {
			list = append(list, of[i]/base[i]-1)
		}
	}
	return list
}

// interval prints the mean of numbers with its 95 % interval, multiplied by scale.
func interval(list []float64, scale float64, unit string) string {
	e := metrics.Confidence(list, 0.95)
	digits := 1
	if math.Abs(scale*e.Mean) < 10 && unit == "" {
		digits = 2
	}
	if e.N < 2 {
		return fmt.Sprintf("%.*f%s", digits, scale*e.Mean, unit)
	}
	return fmt.Sprintf("%.*f ± %.*f%s", digits, scale*e.Mean, digits, scale*e.Half, unit)
}

// print writes the report as Markdown: a table of all claims, then one for each batch.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, `# The papers' batches on a real cluster

`+"`go -C lab run ./papers`"+` writes this page. For each paper it runs batches of the paper's jobs on a
master and worker processes, and the same job mixes in the simulator. %d rounds; a number is
the mean over the rounds with its 95 %% interval. The machine has %d processors, of which
%.0f %% were busy with other work before the start.

**times**: the paper's tasks sleep for their times, shortened by a stated factor, so that they
do not compete for processors. **programs**: the paper's applications on generated inputs;
all tasks share the %d processors, whatever the slots, so a policy cannot gain by using more
slots at once. Starting an attempt took %.1f ms of processor time, measured before on a job of its
own; that and the cost profiles of the programs are all that the simulator was given. Profiles
were measured before on inputs that no batch reads, and corrected by the processor time of the
same app on a cluster: its processes, files and connections cost more than one process does.

Claims are judged as in [repro.md](../../docs/repro.md), by the mean and by its interval. A batch of programs
whose slots outnumber the processors cannot test a claim about slots, whatever the numbers are.

`, r.Rounds, r.Cores, 100*r.Busy, r.Cores, r.Start.Seconds()*1000)
	t := harness.NewTable(w, "batch", "claim", "printed", "real", "simulated", "real verdict", "simulated verdict")
	for _, m := range r.Batches {
		for i := range m.batch.claims {
			c := &m.batch.claims[i]
			real := c.numbers(m.batch, m.Real)
			simulated, verdict, virtual := "-", m.batch.cannotTest(r.Cores), "-"
			if m.Simulated != nil {
				list := c.numbers(m.batch, m.Simulated)
				simulated, virtual = interval(list, 100, " %"), cmp.Or(verdict, repro.Judge(c.printed, list).String())
			}
			t.Row(m.Name, c.text, c.printed, interval(real, 100, " %"), simulated, cmp.Or(verdict, repro.Judge(c.printed, real).String()), virtual)
		}
	}
	for _, m := range r.Batches {
		m.print(w)
	}
}

// print writes the table of a batch.
func (m *measured) print(w io.Writer) {
	b := m.batch
	fmt.Fprintf(w, "\n## %s: %s\n\n%d workers of %d map and %d reduce slots, where nothing else is said.\n\n", b.name, b.what, b.workers, b.maps, b.reduces)
	t := harness.NewTable(w, "policy", "real: "+b.metric.name, "simulated", "error", "error of a job: median, 90th percentile")
	for i := range b.contestants {
		c := &b.contestants[i]
		name := c.name
		if c.maps+c.reduces > 0 && c.policy != name {
			name += fmt.Sprintf(" (%d and %d slots)", c.maps, c.reduces)
		}
		if m.Simulated == nil {
			t.Row(name, interval(m.Real[i], 1, ""), "-", "-", "-")
			continue
		}
		var sizes []float64
		for _, e := range m.Errors[i] {
			sizes = append(sizes, math.Abs(e))
		}
		t.Row(name, interval(m.Real[i], 1, ""), interval(m.Simulated[i], 1, ""),
			fmt.Sprintf("%+.1f %%", 100*(harness.Mean(m.Simulated[i])/harness.Mean(m.Real[i])-1)),
			fmt.Sprintf("%.1f %%, %.1f %%", 100*harness.Median(sizes), 100*harness.Quantile(sizes, 0.9)))
	}
}
