package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// ended is a line of a worker's log about a task that has finished.
var ended = regexp.MustCompile(`(?m)^time=(\S+) .*msg="attempt ended".* state=succeeded`)

// measure finds for each fault the next task that finished.
func (o *outcome) measure(c *cluster) {
	for _, w := range c.workers {
		b, err := os.ReadFile(w.logFile())
		if err != nil {
			continue // it was never started
		}
		for _, m := range ended.FindAllSubmatch(b, -1) {
			if t, err := time.Parse(time.RFC3339Nano, string(m[1])); err == nil {
				o.finishes = append(o.finishes, t)
			}
		}
	}
	slices.SortFunc(o.finishes, time.Time.Compare)
	for i := range o.strikes {
		s := &o.strikes[i]
		s.next = -1
		for _, t := range o.finishes {
			if d := t.Sub(s.struck); d >= 0 {
				s.next = d
				break
			}
		}
	}
}

// report is about all runs.
type report struct {
	began    time.Time
	took     time.Duration
	atOnce   int
	disks    bool
	mu       sync.Mutex
	calm     map[int][]time.Duration // undisturbed runs, by mix
	runs     []*outcome              // disturbed ones
	failed   []*outcome
	excused  []string
	jobs     int
	finishes int
}

// add takes a run in and tells of it.
func (r *report) add(o *outcome, out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict := "ok"
	if o.wrong != nil {
		verdict = "WRONG"
		r.failed = append(r.failed, o)
	}
	r.jobs += o.jobs
	r.finishes += len(o.finishes)
	for _, e := range o.excused {
		r.excused = append(r.excused, o.name+": "+e)
	}
	if len(o.faults) == 0 && o.seed == 0 {
		r.calm[o.mix] = append(r.calm[o.mix], o.took)
	} else {
		r.runs = append(r.runs, o)
	}
	fmt.Fprintf(out, "%-12s %-5s %5.1f s  %s", o.name, verdict, o.took.Seconds(), strings.Join(mixes[o.mix], ","))
	for _, s := range o.strikes {
		fmt.Fprintf(out, "; %v", s)
	}
	fmt.Fprintln(out)
	if o.wrong != nil {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(o.wrong.Error(), "\n", "\n    "))
	}
	for _, e := range o.excused {
		fmt.Fprintf(out, "    explained: %.300s\n", e)
	}
}

// excess is how much longer a run took than undisturbed ones of its mix.
func (r *report) excess(o *outcome) time.Duration { return o.took - quantile(r.calm[o.mix], 0.5) }

// quantile is one of the values, 0 of none.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// three writes median, 95th percentile and maximum in seconds.
func three(values []time.Duration) string {
	if len(values) == 0 {
		return "| |"
	}
	return fmt.Sprintf("%.1f | %.1f | %.1f", quantile(values, 0.5).Seconds(), quantile(values, 0.95).Seconds(), slices.Max(values).Seconds())
}

// write writes the tables.
func (r *report) write(out io.Writer) {
	hits := 0
	var total []time.Duration
	for _, o := range r.runs {
		total = append(total, r.excess(o))
		for _, s := range o.strikes {
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
	fmt.Fprintf(out, ", %d at once on %d cores, %.0f minutes; %d jobs, %d tasks finished,\n%d faults; %d jobs ended with an error that a fault explains, %d runs failed.\n\n",
		r.atOnce, runtime.NumCPU(), r.took.Minutes(), r.jobs, r.finishes, hits, len(r.excused), len(r.failed))
	fmt.Fprintln(out, "| fault | times | next task: median s | p95 | max | run longer by: median s | p95 | max |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, k := range kinds {
		r.writeKind(out, k)
	}
	fmt.Fprintf(out, "| all runs | %d | | | | %s |\n", len(r.runs), three(total))
	for _, e := range r.excused {
		fmt.Fprintf(out, "\nExplained: %.200s\n", e)
	}
	for _, o := range r.failed {
		fmt.Fprintf(out, "\nFAILED: %s: %.300s\n", o.name, o.wrong)
	}
}

// writeKind writes the line of a kind of fault.
func (r *report) writeKind(out io.Writer, k *kind) {
	n := 0
	var next, longer []time.Duration
	for _, o := range r.runs {
		first := true
		for _, s := range o.strikes {
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
	fmt.Fprintf(out, "| %s | %d | %s | %s |\n", k.name, n, three(next), three(longer))
}

// pageText is the page of documentation up to the results.
//
//go:embed page.md
var pageText string

// writePage writes the page of documentation.
func (r *report) writePage(name string) error {
	var b bytes.Buffer
	b.WriteString(pageText)
	b.WriteString("\n| fault | what |\n|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| %s | %s |\n", k.name, k.what)
	}
	b.WriteString("\n## Results\n\n")
	r.write(&b)
	return os.WriteFile(name, b.Bytes(), 0o666)
}
