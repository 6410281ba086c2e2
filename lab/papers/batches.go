package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/sched/job"
)

// batch is a set of jobs of a paper, the contestants that run it, and what the paper says of
// them.
type batch struct {
	name, what    string
	workers       int
	maps, reduces int      // slots of a worker
	unequal       [][2]int // slots by worker instead; then no contestant has its own
	flags         []string // further flags of each worker
	// times makes the jobs of a round, whose tasks sleep; nil for a batch of programs.
	times func(seed uint64) ([]workload.Job, error)
	// programs has the entries of a job mix, in which "DATA" is the directory of inputs.
	programs string
	// waiting says that tasks of the programs wait for a server and need no processor meanwhile.
	waiting bool
	// realOnly says that the simulator cannot predict the programs: their tasks wait for a
	// server, or overload it.
	realOnly    bool
	contestants []contestant // the first is the paper's baseline
	metric      metric
	claims      []claim
}

// contestant is a policy with its parameters, and its own slots if it has any.
type contestant struct {
	name, policy  string
	set           []string // name=value
	maps, reduces int      // slots of a worker; if both are 0, the batch's
}

// metric computes the number by which a batch is judged from the outcomes of its jobs.
type metric struct {
	name string
	of   func(jobs []outcome) float64
}

// outcome has the times of one job in seconds. Alone is its response time in the simulated
// cluster without other jobs. Started is the launch of its first task.
type outcome struct {
	Submitted, Started, Ended, Alone float64
	maps, reduces                    slots
}

// slots has the tasks of a kind, and the seconds for which they occupied slots.
type slots struct{ tasks, seconds float64 }

var (
	makespan = metric{"makespan, s", func(jobs []outcome) (last float64) {
		for _, j := range jobs {
			last = max(last, j.Ended)
		}
		return last
	}}
	turnaround = metric{"mean turnaround, s", func(jobs []outcome) float64 {
		var list []float64
		for _, j := range jobs {
			list = append(list, j.Ended-j.Submitted)
		}
		return harness.Mean(list)
	}}
	slowdown95 = metric{"95th percentile of slowdowns", func(jobs []outcome) float64 {
		var list []float64
		for _, j := range jobs {
			list = append(list, (j.Ended-j.Submitted)/j.Alone)
		}
		return harness.Quantile(list, 0.95)
	}}
)

// claim compares two contestants of a batch, as the paper does.
type claim struct {
	text     string
	printed  string // the paper's number, as "20 %", or less
	of, base string // names of contestants
	// gain: the number is base/of - 1, which is how much faster of is. Without it the number
	// is of/base - 1, the change.
	gain bool
}

// batches returns all batches in the order of the report.
func batches() []*batch {
	return slices.Concat(tumm(), modfair(), tyrex(), learning(), dynamicMR(), chains())
}

// sleeping makes a smaller and shorter copy of a paper's workload: one of jobs jobs, one of
// tasks tasks of each, and all times divided by by. The copies have no program, so their tasks
// sleep.
func sleeping(generator string, jobs, tasks int, by float64) func(uint64) ([]workload.Job, error) {
	return func(seed uint64) ([]workload.Job, error) {
		g, ok := workload.FindGenerator(generator)
		if !ok {
			return nil, fmt.Errorf("no generator %s", generator)
		}
		all, err := g.Source.Jobs(seed)
		if err != nil {
			return nil, err
		}
		var list []workload.Job
		for i := 0; i < len(all); i += jobs {
			j := all[i]
			from := workload.Job{Name: fmt.Sprintf("%s-%d", j.Name, len(list)+1), Class: j.Class, Request: job.Request{Pool: j.Pool, User: j.User, SlowStart: j.SlowStart},
				Submit: shorter(j.Submit, by)}
			if jobs == 1 { // else the jobs that this one waits for may be left out
				from.After = j.After
			}
			if from.SlowStart == 0 {
				from.SlowStart = job.DefaultSlowStart
			}
			all := j.Tasks()
			from.Maps, from.Reduces = fewer(all[job.Map], tasks, by), fewer(all[job.Reduce], tasks, by)
			list = append(list, from)
		}
		return list, nil
	}
}

