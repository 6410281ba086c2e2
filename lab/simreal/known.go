package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// The part "durations known" asks how far the simulator's decisions and their timing are from the
// engine's, apart from predictions of durations. Tasks sleep for stated times, so that other
// processes on the machine delay them little. Each mix runs for real under each policy, in turns,
// and each simulated response time is compared with the median of the real rounds.

// The goals of this part: the error of a job at the median and for nine of ten.
const (
	knownMedian = 0.02
	knownNinth  = 0.05
)

// knownPolicies decide without the load of nodes, which sleeping tasks do not have.
var knownPolicies = []string{"fifo", "fair", "capacity", "tumm", "modfair", "dynamicmr-pi", "statictags"}

// sleepJob is a job of sleeping tasks.
type sleepJob struct {
	at            time.Duration
	pool          string
	maps, reduces []time.Duration // times of the tasks
}

// knownMix draws the jobs of a mix. No two tasks have the same time. With equal times many tasks
// would end at the same moment, and it would depend on microseconds which one a policy sees first.
func knownMix(seed uint64, jobs int) []sleepJob {
	g := rand.New(rand.NewPCG(seed, 16))
	between := func(least, most int) time.Duration { return time.Duration(least+g.IntN(most-least)) * time.Millisecond }
	times := func(n, least, most int) (list []time.Duration) {
		for range n {
			list = append(list, between(least, most))
		}
		return list
	}
	var out []sleepJob
	at := time.Duration(0)
	for i := range jobs {
		n, r := []int{2, 4, 8, 16, 30}[g.IntN(5)], []int{0, 1, 2, 4}[g.IntN(4)]
		out = append(out, sleepJob{at: at, pool: string(rune('a' + i%3)), maps: times(n, 150, 900), reduces: times(r, 200, 800)})
		at += between(100, 600)
	}
	return out
}

// knownCase is a mix under a policy.
type knownCase struct {
	mix    int
	policy string
	jobs   []sleepJob
	// real has the response times of each round, simulated the simulation's, and plain the times
	// of a simulation without the engine's rules; see simulateKnown.
	real             [][]float64
	simulated, plain []float64
	// log has the launches of each real round, simulatedLog the simulated ones.
	logs         [][]string
	simulatedLog []string
}

// known runs the part and prints it.
func (s *settings) known(ctx context.Context) error {
	var cases []*knownCase
	for m := range 2 {
		jobs := knownMix(uint64(m+1), 12)
		for _, p := range knownPolicies {
			if s.only == "" || s.only == p {
				cases = append(cases, &knownCase{mix: m + 1, policy: p, jobs: jobs})
			}
		}
	}
	for _, c := range cases {
		var err error
		if c.simulated, c.simulatedLog, err = s.simulateKnown(c, true); err != nil {
			return err
		}
		if c.plain, _, err = s.simulateKnown(c, false); err != nil {
			return err
		}
	}
	var late []float64
	for round := range s.rounds {
		for _, c := range cases {
			late = append(late, lateness())
			times, log, err := s.runKnown(ctx, c)
			if err != nil {
				return fmt.Errorf("mix %d, policy %s: %w", c.mix, c.policy, err)
			}
			c.real, c.logs = append(c.real, times), append(c.logs, log)
			fmt.Fprintf(s.log, "round %d, mix %d, policy %s: a sleep of 100 ms is %.1f ms late\n", round+1, c.mix, c.policy, late[len(late)-1])
		}
	}
	var page bytes.Buffer
	s.printKnown(&page, cases, late)
	os.Stdout.Write(page.Bytes())
	if s.markdown == "" {
		return nil
	}
	return os.WriteFile(s.markdown, page.Bytes(), 0o666)
}

// lateness is the reference loop of this part: it returns the median time in milliseconds by which
// sleeps of 100 ms end too late.
func lateness() float64 {
	var list []float64
	for range 5 {
		start := time.Now()
		time.Sleep(100 * time.Millisecond)
		list = append(list, (time.Since(start)-100*time.Millisecond).Seconds()*1000)
	}
	return harness.Median(list)
}

