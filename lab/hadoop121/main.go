// Command hadoop121 compares the simulator with recorded runs of a real Hadoop 1.2.1: it
// replays each run's workload with the nominal times of its tasks, and prints how far the
// simulated response times are from the recorded ones.
//
//	go -C lab run ./hadoop121 -runs DIR
//	go -C lab run ./hadoop121 -runs DIR -only '^fair' -jobs
//
// DIR holds a folder for each run, with workload.json, result.json and the files of its
// scheduler. A run is replayed with several phases of the heartbeats, because a real
// cluster never repeats a run exactly either. The runs in calibration were the source of
// the overheads in sim.Hadoop121; only the others judge the simulator.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/lab/harness"
)

func main() {
	harness.Main("lab/hadoop121", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	})
}

// calibration lists the runs from which sim.Hadoop121 was measured.
var calibration = []string{"fifo-c-1", "fifo-c-2", "fifo-hb3"}

// quiet lists the runs that had the machine to themselves.
var quiet = []string{"fifo-c-1", "fifo-c-2", "fifo-hb3", "fair-c", "fair-c-2", "capacity-c"}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("hadoop121", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("runs", os.Getenv("SLOTWISE_HADOOP121"), "directory of the recorded runs (default $SLOTWISE_HADOOP121)")
	only := flags.String("only", "", "replay only runs whose name matches this regular expression")
	phases := flags.Int("phases", 200, "how many phases of the heartbeats to replay each run with")
	jobs := flags.Bool("jobs", false, "print each job of each run")
	parts := flags.Bool("parts", false, "print where in the course of each job the replays differ from the record")
	bare := flags.Bool("bare", false, "replay without the overheads of Hadoop 1.2.1")
	history := flags.Bool("history", false, "replay the tasks of the job history instead of the nominal ones")
	fit := flags.Bool("fit", false, "print how well values of Overheads.Start fit the calibration runs, and nothing else")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *phases < 1 || *dir == "" {
		return errors.Join(err, errors.New("usage: hadoop121 -runs DIR [-only EXPRESSION] [-phases N] [-jobs] [-parts] [-bare] [-history] [-fit]"))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	runs, err := readAll(*dir, match, *history)
	if err != nil {
		return err
	}
	if *fit {
		return printFit(ctx, stdout, runs, *phases)
	}
	all := make([]*comparison, len(runs))
	var loaded []*comparison
	for i, r := range runs {
		if *bare {
			r.model.Overheads = sim.Overheads{}
		}
		if all[i], err = compare(ctx, r, *phases); err != nil {
			return err
		}
		if *jobs {
			all[i].printJobs(stdout)
		}
		if *parts {
			all[i].printParts(stdout)
		}
		if r.background == nil || slices.Contains(quiet, r.name) {
			continue
		}
		r.model.Background = r.background
		busy, err := compare(ctx, r, *phases)
		if err != nil {
			return err
		}
		loaded = append(loaded, busy)
		if *jobs {
			busy.printJobs(stdout)
		}
	}
	fmt.Fprint(stdout, page)
	print(stdout, all)
	printLoaded(stdout, all, loaded)
	return nil
}

//go:embed page.md
var page string

// readAll reads the runs whose folders in dir match.
func readAll(dir string, match *regexp.Regexp, history bool) ([]*recorded, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "workload.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("-runs %s: no folder in it has a workload.json", dir))
	}
	var runs []*recorded
	for _, file := range files {
		folder := filepath.Dir(file)
		if !match.MatchString(filepath.Base(folder)) {
			continue
		}
		r, err := read(folder, history)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// printFit prints the errors of the calibration runs for values of Overheads.Start, which
// is the one time that the recorded attempts do not show by themselves: on two cores it
// depends on what else starts.
func printFit(ctx context.Context, w io.Writer, runs []*recorded, phases int) error {
	t := harness.NewTable(w, "start", "median error of the calibration runs", "90 %")
	for start := 350 * time.Millisecond; start <= 850*time.Millisecond; start += 50 * time.Millisecond {
		var abs []float64
		for _, r := range runs {
			if !slices.Contains(calibration, r.name) {
				continue
			}
			r.model.Overheads.Start = start
			c, err := compare(ctx, r, phases)
			if err != nil {
				return err
			}
			abs = append(abs, absolute(c.errors())...)
		}
		t.Row(start.String(), percent(harness.Median(abs)), percent(harness.Quantile(abs, 0.9)))
	}
	return nil
}

// comparison is a recorded run beside its replays.
type comparison struct {
	*recorded
	// response holds the response times of each job in seconds, by replay.
	response [][]float64
	makespan []float64
	moments  [][]moments // of each job, by replay
}

// compare replays a run with some phases of the heartbeats.
func compare(ctx context.Context, r *recorded, phases int) (*comparison, error) {
	c := &comparison{recorded: r, response: make([][]float64, len(r.jobs)), moments: make([][]moments, len(r.jobs))}
	for phase := range phases {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		watch := newWatcher(len(r.jobs))
		result, err := r.replay(uint64(phase)+1, watch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		last := time.Duration(0)
		for i, j := range result.Jobs {
			c.response[i] = append(c.response[i], (j.Ended - j.Submitted).Seconds())
			c.moments[i] = append(c.moments[i], watch.jobs[i])
			last = max(last, j.Ended)
		}
		c.makespan = append(c.makespan, (last - result.Jobs[0].Submitted).Seconds())
	}
	return c, nil
}

// errors returns the relative error of each job's median response time.
func (c *comparison) errors() []float64 {
	var list []float64
	for i, j := range c.jobs {
		list = append(list, harness.Median(c.response[i])/j.response-1)
	}
	return list
}

// outside returns, for each job, by how much its recorded response time is outside the
// range of the replays, relative to the recorded one. It is 0 inside.
func (c *comparison) outside() []float64 {
	var list []float64
	for i, j := range c.jobs {
		least, most := slices.Min(c.response[i]), slices.Max(c.response[i])
		list = append(list, max(0, least-j.response, j.response-most)/j.response)
	}
	return list
}

func (c *comparison) printJobs(w io.Writer) {
	fmt.Fprintf(w, "%s\n", c.name)
	for i, j := range c.jobs {
		fmt.Fprintf(w, "  %-5s recorded %7.1f s, simulated %7.1f s [%.1f, %.1f], %+6.1f %%\n", j.id, j.response, harness.Median(c.response[i]),
			slices.Min(c.response[i]), slices.Max(c.response[i]), 100*(harness.Median(c.response[i])/j.response-1))
	}
}

// print prints a line for each run, then the errors of the runs that judge.
func print(w io.Writer, all []*comparison) {
	t := harness.NewTable(w, "run", "use", "jobs", "median error", "90 %", "bias", "within 15 %", "outside the range: 90 %", "inside the range", "makespan recorded", "simulated")
	var silent, others pool
	for _, c := range all {
		use, p := "beside others", &others
		switch {
		case slices.Contains(calibration, c.name):
			use, p = "calibration", &pool{}
		case slices.Contains(quiet, c.name):
			use, p = "quiet", &silent
		}
		abs, out := absolute(c.errors()), c.outside()
		p.errors, p.outside = append(p.errors, abs...), append(p.outside, out...)
		for i, j := range c.jobs {
			if x := below(c.response[i], j.response); x >= 0.05 && x <= 0.95 {
				p.central++
			}
		}
		t.Row(c.name, use, fmt.Sprint(len(c.jobs)), percent(harness.Median(abs)), percent(harness.Quantile(abs, 0.9)),
			fmt.Sprintf("%+.1f %%", 100*harness.Median(c.errors())), fmt.Sprint(within(abs)), percent(harness.Quantile(out, 0.9)), fmt.Sprint(inside(out)),
			fmt.Sprintf("%.1f s", c.recorded.makespan),
			fmt.Sprintf("%.1f s [%.1f, %.1f]", harness.Median(c.makespan), slices.Min(c.makespan), slices.Max(c.makespan)))
	}
	printFar(w, all)
	printRepeats(w, all)
	silent.print(w, "Quiet runs that nothing was calibrated on", goalQuiet)
	others.print(w, "Runs beside other clusters", goalOthers)
}

// printLoaded prints the runs beside others without and with the processors that the others used.
func printLoaded(w io.Writer, all, loaded []*comparison) {
	if len(loaded) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := harness.NewTable(w, "run beside others", "others' mean share", "median error", "with the others' load", "bias", "with the others' load", "inside the range", "with the others' load")
	var pools [2]pool
	for _, busy := range loaded {
		bare := all[slices.IndexFunc(all, func(c *comparison) bool { return c.name == busy.name })]
		mean := 0.
		for _, x := range busy.background {
			mean += x.Share / float64(len(busy.background))
		}
		var cells [2][3]string
		for i, c := range []*comparison{bare, busy} {
			abs, out := absolute(c.errors()), c.outside()
			pools[i].errors, pools[i].outside = append(pools[i].errors, abs...), append(pools[i].outside, out...)
			cells[i] = [3]string{percent(harness.Median(abs)), fmt.Sprintf("%+.1f %%", 100*harness.Median(c.errors())), share(inside(out), len(out))}
		}
		t.Row(busy.name, percent(mean), cells[0][0], cells[1][0], cells[0][1], cells[1][1], cells[0][2], cells[1][2])
	}
	fmt.Fprintf(w, "\nWith the others' load: %d jobs, median error %s (without it %s), nine of ten within %s (%s), %d inside the range of the replays (%d).\n",
		len(pools[1].errors), percent(harness.Median(pools[1].errors)), percent(harness.Median(pools[0].errors)), percent(harness.Quantile(pools[1].errors, 0.9)),
		percent(harness.Quantile(pools[0].errors, 0.9)), inside(pools[1].outside), inside(pools[0].outside))
}

// The goals for the median error.
const (
	goalQuiet  = 0.05
	goalOthers = 0.12
	goalLoaded = 0.05 // with the processors that the others used
)

// pool holds the errors of the jobs of several runs.
type pool struct {
	errors, outside []float64
	central         int // jobs between the 5 % and 95 % quantiles of the replays
}

// print prints the errors of a pool beside the goal for their median.
func (p *pool) print(w io.Writer, what string, goal float64) {
	if len(p.errors) == 0 {
		return
	}
	m := harness.Median(p.errors)
	fmt.Fprintf(w, "\n%s: %d jobs, %s, nine of ten within %s, %d within %s (goal nine of ten); %d inside the range of the replays, %d between their 5 %% and 95 %% quantiles, nine of ten at most %s outside the range.\n",
		what, len(p.errors), harness.Limit(m <= goal, fmt.Sprintf("median error %s (goal %s)", percent(m), percent(goal))), percent(harness.Quantile(p.errors, 0.9)),
		within(p.errors), percent(near), inside(p.outside), p.central, percent(harness.Quantile(p.outside, 0.9)))
}

// near is the error that nine of ten jobs should keep.
const near = 0.15

// within counts the errors that are at most near.
func within(abs []float64) int {
	n := 0
	for _, e := range abs {
		if e <= near {
			n++
		}
	}
	return n
}

// printFar lists the jobs of quiet runs whose error is above near, and how often a replay
// came as close as that.
func printFar(w io.Writer, all []*comparison) {
	fmt.Fprintln(w)
	t := harness.NewTable(w, "run", "job", "recorded", "median of the replays", "5 % to 95 % of them", "replays within 15 % of the record", "replays below it")
	for _, c := range all {
		if !slices.Contains(quiet, c.name) {
			continue
		}
		for i, e := range c.errors() {
			if math.Abs(e) <= near {
				continue
			}
			was, list := c.jobs[i].response, c.response[i]
			t.Row(c.name, c.jobs[i].id, seconds(was), seconds(harness.Median(list)),
				fmt.Sprintf("%.1f to %.1f s", harness.Quantile(list, 0.05), harness.Quantile(list, 0.95)), share(within(relative(list, was)), len(list)),
				fmt.Sprintf("%.0f %%", 100*below(list, was)))
		}
	}
}

// relative returns the absolute errors of values relative to another one.
func relative(list []float64, to float64) []float64 {
	var out []float64
	for _, x := range list {
		out = append(out, math.Abs(x/to-1))
	}
	return out
}

// repeats lists runs of the same workload with the same settings, both quiet.
var repeats = [][2]string{{"fifo-c-1", "fifo-c-2"}, {"fair-c", "fair-c-2"}}

// printRepeats prints how well a real run predicts its repeat: no simulator can do better on
// one run.
func printRepeats(w io.Writer, all []*comparison) {
	find := func(name string) *comparison {
		if i := slices.IndexFunc(all, func(c *comparison) bool { return c.name == name }); i >= 0 {
			return all[i]
		}
		return nil
	}
	fmt.Fprintln(w)
	t := harness.NewTable(w, "real run", "predicted by", "median error", "90 %", "within 15 %")
	for _, pair := range repeats {
		for k := range pair {
			run, by := find(pair[k]), find(pair[1-k])
			if run == nil || by == nil {
				continue
			}
			var abs []float64
			for i, j := range run.jobs {
				abs = append(abs, math.Abs(by.jobs[i].response/j.response-1))
			}
			for _, x := range []struct {
				by   string
				errs []float64
			}{{"its repeat, " + by.name, abs}, {"the replays", absolute(run.errors())}} {
				t.Row(run.name, x.by, percent(harness.Median(x.errs)), percent(harness.Quantile(x.errs, 0.9)), share(within(x.errs), len(x.errs)))
			}
		}
	}
}

func seconds(x float64) string { return fmt.Sprintf("%.1f s", x) }

func share(n, of int) string { return fmt.Sprintf("%d of %d", n, of) }

// inside counts the zeros.
func inside(outside []float64) int {
	n := 0
	for _, x := range outside {
		if x == 0 {
			n++
		}
	}
	return n
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func absolute(list []float64) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = math.Abs(x)
	}
	return out
}