// fewer returns every n-th of some tasks, in 1/by of the time.
func fewer(tasks []workload.Task, n int, by float64) (list []workload.Task) {
	for i := 0; i < len(tasks); i += n {
		t := &tasks[i]
		took := t.Duration
		if took == 0 {
			took = t.CPU
		}
		list = append(list, workload.Task{Duration: max(time.Millisecond, shorter(took, by))})
	}
	return list
}

// shorter divides a time and rounds it to milliseconds.
func shorter(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) / by).Round(time.Millisecond)
}

// splitMiB is the size of the input of a map of a program in MiB, so that a map takes about as
// long as ten attempts take to start.
const splitMiB = 8

// params are the parameters of apps, as a YAML mapping and for profiles alike. "DATA" stands
// for the directory of inputs.
var params = map[string]map[string]string{"grep": {"regex": "e.*r.*x"}, "classification": {"centroids": "DATA/centroids"}}

// app returns an entry of a job mix that runs an app on an input with splitMiB for each map.
func app(name, input, more string) string {
	for key, value := range params[name] {
		more += fmt.Sprintf(", params: {%s: '%s'}", key, value)
	}
	return fmt.Sprintf("  - {app: %s, input: %s, split-size: %dMiB%s}\n", name, input, splitMiB, more)
}

// inputs are the generated inputs by name: kind, and size in splits.
var inputs = map[string]struct {
	kind string
	size int
}{
	"text": {"text", 32}, "movies": {"movies", 32}, "documents": {"documents", 8}, "points": {"points", 16},
	"tpch": {"tpch", 16}, "trackerlogs": {"trackerlogs", 8},
	"text-6": {"text", 6}, "text-10": {"text", 10}, "text-16": {"text", 16}, "text-21": {"text", 21}, "text-25": {"text", 25},
}

// tumm returns the batches of Yao et al.: a benchmark three times (Figure 7), and a mix of
// five (Figure 8), on four nodes of four slots.
func tumm() []*batch {
	static := []contestant{{name: "2:2", policy: "fifo"}, {name: "3:1", policy: "fifo", maps: 3, reduces: 1}, {name: "1:3", policy: "fifo", maps: 1, reduces: 3}}
	moving := contestant{name: "tumm", policy: "tumm"}
	all := append(slices.Clone(static), moving)
	shortest := []claim{
		{text: "TuMM is shorter than the even division", printed: "less", of: "tumm", base: "2:2"},
		{text: "and than 3 map slots to 1", printed: "less", of: "tumm", base: "3:1"},
		{text: "and than 1 to 3", printed: "less", of: "tumm", base: "1:3"},
	}
	return []*batch{
		{name: "tumm/simple", what: "three jobs of InvertedIndex, a quarter of their tasks, times / 50", workers: 4, maps: 2, reduces: 2, metric: makespan,
			times: sleeping("tumm-invertedindex", 1, 4, 50), contestants: []contestant{static[0], moving},
			claims: []claim{{text: "TuMM takes 28 % less time than the even division (Figure 7)", printed: "-28 %", of: "tumm", base: "2:2"}}},
		{name: "tumm/mixed", what: "ten jobs of five benchmarks in random order, a quarter of their tasks, times / 100", workers: 4, maps: 2, reduces: 2, metric: makespan,
			times: sleeping("tumm-mixed-random", 1, 4, 100), contestants: all, claims: shortest},
		{name: "tumm/programs", what: "InvertedIndex, WordCount, Grep, HistogramRatings and Classification", workers: 4, maps: 2, reduces: 2, metric: makespan,
			programs: app("invertedindex", "DATA/documents", ", reduces: 16") + app("wordcount", "DATA/text", ", reduces: 8") +
				app("grep", "DATA/text", ", reduces: 8") + app("histogramratings", "DATA/movies", ", reduces: 8") +
				app("classification", "DATA/points", ", reduces: 8"),
			contestants: all, claims: shortest},
	}
}

