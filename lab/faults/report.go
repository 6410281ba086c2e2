package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// attemptSucceeded matches the line of a worker's log for an attempt that succeeded.
var attemptSucceeded = regexp.MustCompile(`(?m)^time=(\S+) .*msg="attempt ended".* state=succeeded`)

// measure reads from the workers' logs when attempts succeeded, sets the next field of
// each injection, and counts the snapshots in the master's log.
func (o *outcome) measure(c *cluster) {
	for _, w := range c.workers {
		b, err := os.ReadFile(w.logFile())
		if err != nil {
			continue // the worker was never started
		}
		for _, m := range attemptSucceeded.FindAllSubmatch(b, -1) {
			if t, err := time.Parse(time.RFC3339Nano, string(m[1])); err == nil {
				o.finishes = append(o.finishes, t)
			}
		}
	}
	if b, err := os.ReadFile(c.master.logFile()); err == nil {
		o.snapshotted = bytes.Count(b, []byte("msg=snapshot "))
	}
	slices.SortFunc(o.finishes, time.Time.Compare)
	for i := range o.injections {
		s := &o.injections[i]
		s.next = -1
		for _, t := range o.finishes {
			if d := t.Sub(s.began); d >= 0 {
				s.next = d
				break
			}
		}
	}
}

// report collects the outcomes of all runs.
type report struct {
	began     time.Time
	took      time.Duration
	atOnce    int
	mu        sync.Mutex
	calm      map[string][]time.Duration // durations of runs without faults, by plan.base
	runs      []*outcome                 // runs with faults
	failed    []*outcome
	explained []string // jobs that failed as a fault explains
	jobs      int
	finishes  int // successful attempts
	snapshots int
}

// add adds a run and prints it. Runs call it concurrently.
func (r *report) add(o *outcome, out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := "ok"
	if o.problem != nil {
		result = "FAILED"
		r.failed = append(r.failed, o)
	}
	r.jobs += o.jobs
	r.finishes += len(o.finishes)
	r.snapshots += o.snapshotted
	for _, e := range o.explained {
		r.explained = append(r.explained, o.name+": "+e)
	}
	if len(o.faults) == 0 && o.seed == 0 {
		r.calm[o.base()] = append(r.calm[o.base()], o.took)
	} else {
		r.runs = append(r.runs, o)
	}
	fmt.Fprintf(out, "%-12s %-6s %5.1f s  %v", o.name, result, o.took.Seconds(), o.plan)
	for _, s := range o.injections {
		fmt.Fprintf(out, "; %v", s)
	}
	fmt.Fprintln(out)
	if o.problem != nil {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(o.problem.Error(), "\n", "\n    "))
		if o.seed > 0 {
			fmt.Fprintf(out, "    to repeat it: go -C lab run ./faults -seed %d -runs 1\n", o.seed)
		}
	}
	for _, e := range o.explained {
		fmt.Fprintf(out, "    explained: %.300s\n", e)
	}
}

// excess returns by how much a run exceeded the median of the runs of its mix
// without faults.
func (r *report) excess(o *outcome) time.Duration {
	return o.took - harness.Quantile(r.calm[o.base()], 0.5)
}

// three formats the median, the 95th percentile and the maximum in seconds as three
// cells of a table.
func three(values []time.Duration) string {
	if len(values) == 0 {
		return "| |"
	}
	return fmt.Sprintf("%.1f | %.1f | %.1f", harness.Quantile(values, 0.5).Seconds(), harness.Quantile(values, 0.95).Seconds(), slices.Max(values).Seconds())
}

// write writes the summary, the table of faults and the failures.
func (r *report) write(out io.Writer) {
	hits := 0
	var total []time.Duration
	for _, o := range r.runs {
		total = append(total, r.excess(o))
		for _, s := range o.injections {
			if s.hit {
				hits++
			}
		}
	}
	seeds := slices.Clone(r.runs)
	slices.SortFunc(seeds, func(a, b *outcome) int { return cmp.Compare(a.seed, b.seed) })
	fmt.Fprintf(out, "%d runs", len(seeds))
	if len(seeds) > 0 {
		fmt.Fprintf(out, " (seeds %d to %d)", seeds[0].seed, seeds[len(seeds)-1].seed)
	}
	fmt.Fprintf(out, ", %d at once on %d cores, %.0f minutes; %d jobs, %d tasks finished,\n%d snapshots, %d faults; %d jobs failed with an error that a fault explains,\n%d runs failed.\n\n",
		r.atOnce, runtime.NumCPU(), r.took.Minutes(), r.jobs, r.finishes, r.snapshots, hits, len(r.explained), len(r.failed))
	table := harness.NewTable(out, "fault", "times", "next task: median s", "p95", "max", "run longer by: median s", "p95", "max")
	for _, k := range kinds {
		r.writeKind(table, k)
	}
	table.Rowf("all runs | %d | | | | %s", len(r.runs), three(total))
	r.writeExplained(out)
	for _, o := range r.failed {
		fmt.Fprintf(out, "\nFAILED: %s: %.300s\n", o.name, o.problem)
	}
}

// ids matches what differs between two errors of one sort.
var ids = regexp.MustCompile(`[0-9a-f]{16,}|[0-9]+`)

// writeExplained writes a row for each sort of error that a fault explains. Errors are of
// one sort if they begin alike.
func (r *report) writeExplained(out io.Writer) {
	count, first := map[string]int{}, map[string]string{}
	for _, e := range r.explained {
		run, text, _ := strings.Cut(e, ": ")
		if _, after, ok := strings.Cut(text, "slotwise: "); ok {
			text = after
		}
		text = strings.TrimSpace(fmt.Sprintf("%.70s", ids.ReplaceAllString(text, "N")))
		if count[text]++; count[text] == 1 {
			first[text] = run
		}
	}
	if len(count) == 0 {
		return
	}
	fmt.Fprintln(out)
	table := harness.NewTable(out, "an error that a fault explains begins with", "jobs", "for example")
	for _, text := range slices.Sorted(maps.Keys(count)) {
		table.Row(text, strconv.Itoa(count[text]), first[text])
	}
}

// writeKind writes the row of a kind of fault.
func (r *report) writeKind(table harness.Table, k *kind) {
	n := 0
	var next, longer []time.Duration
	for _, o := range r.runs {
		first := true
		for _, s := range o.injections {
			if s.kind != k || !s.hit {
				continue
			}
			n++
			if s.next >= 0 {
				next = append(next, s.next)
			}
			if first {
				longer = append(longer, r.excess(o))
			}
			first = false
		}
	}
	table.Rowf("%s | %d | %s | %s", k.name, n, three(next), three(longer))
}

// pageText is lab/results/fault-runs.md up to the table of faults.
//
//go:embed page.md
var pageText string

// writePage writes lab/results/fault-runs.md.
func (r *report) writePage(name string) error {
	var b bytes.Buffer
	b.WriteString(pageText)
	b.WriteString("\n")
	table := harness.NewTable(&b, "fault", "what")
	for _, k := range kinds {
		table.Row(k.name, k.what)
	}
	b.WriteString("\n## Results\n\n")
	r.write(&b)
	return os.WriteFile(name, b.Bytes(), 0o666)
}
