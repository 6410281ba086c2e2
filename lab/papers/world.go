package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// With -world the command measures the numbers of the simulator's world slotwise-cluster, and the errors of predictions with them.
//
// On a cluster an attempt is a process of its own, a warm one after the first. It needs processor time that the
// profile of its app does not have, because "slotwise profile" measures in one process:
//
//   - overheads.start is that time for an attempt that only sleeps;
//   - overheads.attempt is the same for a task of a program: messages, files, connections, the worker and the master;
//   - overheads.shuffle is for each MB of map output: it is written, served, fetched and checked.
//
// The last two are fitted. Programs that shuffle and write different shares of their input run on a cluster, each with two
// sizes of splits. The processor time of all processes minus the prediction of the profile is
// attempts·attempt + MB·shuffle, with the least squares of errors relative to the run's processor time.
//
// Then jobs that had no part in this run on the cluster, and in the simulator under both worlds: each alone, whose
// processor time is compared because it is the same on a busy machine, and together, whose response times are.

// worldBatch is the cluster on which the world is measured: as many slots of a kind as processors.
var worldBatch = &batch{name: "world", workers: 2, maps: 1, reduces: 1, metric: turnaround,
	programs: app("wordcount", "DATA/text-16", ", reduces: 4") + app("sort", "DATA/text-10", ", reduces: 4, submit: 500ms") +
		app("grep", "DATA/text-21", ", submit: 1s") + app("wordcount", "DATA/text-6", ", reduces: 2, submit: 1500ms") +
		app("sort", "DATA/text-6", ", reduces: 2, submit: 2s") + app("grep", "DATA/text-10", ", submit: 2500ms"),
	contestants: []contestant{{name: "fifo", policy: "fifo"}, {name: "fair", policy: "fair"}}}

// worldSplits are the sizes of the splits in MiB of the runs by which the costs are fitted.
var worldSplits = [2]int{2, splitMiB}

// costs are the programs of these runs, with their inputs.
var costs = []struct{ app, input string }{
	{"wordcount", "text-16"}, {"sort", "text-10"}, {"grep", "text-21"}, {"invertedindex", "documents"}, {"histogramratings", "movies"},
}

// extra is the need of a run on a cluster beyond its profile.
type extra struct {
	attempts, megabytes float64 // attempts, and MB of map output
	seconds             float64 // of processor time
	used                float64 // all of the run, in seconds of processor time
}

// fitExtra returns the seconds of an attempt and of an MB by least squares of relative errors: profiles are wrong by a
// share, so a long run would decide alone otherwise. A cost that would be negative is 0.
func fitExtra(list []extra) (attempt, megabyte float64) {
	var nn, nm, mm, nt, mt float64
	for _, e := range list {
		e.attempts, e.megabytes, e.seconds = e.attempts/e.used, e.megabytes/e.used, e.seconds/e.used
		nn, nm, mm = nn+e.attempts*e.attempts, nm+e.attempts*e.megabytes, mm+e.megabytes*e.megabytes
		nt, mt = nt+e.attempts*e.seconds, mt+e.megabytes*e.seconds
	}
	det := nn*mm - nm*nm
	attempt, megabyte = (nt*mm-mt*nm)/det, (nn*mt-nm*nt)/det
	switch {
	case !(attempt >= 0):
		return 0, max(0, mt/mm)
	case !(megabyte >= 0):
		return max(0, nt/nn), 0
	}
	return attempt, megabyte
}

// world measures and prints the report of -world.
func (s *settings) world(ctx context.Context, out io.Writer, start time.Duration) error {
	var rows bytes.Buffer
	t := harness.NewTable(&rows, "program", "splits, MiB", "attempts", "map output, MB", "by the profile, s", "on the cluster, s", "more, s", "by the fit, s")
	var all []extra
	var cells [][]string
	for _, c := range costs {
		list, words, err := s.cost(ctx, c.app, c.input)
		if err != nil {
			return fmt.Errorf("cost of %s: %w", c.app, err)
		}
		all, cells = append(all, list...), append(cells, words...)
	}
	attempt, megabyte := fitExtra(all)
	for i, e := range all {
		t.Row(append(cells[i], fmt.Sprintf("%.3f", e.seconds), fmt.Sprintf("%.3f", e.attempts*attempt+e.megabytes*megabyte))...)
	}
	fmt.Fprintf(out, "%s\n%s\n", worldLines(start, attempt, megabyte), rows.String())
	return s.compareWorlds(ctx, out)
}

