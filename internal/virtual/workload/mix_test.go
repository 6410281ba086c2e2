package workload

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched/job"
)

func readMix(t *testing.T, text string) *Mix {
	t.Helper()
	m, err := ReadMix("mix.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func jobsOf(t *testing.T, s Source, seed uint64) []Job {
	t.Helper()
	jobs, err := s.Jobs(seed)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

const twoClasses = `
block: 1MiB
pools: [p1, p2, p3]
order: in-turn
start: 5s
arrivals: {every: 10s}
profiles:
  - {app: wc, map-cpu: 0.02, map-selectivity: 2, combiner-ratio: 0.25, sort-cpu: 0.01, reduce-cpu: 0.1, reduce-selectivity: 0.5}
classes:
  - name: small
    count: 2
    maps: 3
    reduces: 1
    map-time: 20s
    reduce-time: {uniform: [1s, 2s]}
    priority: high
    user: ann
  - name: big
    count: 3
    app: wc
    input: 2.5MiB
    reduces: 2
    slow-start: 0.5
    task-memory: 2GiB
    task-cpus: 3
`

func TestMix(t *testing.T) {
	jobs := jobsOf(t, readMix(t, twoClasses), 1)
	var text strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&text, "%s %s %q %s %v: %d+%d\n", j.Name, j.Pool, j.User, j.Class, j.Submit, len(j.Maps), len(j.Reduces))
	}
	want := `small-1 p1 "ann" small 5s: 3+1
big-1 p2 "" big 15s: 3+2
small-2 p3 "ann" small 25s: 3+1
big-2 p1 "" big 35s: 3+2
big-3 p2 "" big 45s: 3+2
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	small, big := jobs[0], jobs[1]
	if small.Priority != job.High || small.Maps[0].Duration != 20*time.Second || small.SlowStart != 0 {
		t.Errorf("small: %+v", small)
	}
	if d := small.Reduces[0].Duration; d < time.Second || d > 2*time.Second {
		t.Errorf("reduce of %v", d)
	}
	// 1 MiB = 1.048576 MB: 0.02 s/MB of input and 0.01 s/MB of twice as much.
	first := Task{Input: 1 << 20, Output: 1 << 19, CPU: time.Duration(math.Round(1.048576 * 0.04 * 1e9))}
	if diff := cmp.Diff(first, big.Maps[0]); diff != "" {
		t.Errorf("map of big (-want +got)\n%s", diff)
	}
	if big.Maps[2].Input != 1<<19 || big.SlowStart != 0.5 || big.TaskMemory != 2<<30 || big.TaskCPUs != 3 {
		t.Errorf("big: %+v", big)
	}
	// The reduces share 2.5 MiB · 2 · 0.25 = 1.25 MiB.
	if in := big.Reduces[0].Input; in != 1.25*(1<<20)/2 || big.Reduces[1].Output != in/2 {
		t.Errorf("reduces of big: %+v", big.Reduces)
	}
}

// TestMixSeeds: the seed determines the jobs, and the jobs of a class do not
// depend on other classes.
func TestMixSeeds(t *testing.T) {
	text := `
jobs: 40
arrivals: {poisson: 10s}
classes:
  - {name: a, share: 3, maps: {uniform: [1, 9]}, map-time: {exponential: 10s}}
  - {name: b, share: 1, maps: 2, map-time: {lognormal: {mean: 10s, cv2: 4}}}
`
	m := readMix(t, text)
	one, again, two := jobsOf(t, m, 1), jobsOf(t, m, 1), jobsOf(t, m, 2)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("same seed, other jobs:\n%s", diff)
	}
	if cmp.Equal(one, two) {
		t.Error("two seeds give the same jobs")
	}
	other := jobsOf(t, readMix(t, strings.Replace(text, "share: 1, maps: 2", "share: 1, maps: 5", 1)), 1)
	for i := range one {
		if one[i].Class == "a" && !cmp.Equal(one[i], other[i]) {
			t.Errorf("job %s changed with the other class", one[i].Name)
		}
	}
}

func TestArrivals(t *testing.T) {
	const class = "\nclasses: [{name: a, count: 400, maps: 2, map-time: 15s, reduces: 1, reduce-time: 10s}]\n"
	for _, tt := range []struct {
		law string
		gap float64 // mean, in seconds
		off float64 // that it may be off
	}{
		{"arrivals: at-once", 0, 0},
		{"arrivals: {every: 7s}", 7, 0},
		{"arrivals: {poisson: 7s}", 7, 1},
		// 40 s of work each on 8 slots at 0.5: one every 10 s.
		{"arrivals: {load: {of: 0.5, slots: 8}}", 10, 1.5},
	} {
		jobs := jobsOf(t, readMix(t, tt.law+class), 3)
		last := time.Duration(0)
		for i, j := range jobs {
			if j.Submit < last {
				t.Errorf("%s: job %d comes before the one before it", tt.law, i)
			}
			last = j.Submit
		}
		if gap := last.Seconds() / 399; math.Abs(gap-tt.gap) > tt.off+1e-9 {
			t.Errorf("%s: mean gap %g s, want %g", tt.law, gap, tt.gap)
		}
	}
	jobs := jobsOf(t, readMix(t, "arrivals: {times: [1s, 1s, 1m]}"+strings.Replace(class, "400", "3", 1)), 1)
	if jobs[0].Submit != time.Second || jobs[2].Submit != time.Minute {
		t.Errorf("times: %v, %v", jobs[0].Submit, jobs[2].Submit)
	}
}

// TestChains: the k-th job of a class waits for the k-th job of the class that
// it names.
func TestChains(t *testing.T) {
	text := `
order: ORDER
classes:
  - {name: a, count: 2, maps: 1, map-time: 1s}
  - {name: b, count: 2, maps: 1, map-time: 1s, after: a}
  - {name: c, count: 1, maps: 1, map-time: 1s, after: b}
`
	for _, order := range []string{"listed", "in-turn"} {
		jobs := jobsOf(t, readMix(t, strings.Replace(text, "ORDER", order, 1)), 1)
		var chain []string
		for _, j := range jobs {
			for _, p := range j.After {
				chain = append(chain, jobs[p].Name+"<"+j.Name)
			}
		}
		if got := strings.Join(chain, " "); got != "a-1<b-1 a-2<b-2 b-1<c-1" && got != "a-1<b-1 b-1<c-1 a-2<b-2" {
			t.Errorf("%s: %s", order, got)
		}
	}
}

// TestWork: the durations of all tasks add up to the drawn work, for any number
// of tasks.
func TestWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Class{Name: "w", Count: 1, Work: Fixed(rapid.Float64Range(0.1, 1e5).Draw(t, "work")),
			TaskTime: rapid.Float64Range(1, 100).Draw(t, "task"), ReduceShare: rapid.Float64Range(0, 1).Draw(t, "share")}
		m := &Mix{Classes: []Class{c}}
		jobs, err := m.Jobs(1)
		if err != nil {
			t.Fatal(err)
		}
		n := len(jobs[0].Maps) + len(jobs[0].Reduces)
		if off := jobs[0].Work().Seconds() - c.Work.A; n == 0 || math.Abs(off) > 0.001*float64(n+1) {
			t.Fatalf("%d tasks, %g s too much", n, off)
		}
	})
}

// TestDist compares the mean and the variance of many draws with the parameters
// of the distribution.
func TestDist(t *testing.T) {
	for _, tt := range []struct {
		d        Dist
		mean, sd float64
	}{
		{Fixed(3), 3, 0},
		{Dist{Shape: Uniform, A: 2, B: 8}, 5, 6 / math.Sqrt(12)},
		{Dist{Shape: Normal, A: 20, B: 2}, 20, 2},
		{Dist{Shape: LogNormal, A: 20, B: 10}, 20, 10},
		{LogNormalCV2(10, 0.25), 10, 5},
		{Dist{Shape: Exponential, A: 4}, 4, 4},
		{Dist{Shape: Table, Values: []float64{1, 1, 4}}, 2, math.Sqrt2},
	} {
		const n = 40000
		g := generator(1, "test", int(tt.d.Shape))
		sum, squares := 0., 0.
		for range n {
			v := tt.d.Draw(g)
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / n
		sd := math.Sqrt(max(0, squares/n-mean*mean))
		if math.Abs(mean-tt.mean) > 0.03*tt.mean || math.Abs(sd-tt.sd) > 0.05*tt.mean {
			t.Errorf("%+v: mean %g, deviation %g; want %g and %g", tt.d, mean, sd, tt.mean, tt.sd)
		}
	}
	wild := Dist{Shape: Normal, A: 1, B: 100}
	g := generator(1, "test", 0)
	for range 1000 {
		if v := wild.Draw(g); v < 0 {
			t.Fatalf("drew %g", v)
		}
	}
}

func TestMixErrors(t *testing.T) {
	const class = "classes: [{name: a, count: 1, maps: 1, map-time: 1s}]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "mix.yaml: is empty"},
		{"comment only", "# nothing\n", "mix.yaml: is empty"},
		{"syntax", "classes:\n  - {name: a\n", "mix.yaml:"},
		{"tab", "a: 1\n\tb: 2\n", "mix.yaml:2: "},
		{"no mapping", "- a\n", `mix.yaml:1: job mix: should be a mapping (key: value), is a list`},
		{"two documents", class + "---\na: 1\n", "mix.yaml:3: a second YAML document"},
		{"unknown key", class + "blok: 3\n", `mix.yaml:2: job mix: unknown key "blok"; there are jobs, order, start,`},
		{"twice", class + "block: 1\nblock: 2\n", `mix.yaml:3: job mix: key "block" again, it is on line 2 too`},
		{"no jobs", "block: 1MiB\n", "mix.yaml:1: no jobs"},
		{"empty list", "jobs: []\n", "mix.yaml:1: no jobs"},
		{"block", class + "block: 0\n", "mix.yaml:2: job mix: block: must be above 0"},
		{"size", class + "block: 3 parsecs\n", `mix.yaml:2: job mix: block: "3 parsecs" is not a size`},
		{"negative size", class + "block: -3MB\n", `"-3MB" is not a size from 0`},
		{"huge size", class + "block: 9e9PB\n", `is not a size from 0 to`},
		{"NaN size", class + "block: NaN\n", `is not a size from 0`},
		{"order", class + "order: best\n", `mix.yaml:2: job mix: order: unknown order "best"; there are listed, in-turn, shuffled`},
		{"null", class + "block:\n", "mix.yaml:2: job mix: block: should be a single value, is nothing"},
		{"class without size", "classes:\n  - name: a\n    count: 1\n    map-time: 1s\n", `mix.yaml:2: class "a": no tasks`},
		{"zero count", "classes:\n  - name: a\n    count: 0\n    maps: 1\n    map-time: 1s\n", `mix.yaml:3: class "a": count: 0, must be at least 1`},
		{"zero task-memory", "classes: [{count: 1, maps: 1, map-time: 1s, task-memory: 0}]\n", "task-memory: must be at least 1 MiB"},
		{"small task-memory", "classes: [{count: 1, maps: 1, map-time: 1s, task-memory: 2}]\n", "must be from 1 MiB to 1 PiB"},
		{"zero task-cpus", "classes: [{count: 1, maps: 1, map-time: 1s, task-cpus: 0}]\n", "task-cpus: 0, must be at least 1"},
		{"NaN time", "classes:\n  - name: a\n    count: 1\n    maps: 1\n    map-time: NaN\n", `mix.yaml:5: class "a": map-time: NaN s is not a time`},
		{"negative time", "classes: [{count: 1, maps: 1, map-time: -1s}]\n", `map-time: -1s is not a time`},
		{"no profile", "classes: [{count: 1, maps: 1, app: wc}]\n", `it has no map-time, and there is no profile of app "wc"`},
		{"no reduce time", "classes: [{count: 1, maps: 1, map-time: 1s, reduces: 2}]\n", "it has reduces and no reduce-time"},
		{"order of shares", "jobs: 3\norder: shuffled\nclasses: [{share: 1, maps: 1, map-time: 1s}]\n", "an order is given, which has a meaning only"},
		{"task time", "classes: [{count: 1, maps: 1, map-time: 1s, task-time: 3s}]\n", "have a meaning only with work"},
		{"work and maps", "classes: [{count: 1, maps: 1, work: 1h, task-time: 3s}]\n", "leave maps, input-size, reduces and their times out"},
		{"work alone", "classes: [{count: 1, work: 1h}]\n", "work needs a task-time above 0"},
		{"reduce time", "classes: [{count: 1, maps: 1, map-time: 1s, reduce-time: 3s}]\n", "it has a reduce-time and no reduces"},
		{"both sizes", "classes: [{count: 1, maps: 1, input: 1GB, map-time: 1s}]\n", "both maps and input-size"},
		{"no share", "jobs: 4\nclasses: [{count: 1, maps: 1, map-time: 1s}]\n", "needs a share above 0 and no count"},
		{"negative share", "jobs: 4\nclasses: [{share: -1, maps: 1, map-time: 1s}]\n", "share: -1, must be at least 0"},
		{"too many tasks", "classes: [{count: 1, maps: 1e9, map-time: 1s}]\n", "maps: 1e+09, must be at most"},
		{"priority", "classes: [{count: 1, maps: 1, map-time: 1s, priority: urgent}]\n", `unknown priority "urgent"; there are very-low`},
		{"same class", "classes: [{name: a, count: 1, maps: 1, map-time: 1s}, {name: a, count: 1, maps: 1, map-time: 1s}]\n", `a second class "a"`},
		{"after", "classes: [{count: 1, maps: 1, map-time: 1s, after: z}]\n", `there is no class "z" before it`},
		{"distribution", "classes: [{count: 1, maps: 1, map-time: {gamma: 3}}]\n", "should be a value or one of"},
		{"uniform", "classes: [{count: 1, maps: 1, map-time: {uniform: [2s, 1s]}}]\n", "from 2 to 1 is empty"},
		{"uniform of one", "classes: [{count: 1, maps: 1, map-time: {uniform: [2s]}}]\n", "should be [least, most]"},
		{"uniform of none", "classes: [{count: 1, maps: 1, map-time: {uniform: 2s}}]\n", "should be a list"},
		{"empty table", "classes: [{count: 1, maps: 1, map-time: {table: []}}]\n", "an empty table"},
		{"bell", "classes: [{count: 1, maps: 1, map-time: {normal: {mean: 1s}}}]\n", "should have mean and either sd or cv2"},
		{"arrivals", class + "arrivals: {sometimes: 3}\n", `mix.yaml:2: arrivals: unknown law "sometimes"`},
		{"unsorted times", class + "arrivals: {times: [3s, 1s]}\n", "number 2, 1s, is before the one before it"},
		{"few times", "arrivals: {times: [3s]}\nclasses: [{count: 2, maps: 1, map-time: 1s}]\n", "1 times for 2 jobs"},
		{"load", class + "arrivals: {load: {of: 0, slots: 3}}\n", "of: 0, must be above 0"},
		{"listed zero tasks", "jobs:\n  - name: j\n    submit: 1s\n", `mix.yaml:2: job "j": no tasks: it needs an app`},
		{"listed empty tasks", "jobs:\n  - name: j\n    maps: []\n", `mix.yaml:2: job "j": has no tasks`},
		{"listed without input", "jobs:\n  - app: wordcount\n", `mix.yaml:2: job "wordcount": the number of its maps is unknown; state maps or input-size`},
		{"app and commands", "jobs:\n  - {app: wc, mapper: cat}\n", `mix.yaml:2: job "wc": has an app and commands`},
		{"only a combiner", "jobs:\n  - {combiner: cat, input: f}\n", `mix.yaml:2: job 1: has a combiner, but neither`},
		{"a hint too high", "jobs:\n  - {app: wc, hints: {map: {cpu: 11}}}\n", `hints: map: cpu: 11, must be at most 10`},
		{"two sizes of the input", "classes: [{count: 1, app: wc, input: 1GB, input-size: 1GB}]\n", `input: a size, and input-size is there too`},
		{"arrivals of a list", "jobs: [{app: wc}]\narrivals: {every: 1s}\n", `mix.yaml:2: job mix: arrivals is for classes`},
		{"list and classes", "jobs: [{app: wc}]\nclasses: [{app: wc, count: 1}]\n", `mix.yaml:2: job mix: classes and a list of jobs`},
		{"a count in a list", "jobs: [{app: wc, count: 3}]\n", `unknown key "count"; there are name,`},
		{"params of no names", "jobs: [{app: wc, params: [1]}]\n", `job "wc": params: should be a mapping`},
		{"a param of no value", "jobs: [{app: wc, params: {k: [1]}}]\n", `params: k: should be a single value, is a list`},
		{"split size", "jobs: [{app: wc, split-size: big}]\n", `split-size: "big" is not a size such as 512k`},
		{"swap", "jobs: [{app: wc}]\nswap: [{at: 1s}]\n", `mix.yaml:2: swap 1: has no policy`},
		{"after no name", "jobs: [{app: wc}, {app: wc, after: nobody}]\n", `after: there is no job "nobody" before it`},
		{"listed forward", "jobs: [{after: [0], maps: [{time: 1s}]}]\n", "0 is not a job before it"},
		{"listed key", "jobs: [{maps: [{time: 1s, bytes: 3}]}]\n", `unknown key "bytes"; there are count, time,`},
		{"listed time", "jobs: [{submit: -3s, maps: [{time: 1s}]}]\n", "-3s is not a time"},
		{"hints", "classes: [{count: 1, maps: 1, map-time: 1s, hints: {map: [1, 2, 3, 11]}}]\n", "11, must be at most 10"},
		{"profile", "profiles: [{app: x}]\n" + class, `profile of "x": has no map-cpu`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadMix("mix.yaml", strings.NewReader(tt.text))
			if err == nil {
				_, err = m.Jobs(1)
			}
			if err == nil {
				t.Fatalf("no error, but %+v", m)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant something with\n%s", err, tt.want)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "mix.yaml:") {
					t.Errorf("%q does not begin with the file", line)
				}
			}
		})
	}
}

// TestTooMany: a short file that describes too many tasks is rejected before
// they are allocated.
func TestTooMany(t *testing.T) {
	for _, text := range []string{
		"classes: [{count: 1, input: 1000PiB, map-time: 1s}]",
		"classes: [{count: 1, maps: {exponential: 1000000}, map-time: 1s}, {name: b, count: 1, work: 3000h, task-time: 1ms}]",
	} {
		_, err := readMix(t, text).Jobs(1)
		if err == nil || !strings.Contains(err.Error(), "a job may have") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func anyName(t *rapid.T, label string) string {
	return rapid.StringN(0, 4, -1).Draw(t, label)
}

func anyJobs(t *rapid.T) []Job {
	jobs := make([]Job, rapid.IntRange(1, 4).Draw(t, "jobs"))
	size := rapid.Int64Range(0, 3)
	for i := range jobs {
		j := Job{Name: anyName(t, "name"), App: anyName(t, "app"), Request: job.Request{User: anyName(t, "user"), Pool: anyName(t, "pool"), Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))},
			Class:  anyName(t, "class"),
			Submit: time.Duration(rapid.Int64Range(0, int64(maxTime)).Draw(t, "submit"))}
		if rapid.Bool().Draw(t, "slow start") {
			j.SlowStart = job.StartAfter(rapid.Float64Range(0, 1).Draw(t, "fraction"))
		}
		for p := range i {
			if rapid.Bool().Draw(t, "after") {
				j.After = append(j.After, p)
			}
		}
		j.Hints[job.Reduce].Disk = uint8(rapid.IntRange(0, 10).Draw(t, "hint"))
		for range rapid.IntRange(1, 4).Draw(t, "maps") {
			task := Task{Duration: time.Duration(size.Draw(t, "time")), CPU: time.Duration(size.Draw(t, "cpu") * 1e9),
				Input: size.Draw(t, "input") << 50, Output: size.Draw(t, "output")}
			if rapid.Bool().Draw(t, "placed") {
				task.Hosts = []string{"h" + anyName(t, "host"), "-"}
			}
			j.Maps = append(j.Maps, task)
		}
		for range rapid.IntRange(0, 2).Draw(t, "reduces") {
			j.Reduces = append(j.Reduces, Task{Duration: time.Duration(size.Draw(t, "time"))})
		}
		jobs[i] = j
	}
	return jobs
}

// TestJobsRoundTrip: ReadMix gives back the jobs that WriteJobs wrote.
func TestJobsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := anyJobs(t)
		var b bytes.Buffer
		if err := WriteJobs(&b, jobs); err != nil {
			t.Fatal(err)
		}
		m, err := ReadMix("mix.yaml", bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		got, err := m.Jobs(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(jobs, got); diff != "" {
			t.Fatalf("(-written +read)\n%s\n%s", diff, b.String())
		}
	})
}

// TestEveryFieldRoundTrip sets each field of a job, of its request and of its tasks by itself. The mix that
// WriteJobs writes gives back an equal job, or WriteJobs returns an error that names the field.
func TestEveryFieldRoundTrip(t *testing.T) {
	task := Task{Duration: time.Second}
	// values returns a value of each field in turn, with the other fields as in base.
	values := func(base any) map[string]reflect.Value {
		list := make(map[string]reflect.Value)
		for i := range reflect.TypeOf(base).NumField() {
			v := reflect.New(reflect.TypeOf(base)).Elem()
			v.Set(reflect.ValueOf(base))
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString("text")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int8:
				f.SetInt(1)
			case reflect.Int:
				f.SetInt(3)
			case reflect.Int64:
				f.SetInt(1 << 21)
			case reflect.Uint8:
				f.SetUint(1)
			case reflect.Float64:
				f.SetFloat(0.5)
			case reflect.Array:
				f.Set(reflect.ValueOf([job.Kinds]job.Ratings{{CPU: 1}, {Network: 8}}))
			case reflect.Slice:
				if f.Type() != reflect.TypeFor[[]string]() {
					continue // the caller sets After and the tasks
				}
				f.Set(reflect.ValueOf([]string{"node1"}))
			default:
				continue // the caller sets the request and the outline
			}
			list[v.Type().Field(i).Name] = v
		}
		return list
	}
	all := map[string]Job{
		"After":   {Name: "j", Maps: []Task{task}, After: []int{0}},
		"Outline": {Name: "j", Outline: &Outline{Maps: 1, Make: func() (maps, reduces []Task) { return []Task{task}, nil }}},
	}
	for name, v := range values(Job{Name: "j", Maps: []Task{task}}) {
		all[name] = v.Interface().(Job)
	}
	for name, v := range values(job.Request{}) {
		all[name] = Job{Name: "j", Request: v.Interface().(job.Request), Maps: []Task{task}}
	}
	for name, v := range values(task) {
		all[name+" of a map"] = Job{Name: "j", Maps: []Task{v.Interface().(Task)}}
		all[name+" of a reduce"] = Job{Name: "j", Maps: []Task{task}, Reduces: []Task{v.Interface().(Task)}}
	}
	var refused []string
	for name, want := range all {
		var b bytes.Buffer
		if err := WriteJobs(&b, []Job{{Name: "first", Maps: []Task{task}}, want}); err != nil {
			if !strings.HasSuffix(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			refused = append(refused, name)
			continue
		}
		got := jobsOf(t, readMix(t, b.String()), 1)[1]
		if want.Outline != nil {
			want.Maps, want.Reduces = want.Outline.Make()
			want.Outline = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-written +read)\n%s", name, diff)
		}
	}
	slices.Sort(refused)
	if want := []string{"Fetch of a map", "Fetch of a reduce", "Hosts of a reduce", "MaxAttempts", "NoSpeculation", "Origin", "TaskTimeout"}; !slices.Equal(refused, want) {
		t.Errorf("WriteJobs refuses %q, want %q", refused, want)
	}
}

// TestDrawnRoundTrip: a drawn mix, written as a list, gives the same jobs with
// another seed.
func TestDrawnRoundTrip(t *testing.T) {
	jobs := jobsOf(t, readMix(t, twoClasses), 7)
	var b bytes.Buffer
	if err := WriteJobs(&b, jobs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jobs, jobsOf(t, readMix(t, b.String()), 8)); diff != "" {
		t.Errorf("(-drawn +read)\n%s", diff)
	}
}

func TestProfilesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(0, 1e6)
		var list []Profile
		for i := range rapid.IntRange(1, 3).Draw(t, "profiles") {
			p := Profile{App: fmt.Sprintf("app %d:", i), Source: anyName(t, "source")}
			for _, c := range costs {
				*c.of(&p) = f.Draw(t, c.key)
			}
			p.Hints[job.Map].CPU = uint8(rapid.IntRange(0, 10).Draw(t, "hint"))
			list = append(list, p)
		}
		var b bytes.Buffer
		if err := WriteProfiles(&b, list); err != nil {
			t.Fatal(err)
		}
		got, err := ReadProfiles("p.yaml", &b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Fatalf("(-written +read)\n%s", diff)
		}
	})
}

// Repeated submissions far beyond the end of time are at the end of time, not before the start.
func TestRepeatedFar(t *testing.T) {
	for text, n := range map[string]int{
		"jobs:\n- {name: a, maps: 1, map-time: 1s, repeat: 2000, every: 87000h}":                           2000,
		"arrivals: {every: 87000h}\nclasses:\n- {name: a, maps: 1, map-time: 1s, count: 2000}":             2000,
		"arrivals: {poisson: 87000h}\nclasses:\n- {name: a, maps: 1, map-time: 1s, count: 4000}":           4000,
		"start: 80000h\narrivals: {every: 87000h}\nclasses:\n- {name: a, maps: 1, map-time: 1s, count: 2}": 2,
	} {
		m, err := ReadMix("mix", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		jobs := jobsOf(t, m, 1)
		last := time.Duration(0)
		for i := range jobs {
			if jobs[i].Submit < last || jobs[i].Submit > maxTime {
				t.Fatalf("%s: job %d is submitted at %v, the one before at %v", text, i, jobs[i].Submit, last)
			}
			last = jobs[i].Submit
		}
		if len(jobs) != n || last != maxTime {
			t.Errorf("%s: %d jobs, the last at %v", text, len(jobs), last)
		}
	}
}