// modfair returns the batches of Modified Fair's experiment B: jobs of five sizes at once in
// three pools, on eight nodes of two map slots and one reduce slot.
func modfair() []*batch {
	original := contestant{name: "fair", policy: "fair", set: []string{"pools=pool P1 minMaps=3 maxMaps=6; pool P2 minMaps=3 maxMaps=6; pool P3 minMaps=3 maxMaps=6;"}}
	list := []contestant{original, {name: "modfair", policy: "modfair", set: []string{"max-allocated=6", "max-mode=entitlement"}}, {name: "fifo", policy: "fifo"}}
	claims := []claim{
		{text: "the modified scheduler takes 57 % less time than the original (Table 7, mean)", printed: "-57 %", of: "modfair", base: "fair"},
		{text: "FIFO takes less time than the original (Table 7)", printed: "less", of: "fifo", base: "fair"},
	}
	var words strings.Builder
	for i, size := range []int{6, 10, 16, 21, 25} {
		for k := range 2 {
			words.WriteString(app("wordcount", fmt.Sprint("DATA/text-", size), fmt.Sprintf(", reduces: 1, slow-start: 1, pool: P%d", (2*i+k)%3+1)))
		}
	}
	return []*batch{
		{name: "modfair/mixed", what: "ten jobs of 6 to 25 maps, times / 50", workers: 8, maps: 2, reduces: 1, metric: turnaround,
			times: sleeping("modfair-b-10", 1, 1, 50), contestants: list, claims: claims},
		{name: "modfair/programs", what: "ten WordCounts of 6 to 25 maps", workers: 8, maps: 2, reduces: 1, metric: turnaround,
			programs: words.String(), contestants: list, claims: claims},
	}
}

// tyrex returns the batches of Ghit and Epema: a fifth of the jobs of the workload of high
// variability, on a fifth of the slots. As the policies' page advises, the timer is longer than all tasks of a short job take.
func tyrex() []*batch {
	list := []contestant{{name: "fifo", policy: "fifo"}, {name: "fair", policy: "fair,place=greedy"},
		{name: "statictags", policy: "statictags", set: []string{"timers=1s", "lend=false"}},
		{name: "dynamictags", policy: "dynamictags", set: []string{"lend=false"}}}
	claims := []claim{
		{text: "the 95th percentile of slowdowns is 50 to 60 % below FIFO's: DYNAMICTAGS (Figure 15)", printed: "-60 to -50 %", of: "dynamictags", base: "fifo"},
		{text: "the same: STATICTAGS", printed: "-60 to -50 %", of: "statictags", base: "fifo"},
		{text: "it is 20 to 40 % below FAIR's: DYNAMICTAGS (Figure 15)", printed: "-40 to -20 %", of: "dynamictags", base: "fair"},
		{text: "the same: STATICTAGS", printed: "-40 to -20 %", of: "statictags", base: "fair"},
	}
	const large = "[DATA/text, DATA/text, DATA/text]"
	const small = ", reduces: 1, repeat: 12, every: 150ms"
	return []*batch{
		{name: "tyrex/hvw", what: "60 of the 300 jobs of high variability at a load of 0.7, times / 200", workers: 4, maps: 6, reduces: 2, metric: slowdown95,
			times: sleeping("tyrex-hvw", 5, 1, 200), contestants: list, claims: claims},
		{name: "tyrex/programs", what: "two Sorts of 96 maps, and 24 WordCounts and Greps of 6 maps after them", workers: 4, maps: 6, reduces: 2, metric: slowdown95,
			programs:    app("sort", large, ", reduces: 8, repeat: 2") + app("wordcount", "DATA/text-6", small) + app("grep", "DATA/text-6", small),
			contestants: list, claims: claims},
	}
}

// pages is the number of pages that URLGet fetches, one a map.
const pages = 60