// runKnown runs a mix in the local shell.
func (s *settings) runKnown(ctx context.Context, c *knownCase) ([]float64, []string, error) {
	app, err := apps.Lookup("sleep")
	if err != nil {
		return nil, nil, err
	}
	times := func(list []time.Duration) string {
		var words []string
		for _, d := range list {
			words = append(words, d.String())
		}
		return strings.Join(words, ",")
	}
	var list []mapreduce.MixJob
	for i, j := range c.jobs {
		list = append(list, mapreduce.MixJob{Name: fmt.Sprint("job", i+1), App: app, Delay: j.at,
			Params:  mapreduce.Params{"maps": times(j.maps), "reduces": times(j.reduces)},
			Options: mapreduce.Options{Request: mapreduce.Request{Pool: j.pool}}})
	}
	var log bytes.Buffer
	o := mapreduce.MixOptions{Cluster: s.cluster(wideShape)}
	o.Cluster.Policy, o.Cluster.Events = c.policy, &log
	out, err := mapreduce.RunMix(ctx, list, o)
	if err != nil {
		return nil, nil, err
	}
	var responses []float64
	for i := range list {
		responses = append(responses, (out.Jobs[i].Results[0].Ended - c.jobs[i].at).Seconds())
	}
	return responses, launches(log.String()), nil
}

// simulateKnown simulates a mix as slotwise sim does with a file of these jobs and no flag but the
// cluster. Without rules the world lacks what the engine does with such jobs: maps that sleep have no
// place, reduces start at once if all maps of their job fit, and free nodes are offered work at once.
func (s *settings) simulateKnown(c *knownCase, rules bool) ([]float64, []string, error) {
	policy, err := policies.Build(c.policy, sched.Options{})
	if err != nil {
		return nil, nil, err
	}
	model, err := world.Lookup(world.Default)
	if err != nil {
		return nil, nil, err
	}
	if !rules {
		model.AsRun, model.EndsByRule, model.OutOfBand = false, false, true
	}
	jobs, err := c.file()
	if err != nil {
		return nil, nil, err
	}
	var log bytes.Buffer
	out, err := sim.Run(sim.Config{Policy: policy, Jobs: jobs, Model: model, Details: true, Seed: 1,
		Cluster: workload.Cluster{Groups: []workload.NodeGroup{
			{Name: "worker", Count: wideShape.workers, MapSlots: wideShape.maps, ReduceSlots: wideShape.reduces}}},
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) { writeStep(&log, now, ev, effects) }})
	if err != nil {
		return nil, nil, err
	}
	var responses []float64
	for i := range out.Jobs {
		responses = append(responses, (out.Jobs[i].Ended - c.jobs[i].at).Seconds())
	}
	return responses, launches(log.String()), nil
}

// file writes the mix as a file of jobs and reads it again.
func (c *knownCase) file() ([]workload.Job, error) {
	var jobs []workload.Job
	for i, j := range c.jobs {
		v := workload.Job{Name: fmt.Sprint("job", i+1), Submit: j.at, Request: job.Request{Pool: j.pool}}
		for _, d := range j.maps {
			v.Maps = append(v.Maps, workload.Task{Duration: d})
		}
		for _, d := range j.reduces {
			v.Reduces = append(v.Reduces, workload.Task{Duration: d})
		}
		jobs = append(jobs, v)
	}
	var text bytes.Buffer
	if err := workload.WriteJobs(&text, jobs); err != nil {
		return nil, err
	}
	m, err := workload.ReadMix("mix", &text)
	if err != nil {
		return nil, err
	}
	return m.Jobs(1)
}

// launch matches the launch of an attempt in a log of events: the job and the kind of its task. Which of
// the equal tasks of a job starts is no decision that matters.
var launch = regexp.MustCompile(`^\S+ +launch (j[0-9]+_[mr])_`)

// launches returns the sequence of a log's launches.
func launches(log string) (list []string) {
	for line := range strings.Lines(log) {
		if m := launch.FindStringSubmatch(line); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// ofKind returns the launches of maps (m) or reduces (r). Maps and reduces have slots of their own, so
// the order between the kinds says nothing.
func ofKind(list []string, kind string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return !strings.HasSuffix(l, "_"+kind) })
}

