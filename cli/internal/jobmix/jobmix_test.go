package jobmix

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched/job"
)

// readMix parses a mix. INPUT in the text becomes a file of 3 MiB.
func readMix(t *testing.T, text string) *workload.Mix {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(in, []byte(strings.Repeat("a line of 16 B.\n", 3<<16)), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := workload.ReadMix("mix.yaml", strings.NewReader(strings.ReplaceAll(text, "INPUT", in)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// simulated returns the jobs that Assume makes of a mix on 4 map and 2 reduce
// slots, and its assumptions.
func simulated(t *testing.T, m *workload.Mix) ([]workload.Job, string) {
	t.Helper()
	assumed, err := Assume(context.Background(), m, Cluster{MapSlots: 4, ReduceSlots: 2}, apps.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := m.Jobs(1)
	if err != nil {
		t.Fatal(err)
	}
	return jobs, strings.Join(assumed, "\n")
}

// TestPrograms compares the programs of all kinds of entries with the entries. It
// fails if a key is lost on its way from the file to the job.
func TestPrograms(t *testing.T) {
	m := readMix(t, `
jobs:
  - {name: words, app: wordcount, input: INPUT, include: '*.txt', exclude: [a, b], output: out, reduces: 3, split-size: 64MB,
     user: ann, pool: p, priority: VERY_HIGH, slow-start: 0, submit: 2s, hints: {map: {cpu: 9}}}
  - {mapper: cat, reducer: sort, input: INPUT, output: o, repeat: 2, every: 3s, after: words}
  - {name: nap, maps: 2, map-time: 5s, reduces: [{time: 1s}]}
  - {name: traced, app: unknown, maps: [{count: 2, cpu: 2s}]}
`)
	jobs, notes, err := Programs(m, 1, apps.Lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 5 {
		t.Fatalf("%d jobs", len(jobs))
	}
	words := jobs[0]
	o := words.Options
	if words.App.Name != "wordcount" || words.Delay != 2*time.Second || len(o.Inputs) != 1 || o.Reduces != 3 || o.SplitSize != 64<<20 ||
		o.User != "ann" || o.Pool != "p" || o.Priority != job.VeryHigh || o.SlowStart != job.StartAfter(0) ||
		o.Hints[job.Map].CPU != 9 || o.Output != "out" || !cmp.Equal(o.Include, []string{"*.txt"}) || !cmp.Equal(o.Exclude, []string{"a", "b"}) {
		t.Errorf("words: %+v", words)
	}
	for k, j := range jobs[1:3] {
		if j.Name != "streaming" || j.Job == nil || j.Job != jobs[1].Job || j.Options.Output != []string{"o-1", "o-2"}[k] ||
			j.Delay != time.Duration(k)*3*time.Second || !cmp.Equal(j.After, []int{0}) || j.Options.SlowStart != 0 {
			t.Errorf("streaming %d: %+v", k, j)
		}
	}
	for i, want := range map[int]mapreduce.Params{3: {"maps": "2x5s", "reduces": "1x1s"}, 4: {"maps": "2x2s", "reduces": ""}} {
		if j := jobs[i]; j.App.Name != SleepApp || !cmp.Equal(j.Params, want) {
			t.Errorf("%s: %v", j.Name, j.Params)
		}
	}
	if len(notes) != 2 || !strings.Contains(notes[0], `mix.yaml:6: job "nap": its tasks sleep`) || !strings.Contains(notes[1], `there is no app "unknown"`) {
		t.Errorf("notes %q", notes)
	}
}

// TestProgramErrors: an entry that cannot be started is an error that names the
// entry and the key. All such entries are reported at once.
func TestProgramErrors(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: [{app: wordcont, input: INPUT}]":                       `mix.yaml:1: job "wordcont": no app is called "wordcont"; did you mean "wordcount"?`,
		"jobs: [{app: wordcount}]":                                    `it names no input, and wordcount reads`,
		"jobs: [{app: pi, input: INPUT}]":                             "pi reads no input; leave input out",
		"jobs: [{app: pi, params: {colour: red}}]":                    "pi has no parameter colour",
		"jobs: [{mapper: cat}]":                                       "input is missing: streaming commands",
		"jobs: [{mapper: cat, input: INPUT, params: {a: 1}}]":         "streaming commands have no parameters",
		"classes: [{count: 2, app: wordcount, input: 10GB}]":          "add input, or map-time to let its tasks sleep",
		"classes: [{count: 2, name: z, maps: [{input: 1}], pool: p}]": `class "z": it cannot be started: it names no app`,
		"jobs: [{app: wordcount}, {app: grep, input: INPUT}]":         "grep needs the parameter regex",
	} {
		_, _, err := Programs(readMix(t, text), 1, apps.Lookup, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant something with %s", text, err, want)
		}
	}
}

// TestAssume checks the tasks and costs of entries that leave them to a program.
func TestAssume(t *testing.T) {
	jobs, assumed := simulated(t, readMix(t, `
profiles: [{app: sort, map-cpu: 1, map-selectivity: 1, reduce-cpu: 1, reduce-selectivity: 1}]
jobs:
  - {app: wordcount, input: INPUT}
  - {app: sort, input: INPUT, split-size: 1MiB, reduces: 5}
  - {app: sort, input: [nosuch], input-size: 128MiB}
  - {app: pi, params: {maps: 3}}
  - {mapper: cat, input: INPUT}
  - {app: wordcount, input: INPUT, map-time: 3s, reduces: 1, reduce-time: 4s}
  - {name: stated, app: wordcount, maps: 2, map-time: 1s}
`))
	for i, want := range [][2]int{{3, 2}, {3, 5}, {2, 2}, {3, 1}, {3, 0}, {3, 1}, {2, 0}} {
		if j := &jobs[i]; len(j.Maps) != want[0] || len(j.Reduces) != want[1] {
			t.Errorf("job %d %s: %d+%d tasks, want %d+%d", i, j.Name, len(j.Maps), len(j.Reduces), want[0], want[1])
		}
	}
	if cpu := jobs[1].Maps[0].CPU; cpu != time.Duration(1048576000) { // 1 MiB at 1 s/MB
		t.Errorf("sort: a map of %v", cpu)
	}
	if d := jobs[5].Maps[0].Duration; d != 3*time.Second || jobs[5].Reduces[0].Duration != 4*time.Second {
		t.Errorf("stated times: %v", d)
	}
	for i := range 5 {
		if jobs[i].Work() <= 0 {
			t.Errorf("job %d costs nothing", i)
		}
	}
	for _, want := range []string{
		`mix.yaml:4: job "wordcount": 3 maps for 3.0 MiB of input in splits of 1.0 MiB, as run would choose for 4 map slots; 2 reduces, as run would choose for 2 reduce slots; costs of wordcount from the built-in profile`,
		`mix.yaml:5: job "sort": 3 maps for 3.0 MiB of input in splits of 1.0 MiB, as split-size says; 5 reduces, as stated` + "\n",
		`mix.yaml:6: job "sort": 2 reduces, as run would choose`,
		`job "pi": 3 maps as its parameters say, and 1 reduce, as the app chooses; costs of pi unknown`,
		`job "streaming": 3 maps for 3.0 MiB of input in splits of 1.0 MiB, as run would choose for 4 map slots; 0 reduces, because it has no reducer; costs of the commands unknown`,
	} {
		if !strings.Contains(assumed+"\n", want) {
			t.Errorf("no assumption\n%s\namong\n%s", want, assumed)
		}
	}
	if strings.Contains(assumed, "stated\"") {
		t.Errorf("an entry that states everything has assumptions:\n%s", assumed)
	}
}

// TestAssumeErrors: what cannot be assumed is an error with the key to state.
func TestAssumeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: [{app: wordcount, input: nosuch}]":               "state their size as input-size",
		"jobs: [{app: wordcount}]":                              "the number of its maps is unknown: add input",
		"jobs: [{app: kmeans, input: INPUT}]":                   "kmeans is a chain of jobs",
		"jobs: [{app: nosuch, input: INPUT}]":                   `no app is called "nosuch"`,
		"jobs: [{app: wordcount, input: INPUT, split-size: 1}]": "are too many maps",
		"classes: [{app: grep, count: 1, input: [INPUT]}]":      "needs the parameter regex",
	} {
		_, err := Assume(context.Background(), readMix(t, text), Cluster{4, 2, nil}, apps.Lookup)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "mix.yaml:1: ") {
			t.Errorf("%s\n%v\nwant something with %s", text, err, want)
		}
	}
}

// TestDefaultProfiles: every built-in profile is of a built-in app, and gives a
// map of 64 MiB a plausible time.
func TestDefaultProfiles(t *testing.T) {
	list, err := workload.ReadProfiles("built-in profiles", strings.NewReader(defaultProfiles))
	if err != nil || len(list) < 8 {
		t.Fatalf("%d profiles, %v", len(list), err)
	}
	for i := range list {
		if _, err := apps.Lookup(list[i].App); err != nil {
			t.Error(err)
		}
		if cpu := list[i].MapTask(64 << 20).CPU; cpu < 5*time.Millisecond || cpu > time.Minute {
			t.Errorf("%s: a map of 64 MiB takes %v", list[i].App, cpu)
		}
	}
}

// TestRunAndSimAgree compares the number of tasks that Assume finds for a program
// with the number that a run of the job has, on a cluster with the same slots.
func TestRunAndSimAgree(t *testing.T) {
	const text = `
jobs:
  - {app: wordcount, input: INPUT}
  - {app: sort, input: INPUT}
  - {app: grep, params: {regex: line}, input: INPUT, split-size: 512k}
  - {mapper: cat, reducer: uniq -c, input: INPUT, reduces: 3}
  - {app: pi, params: {samples: 100}}
`
	m := readMix(t, text)
	jobs, _, err := Programs(m, 1, apps.Lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := mapreduce.RunMix(context.Background(), jobs, mapreduce.MixOptions{
		Cluster: mapreduce.ClusterOptions{Workers: 2, MapSlots: 2, ReduceSlots: 1, TempDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	sim, _ := simulated(t, m)
	for i := range sim {
		run := r.Jobs[i].Results[0]
		if got, want := [job.Kinds]int{len(sim[i].Maps), len(sim[i].Reduces)}, [job.Kinds]int{run.Maps, run.Reduces}; got != want {
			t.Errorf("%s: %v tasks simulated, %v run", sim[i].Name, got, want)
		}
	}
}

// TestCheckOutputs finds two outputs of which one is, or lies in, the other, however they are
// spelled, and no others.
func TestCheckOutputs(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		outputs []string
		clash   bool
	}{
		{[]string{"", "", "a", "a-1", "ab", "b/a", "s3://k/a", "hdfs://n/a"}, false},
		{[]string{"a", "b", "a"}, true},
		{[]string{"a", "a-1", "./a/"}, true},
		{[]string{"a", "a-1", "a/b"}, true},
		{[]string{"a/b/c", "a"}, true},
		{[]string{"a", "file://" + wd + "/a"}, true},
		{[]string{"a", wd + "/b/../a"}, true},
		{[]string{"s3://k/a/", "s3://k/a"}, true},
		{[]string{"hdfs://n/a", "hdfs://n//a/b"}, true},
	} {
		jobs := make([]mapreduce.MixJob, len(x.outputs))
		for i, out := range x.outputs {
			jobs[i].Options.Output = out
		}
		if err := CheckOutputs(jobs); (err != nil) != x.clash {
			t.Errorf("%q: %v", x.outputs, err)
		}
	}
}

// TestPlaceOutputs gives jobs of any names a directory each, below the one that is named.
func TestPlaceOutputs(t *testing.T) {
	names := []string{"x", "x", "x-2", "", "job", "..", ".", "__", "a/b", "a_b", "../x"}
	jobs := make([]mapreduce.MixJob, len(names))
	for i, name := range names {
		jobs[i].Name = name
	}
	PlaceOutputs(jobs, "out")
	for i := range jobs {
		if dir, _ := filepath.Split(jobs[i].Options.Output); dir != "out/" {
			t.Errorf("job %q writes %s", names[i], jobs[i].Options.Output)
		}
	}
	if err := CheckOutputs(jobs); err != nil {
		t.Error(err)
	}
}