// worldLines returns the measured overheads as a world file has them: of a start, and in seconds of an attempt and of an MB.
func worldLines(start time.Duration, attempt, megabyte float64) string {
	return fmt.Sprintf("    overheads.start: %.1fms\n    overheads.attempt: %.1fms\n    overheads.shuffle: %.1fms\n", 1000*start.Seconds(), 1000*attempt, 1000*megabyte)
}

// cost measures one program on a cluster whose processes are warm. It returns what each size of splits needs beyond the
// profile, and the first cells of its row.
func (s *settings) cost(ctx context.Context, name, input string) (list []extra, cells [][]string, err error) {
	if err := s.measureProfile(ctx, name, input, 4); err != nil {
		return nil, nil, err
	}
	p, err := readProfile(s.profileOf(name))
	if err != nil {
		return nil, nil, err
	}
	temp, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	c, err := s.start(ctx, worldBatch, &contestant{policy: "fifo"}, filepath.Join(temp, "cluster"))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	used := make([][]float64, len(worldSplits))
	var last [len(worldSplits)]clusterRun
	for round := range s.rounds + 1 {
		for i, split := range worldSplits {
			if last[i], err = s.runOn(ctx, c, temp, splitOf(app(name, "DATA/"+profilePrefix+input, ", reduces: 4"), split)); err != nil {
				return nil, nil, err
			}
			if round > 0 { // the first round starts the processes
				used[i] = append(used[i], last[i].used.Seconds())
			}
		}
	}
	for i, split := range worldSplits {
		r, predicted, took := &last[i], last[i].predicted(p).Seconds(), harness.Median(used[i])
		e := extra{attempts: float64(r.tasks()), megabytes: r.shuffled(), seconds: took - predicted, used: took}
		list = append(list, e)
		cells = append(cells, []string{name, fmt.Sprint(split), fmt.Sprint(r.tasks()), fmt.Sprintf("%.0f", e.megabytes), fmt.Sprintf("%.3f", predicted), fmt.Sprintf("%.3f", took)})
		fmt.Fprintf(os.Stderr, "%s, splits of %d MiB: %.3f s, of rounds %.3f, by the profile %.3f s\n", name, split, took, used[i], predicted)
	}
	return list, cells, nil
}

// worlds are the worlds under which the jobs of worldBatch are simulated.
var worlds = []string{"slotwise", "slotwise-cluster"}

// predictedIn returns the processor time of a run by a profile, in a world.
func (r *clusterRun) predictedIn(name string, p *workload.Profile) (time.Duration, error) {
	m, err := world.Lookup(name)
	o := &m.Overheads
	return r.predicted(p) + time.Duration(r.tasks())*o.Attempt + time.Duration(r.shuffled()*float64(o.Shuffle)), err
}

// submitAt finds when an entry of a mix is submitted.
var submitAt = regexp.MustCompile(`, submit: [0-9a-z]+`)