// agreement aligns the decisions of two sides by position and returns how many are equal, how many there
// are, and the first that differs, in words.
func agreement(real, simulated []string) (same, all int, first string) {
	for _, kind := range []string{"m", "r"} {
		a, b := ofKind(real, kind), ofKind(simulated, kind)
		for i := range min(len(a), len(b)) {
			if all++; a[i] == b[i] {
				same++
			} else if first == "" {
				first = fmt.Sprintf("launch %d: %s for %s", i+1, a[i], b[i])
			}
		}
	}
	return same, all, first
}

// medians returns the median real response time of each job, and how far its rounds are apart
// relative to it.
func (c *knownCase) medians() (times, spread []float64) {
	for i := range c.jobs {
		var list []float64
		for _, round := range c.real {
			list = append(list, round[i])
		}
		m := harness.Median(list)
		times, spread = append(times, m), append(spread, (slices.Max(list)-slices.Min(list))/m)
	}
	return times, spread
}

// off returns how far simulated times are from real ones.
func off(simulated, real []float64) (list []float64) {
	for i := range real {
		list = append(list, math.Abs(simulated[i]/real[i]-1))
	}
	return list
}

// printKnown writes the page.
func (s *settings) printKnown(w io.Writer, cases []*knownCase, late []float64) {
	var all, plain, spreads []float64
	for _, c := range cases {
		times, spread := c.medians()
		all, plain, spreads = append(all, off(c.simulated, times)...), append(plain, off(c.plain, times)...), append(spreads, spread...)
	}
	fmt.Fprintf(w, `# Simulated against real: durations known

Written by `+"`go -C lab run ./simreal -known -n %d`"+`. Two drawn mixes of 12 jobs whose tasks sleep, each for a time of
its own from 150 to 900 ms, ran under %d policies in the local shell, on %d workers of %d+%d slots in one process, and in the
simulator. A simulated response time is compared with the median of %d real rounds, whose order
alternates between the policies.

**Over %d jobs the error is %.1f %% at the median and %.1f %% for nine of ten; the goals are %.0f and %.0f %%.**
The rounds themselves are %.1f %% apart at the median and %.1f %% for nine of ten (greatest minus least, over
the median). Before each run five sleeps of 100 ms show what the load of the machine does to sleeping
tasks: they were %.1f ms late at the median and %.1f ms for nine of ten.

The simulation is slotwise sim's with a file of these jobs and no flag but the cluster. "Without the rules"
leaves out what its world has from the engine: maps that sleep read nothing and have no preferred node, reduces
start at once if all maps of their job can run at the same time (`+"`model.as-run=false`"+` turns both off), and nodes with
free slots get tasks as soon as these may start, without a heartbeat (`+"`model.out-of-band=true`"+` turns it off). Without
the rules the error is %.1f and %.1f %%.

"Decisions" aligns the launches of both sides, by job and kind of task, and counts the positions that are equal
in the round with the most equal ones. The last column has the first that differs, real for simulated.

`, s.rounds, len(cases)/2, wideShape.workers, wideShape.maps, wideShape.reduces, s.rounds,
		len(all), 100*harness.Median(all), 100*harness.Quantile(all, 0.9), 100*knownMedian, 100*knownNinth,
		100*harness.Median(spreads), 100*harness.Quantile(spreads, 0.9), harness.Median(late), harness.Quantile(late, 0.9),
		100*harness.Median(plain), 100*harness.Quantile(plain, 0.9))
	table := harness.NewTable(w, "mix", "policy", "error: median", "nine of ten", "worst", "without the rules: median", "nine of ten", "rounds apart: median", "nine of ten", "decisions equal", "first difference")
	for _, c := range cases {
		times, spread := c.medians()
		e, a := off(c.simulated, times), off(c.plain, times)
		best, total, first := -1, 0, ""
		for _, log := range c.logs {
			if same, n, where := agreement(log, c.simulatedLog); same > best {
				best, total, first = same, n, where
			}
		}
		table.Rowf("%d | %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %d of %d | %s", c.mix, c.policy,
			100*harness.Median(e), 100*harness.Quantile(e, 0.9), 100*slices.Max(e), 100*harness.Median(a), 100*harness.Quantile(a, 0.9),
			100*harness.Median(spread), 100*harness.Quantile(spread, 0.9), best, total, first)
	}
}