// learning returns the batches of Dhok and Varma: jobs that wait, and jobs that compute, under
// a fixed limit of five maps a node and under the learning scheduler.
func learning() []*batch {
	// The overload is defined by the busy share of the processors: a load average over a
	// minute means nothing in runs of seconds.
	list := []contestant{{name: "5 maps", policy: "fifo", maps: 5, reduces: 2}}
	for _, name := range []string{"learning-nb", "learning-perceptron"} {
		list = append(list, contestant{name: name, policy: name, set: []string{"profile=quick", "target=0", "cpu-limit=0.95", "max-tasks=12"}})
	}
	claims := func(text, printed string) (c []claim) {
		for _, of := range []string{"learning-nb", "learning-perceptron"} {
			c = append(c, claim{text: text + ": " + of, printed: printed, of: of, base: "5 maps"})
		}
		return c
	}
	fetch := fmt.Sprintf("  - {app: urlget, input: DATA/urls, split-size: %d, params: {timeout: 20s}, hints: {map: {cpu: 3, memory: 4, disk: 6, network: 7}}}\n", harness.PageLine)
	compute := "  - {app: cpuload, params: {maps: '60', records: '100', iterations: '40000'}, hints: {map: {cpu: 10, memory: 5, disk: 5, network: 3}}}\n"
	return []*batch{
		{name: "learning/urlget", what: fmt.Sprintf("URLGet of %d pages from a server that takes 1.5 s for each", pages), workers: 4, maps: 2, reduces: 2, metric: makespan, realOnly: true, waiting: true,
			programs: fetch, contestants: list, claims: claims("URLGet takes 0.6 of the time of five maps (Figure 11)", "-40 %")},
		{name: "learning/cpuactivity", what: "CPUActivity, which overloads its nodes under five maps", workers: 4, maps: 2, reduces: 2, metric: makespan, realOnly: true,
			programs: compute, contestants: list, claims: claims("CPUActivity takes 1.5 times as long (Figure 11)", "50 %")},
	}
}

// dynamicMR returns the batches of Tang, Lee and He: the first five jobs of Table 3 at once, on
// nodes of four map and two reduce slots.
func dynamicMR() []*batch {
	list := []contestant{{name: "fair", policy: "fair"}, {name: "dynamicmr-pi", policy: "dynamicmr-pi"}, {name: "dynamicmr-pd", policy: "dynamicmr-pd"},
		{name: "yarn", policy: "slots=unified,order=fair,place=delay,speculate=late"}}
	var claims []claim
	for _, of := range []string{"dynamicmr-pi", "dynamicmr-pd"} {
		claims = append(claims,
			claim{text: "batches gain 49 to 112 % on fixed slots: " + of, printed: "49 to 112 %", of: of, base: "fair", gain: true},
			claim{text: "they gain 2 to 9 % on slots without kinds: " + of, printed: "2 to 9 %", of: of, base: "yarn", gain: true})
	}
	pool := func(i int) string { return fmt.Sprintf(", reduces: 16, pool: p%d", i) }
	return []*batch{
		{name: "dynamicmr/five", what: "jobs J1 to J5, an eighth of their tasks, times / 50", workers: 4, maps: 4, reduces: 2, metric: makespan,
			times: sleeping("dynamicmr-5", 1, 8, 50), contestants: list, claims: claims},
		{name: "dynamicmr/programs", what: "WordCount, Sort, Grep, InvertedIndex and Classification", workers: 4, maps: 4, reduces: 2, metric: makespan,
			programs: app("wordcount", "DATA/text", pool(1)) + app("sort", "DATA/text", pool(2)) + app("grep", "DATA/text", pool(3)) +
				app("invertedindex", "DATA/documents", pool(4)) + app("classification", "DATA/points", pool(5)),
			contestants: list, claims: claims},
	}
}