// compareAlone runs each job of worldBatch alone, on a cluster whose processes are warm, and prints how far the
// processor time in each world is from the real one.
func (s *settings) compareAlone(ctx context.Context, out io.Writer, dir string) (err error) {
	c, err := s.start(ctx, worldBatch, &contestant{policy: "fifo"}, filepath.Join(dir, "alone"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	entries := strings.Split(strings.TrimSpace(worldBatch.programs), "\n")
	used, last := make([][]float64, len(entries)), make([]clusterRun, len(entries))
	for round := range s.rounds + 1 {
		for i, entry := range entries {
			// Without the wait before its submission, in which the idle cluster uses the processors, too.
			now := submitAt.ReplaceAllString(entry, "")
			if last[i], err = s.runOn(ctx, c, dir, "  "+now+"\n"); err != nil {
				return err
			}
			if round > 0 {
				used[i] = append(used[i], last[i].used.Seconds())
			}
		}
	}
	t := harness.NewTable(out, append([]string{"program", "input", "maps and reduces", "processor time, s", "rounds apart"}, worlds...)...)
	for i, entry := range entries {
		one := &batch{programs: entry}
		name := one.apps()[0]
		p, err := readProfile(s.profileOf(name))
		if err != nil {
			return err
		}
		took := harness.Median(used[i])
		row := []string{name, one.inputOf(name), fmt.Sprint(last[i].tasks()), fmt.Sprintf("%.3f", took),
			fmt.Sprintf("%.0f %%", 100*(harness.Quantile(used[i], 1)-harness.Quantile(used[i], 0))/took)}
		for _, w := range worlds {
			d, err := last[i].predictedIn(w, p)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%+.1f %%", 100*(d.Seconds()/took-1)))
		}
		t.Row(row...)
	}
	fmt.Fprintln(out)
	return nil
}

// compareWorlds runs the jobs of worldBatch for real and in each world, and prints the errors.
func (s *settings) compareWorlds(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := s.compareAlone(ctx, out, dir); err != nil {
		return err
	}
	file := filepath.Join(dir, "mix.yaml")
	text, err := worldBatch.mix(s.data, 1, 1)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	fmt.Fprintf(out, "Together, each half a second after the one before; the load average was %s:\n\n", harness.Load())
	t := harness.NewTable(out, "policy", "processes", "world", "error of a job: median", "nine of ten", "mean, with sign", "real rounds apart: median", "real mean response, s", "simulated")
	var parts bytes.Buffer
	p := harness.NewTable(&parts, "policy", "run", "response, s", "until the first launch", "until the end", "a map in its slot", "a reduce in its slot")
	for i := range worldBatch.contestants {
		c := &worldBatch.contestants[i]
		real := map[string][][]outcome{} // by the state of the processes, then the round
		for k := range s.rounds {
			// The jobs twice on one cluster: the second time most attempts find a process that has run one.
			cluster, err := s.start(ctx, worldBatch, c, filepath.Join(dir, fmt.Sprint(c.name, k)))
			if err != nil {
				return err
			}
			for _, state := range processes {
				jobs, err := s.submit(ctx, cluster, file, filepath.Join(dir, "out"), k+1)
				list := realOutcomes(jobs)
				for k := range jobs {
					err = errors.Join(err, addSlots(ctx, cluster, jobs[k].Results[0].ID, &list[k]))
				}
				if err := errors.Join(err, os.RemoveAll(filepath.Join(dir, "out"))); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", c.name, err), cluster.Stop())
				}
				real[state] = append(real[state], list)
			}
			if err := cluster.Stop(); err != nil {
				return err
			}
		}
		virtual := map[string][]outcome{} // by world
		for _, w := range worlds {
			if virtual[w], err = s.simulateIn(ctx, worldBatch, c, file, dir, 1, "--world", w); err != nil {
				return err
			}
		}
		for _, state := range processes {
			middle, apart := medians(responses(real[state]))
			for _, w := range worlds {
				var errs, sizes []float64
				simulated := responses([][]outcome{virtual[w]})[0]
				for k, took := range simulated {
					errs = append(errs, took/middle[k]-1)
					sizes = append(sizes, max(took/middle[k]-1, 1-took/middle[k]))
				}
				t.Rowf("%s | %s | %s | %.1f %% | %.1f %% | %+.1f %% | %.1f %% | %.2f | %.2f", c.name, state, w, 100*harness.Median(sizes), 100*harness.Quantile(sizes, 0.9), 100*harness.Mean(errs),
					100*harness.Median(apart), harness.Mean(middle), harness.Mean(simulated))
			}
			p.Row(append([]string{c.name, state}, partsOf(slices.Concat(real[state]...))...)...)
		}
		for _, w := range worlds {
			p.Row(append([]string{c.name, w}, partsOf(virtual[w])...)...)
		}
	}
	fmt.Fprintf(out, "\nWhere the time goes, means over jobs and tasks in seconds:\n\n%s", parts.String())
	return nil
}

// processes are the states of the processes in the two turns of a real round.
var processes = []string{"cold", "warm"}

// addSlots adds the tasks of a job that has ended, and the times of their attempts, to its outcome.
func addSlots(ctx context.Context, c *harness.Cluster, id string, o *outcome) error {
	master, err := client.New(c.URL, client.Options{})
	if err != nil {
		return err
	}
	r, err := client.Call(ctx, master, master.RPC().History, &slotwisev1.HistoryRequest{Job: id})
	if err != nil {
		return err
	}
	for _, j := range r.GetJobs() {
		for _, t := range j.GetTasks() {
			s := &o.maps
			if strings.Contains(t.GetId(), "_r_") {
				s = &o.reduces
			}
			s.tasks++
			for _, a := range t.GetAttempts() {
				s.seconds += float64(a.GetEndedMs()-a.GetStartedMs()) / 1000
			}
		}
	}
	return nil
}

// responses returns the response times of jobs in each round.
func responses(rounds [][]outcome) (list [][]float64) {
	for _, r := range rounds {
		var one []float64
		for _, o := range r {
			one = append(one, o.Ended-o.Submitted)
		}
		list = append(list, one)
	}
	return list
}

// partsOf returns the cells of a run in the table of parts: where the jobs' time goes.
func partsOf(jobs []outcome) (cells []string) {
	var wait, work float64
	var maps, reduces slots
	for _, o := range jobs {
		wait, work = wait+o.Started-o.Submitted, work+o.Ended-o.Started
		maps = slots{maps.tasks + o.maps.tasks, maps.seconds + o.maps.seconds}
		reduces = slots{reduces.tasks + o.reduces.tasks, reduces.seconds + o.reduces.seconds}
	}
	n := float64(len(jobs))
	for _, v := range []float64{(wait + work) / n, wait / n, work / n, maps.seconds / maps.tasks, reduces.seconds / reduces.tasks} {
		cells = append(cells, fmt.Sprintf("%.3f", v))
	}
	return cells
}

// medians returns for each job the median over the rounds, and how far its rounds are apart: greatest minus
// least over the median.
func medians(rounds [][]float64) (middle, apart []float64) {
	for i := range rounds[0] {
		var list []float64
		for _, r := range rounds {
			list = append(list, r[i])
		}
		m := harness.Median(list)
		middle = append(middle, m)
		apart = append(apart, (harness.Quantile(list, 1)-harness.Quantile(list, 0))/m)
	}
	return middle, apart
}

// predicted returns the processor time of a run's tasks by a profile.
func (r *clusterRun) predicted(p *workload.Profile) (sum time.Duration) {
	for _, x := range r.results {
		maps, reduces := max(1, x.Maps), max(1, x.Reduces)
		sum += time.Duration(x.Maps) * p.MapTask(x.Counters["map.input_bytes"]/int64(maps)).CPU
		sum += time.Duration(x.Reduces) * p.ReduceTask(x.Counters["reduce.input_bytes"]/int64(reduces), x.Maps).CPU
	}
	return sum
}

// tasks returns the number of a run's tasks.
func (r *clusterRun) tasks() (n int) {
	for _, x := range r.results {
		n += x.Maps + x.Reduces
	}
	return n
}

// shuffled returns the MB of map output that a run's reduces have read.
func (r *clusterRun) shuffled() (sum float64) {
	for _, x := range r.results {
		sum += float64(x.Counters["reduce.input_bytes"]) / 1e6
	}
	return sum
}

// splitOf replaces the size of the splits of an app's entry.
func splitOf(entry string, mib int) string {
	return strings.Replace(entry, fmt.Sprint("split-size: ", splitMiB, "MiB"), fmt.Sprint("split-size: ", mib, "MiB"), 1)
}