// chains returns batches of chains of jobs whose tasks sleep: the three queries of TuMM's Table 5
// on unequal nodes, and a report of BTWorld beside short jobs. Nodes on one machine cannot differ
// in speed, so they differ in slots.
func chains() []*batch {
	fixed := contestant{name: "fifo", policy: "fifo"}
	return []*batch{
		{name: "chains/tpch", what: "TPC-H queries 15, 16 and 18 together, chains of five jobs each, half of their tasks, times / 10, on two workers of 3+3 slots and two of 1+1",
			workers: 4, maps: 2, reduces: 2, unequal: [][2]int{{3, 3}, {3, 3}, {1, 1}, {1, 1}}, metric: turnaround,
			times:       sleeping("tumm-tpch", 1, 2, 10),
			contestants: []contestant{fixed, {name: "htumm", policy: "htumm"}, {name: "tumm", policy: "tumm"}},
			claims:      []claim{{text: "the queries take 11 to 12 % less time under H_TuMM than on fixed slots (Table 5)", printed: "-12 to -11 %", of: "htumm", base: "fifo"}}},
		{name: "chains/btworld", what: "a chain of 12 jobs of 48 maps for a report of BTWorld (the paper uses nine of 26 and prints no sizes), and 24 jobs of 6 maps beside it",
			workers: 4, maps: 6, reduces: 2, metric: turnaround, times: btworld,
			contestants: []contestant{fixed, {name: "fair", policy: "fair,place=greedy"},
				{name: "statictags", policy: "statictags", set: []string{"timers=1s", "lend=false"}},
				{name: "dynamictags", policy: "dynamictags", set: []string{"lend=false"}}},
			claims: []claim{{text: "jobs take less time than under FIFO: DYNAMICTAGS", printed: "less", of: "dynamictags", base: "fifo"},
				{text: "the same: STATICTAGS", printed: "less", of: "statictags", base: "fifo"}}},
	}
}

// btworld makes a chain of jobs and short jobs beside it. Their sizes do not depend on the seed.
func btworld(uint64) (list []workload.Job, err error) {
	tasks := func(n int, took time.Duration) []workload.Task {
		return slices.Repeat([]workload.Task{{Duration: took}}, n)
	}
	for i := range 12 {
		list = append(list, workload.Job{Name: fmt.Sprint("report-", i+1), Request: job.Request{SlowStart: job.DefaultSlowStart},
			Maps: tasks(48, 300*time.Millisecond), Reduces: tasks(4, 300*time.Millisecond)})
		if i > 0 {
			list[i].After = []int{i - 1}
		}
	}
	for i := range 24 {
		list = append(list, workload.Job{Name: fmt.Sprint("short-", i+1), Request: job.Request{SlowStart: job.DefaultSlowStart},
			Submit: time.Duration(i) * 300 * time.Millisecond, Maps: tasks(6, 100*time.Millisecond), Reduces: tasks(1, 100*time.Millisecond)})
	}
	return list, nil
}

// cannotTest returns why a batch's slots do not decide how many of its tasks run at once, on a
// machine with a number of processors, and "" if they do. Tasks that compute share the
// processors, so a policy that fills more slots gains nothing, whatever the paper says.
func (b *batch) cannotTest(cores int) string {
	slots := b.workers * (b.maps + b.reduces)
	if b.times != nil || b.waiting || slots <= cores {
		return ""
	}
	return fmt.Sprintf("cannot test: %d slots compute on %d processors", slots, cores)
}

// apps returns the names of the apps in a batch of programs, each once.
func (b *batch) apps() (list []string) {
	for _, line := range strings.Split(b.programs, "\n") {
		if _, rest, ok := strings.Cut(line, "{app: "); ok {
			name, _, _ := strings.Cut(rest, ",")
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// mix returns the text of the job mix of a round.
func (b *batch) mix(data string, seed uint64, speedup float64) (string, error) {
	if b.times == nil {
		return "jobs:\n" + strings.ReplaceAll(b.programs, "DATA", filepath.ToSlash(data)), nil
	}
	jobs, err := b.times(seed)
	if err != nil {
		return "", err
	}
	for i := range jobs {
		j := &jobs[i]
		j.Submit = shorter(j.Submit, speedup)
		j.Maps, j.Reduces = fewer(j.Maps, 1, speedup), fewer(j.Reduces, 1, speedup)
	}
	var out strings.Builder
	err = workload.WriteJobs(&out, jobs)
	return out.String(), err
}
