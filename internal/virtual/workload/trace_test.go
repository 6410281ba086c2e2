package workload

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error, want one with %s", want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%v\nwant something with\n%s", err, want)
	}
}

const swimRows = "a\t10\t10\t134217729\t2147483649\t30\n" + // 128 MiB and a byte; 2 GiB and a byte
	"b\t12.5\t2\t0\t0\t0\r\n" +
	"\n" +
	"c\t11\t0\t64\t0\t1000\n"

func TestSWIM(t *testing.T) {
	trace, err := ReadSWIM("t.tsv", strings.NewReader(swimRows), SWIMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"t.tsv:4: submitted before the job before it; 1 such jobs, sorted by time"}; !cmp.Equal(trace.Warnings, want) {
		t.Errorf("warnings %q, want %q", trace.Warnings, want)
	}
	a, c, b := trace.List[0], trace.List[1], trace.List[2]
	if a.Name != "a" || c.Name != "c" || b.Name != "b" || a.Submit != 0 || c.Submit != time.Second || b.Submit != 2500*time.Millisecond {
		t.Fatalf("order: %s %v, %s %v, %s %v", a.Name, a.Submit, c.Name, c.Submit, b.Name, b.Submit)
	}
	if len(a.Maps) != 3 || a.Maps[2].Input != 1 || len(a.Reduces) != 3 || len(b.Maps) != 1 || len(b.Reduces) != 0 || len(c.Reduces) != 0 {
		t.Errorf("tasks: %d+%d, %d+%d", len(a.Maps), len(a.Reduces), len(b.Maps), len(b.Reduces))
	}
	// A block takes 18.5 s and a second.
	if d := a.Maps[0].Duration; d != 19500*time.Millisecond {
		t.Errorf("a map of a block takes %v", d)
	}
	var out, in int64
	for i := range a.Maps {
		out += a.Maps[i].Output
		in += a.Reduces[i].Input
	}
	if out != 2147483649 || in != out || c.Maps[0].Output != 1000 {
		t.Errorf("map output %d, reduce input %d", out, in)
	}
}

func TestSWIMOptions(t *testing.T) {
	p := Profile{App: "x", MapCPU: 1, SortCPU: 2, ReduceCPU: 3}
	trace, err := ReadSWIM("t.tsv", strings.NewReader("a\t10\t10\t4000000\t2000000\t30\nb\t20\t10\t8\t1\t1\nc\t30\t0\t1\t1\t1\n"), SWIMOptions{
		TraceOptions: TraceOptions{TimeScale: 0.5, Limit: 2, Pools: Naming{Turn: []string{"p", "q"}}},
		Block:        1e6, ReducesPerMap: 2, MaxReduces: 3, DataScale: 0.5, Profile: &p})
	if err != nil {
		t.Fatal(err)
	}
	a, b := trace.List[0], trace.List[1]
	if len(trace.List) != 2 || b.Submit != 5*time.Second || a.Pool != "p" || b.Pool != "q" {
		t.Errorf("%d jobs, second at %v in %q", len(trace.List), b.Submit, b.Pool)
	}
	if len(a.Maps) != 2 || len(a.Reduces) != 3 || len(b.Reduces) != 2 {
		t.Errorf("%d+%d and %d+%d tasks", len(a.Maps), len(a.Reduces), len(b.Maps), len(b.Reduces))
	}
	// 1 MB in, 0.5 MB out: 1·1 + 0.5·2 s.
	if want := (Task{Input: 1e6, Output: 5e5, CPU: 2 * time.Second}); !cmp.Equal(a.Maps[0], want) {
		t.Errorf("map %+v, want %+v", a.Maps[0], want)
	}
	if b.Reduces[0].Input != 1 {
		t.Errorf("a byte of shuffle became %d by scaling", b.Reduces[0].Input)
	}
	const generator = "g\t1\t1\t10\t0\t3221225473\n" // 3 GiB and a byte of 10
	if trace, err = ReadSWIM("t.tsv", strings.NewReader(generator), SWIMOptions{}); err != nil || trace.Warnings != nil {
		t.Fatal(err, trace.Warnings)
	}
	if m := trace.List[0].Maps; len(m) != 4 || m[0].Output != 1<<28*3+1 || m[0].Input+m[1].Input+m[2].Input+m[3].Input != 10 {
		t.Errorf("maps that write: %+v", m)
	}
	if trace, err = ReadSWIM("t.tsv", strings.NewReader(generator), SWIMOptions{MapOutput: -1}); err != nil {
		t.Fatal(err)
	}
	if len(trace.List[0].Maps) != 1 || len(trace.Warnings) != 1 || !strings.HasPrefix(trace.Warnings[0], "t.tsv:1: maps that write more than 1 GiB") {
		t.Errorf("%d maps, %q", len(trace.List[0].Maps), trace.Warnings)
	}
	_, err = ReadSWIM("t.tsv", strings.NewReader(swimRows), SWIMOptions{DataScale: -1})
	wantError(t, err, "t.tsv: options: sizes, scales and rates must be above 0")
}

func TestSWIMErrors(t *testing.T) {
	for _, tt := range []struct{ name, row, want string }{
		{"columns", "a\t1\t1\t1\t1", "t.tsv:2: 5 columns, must be 6: job, submit time"},
		{"spaces", "a 1 1 1 1 1", "t.tsv:2: 1 columns"},
		{"negative time", "a\t-1\t1\t1\t1\t1", "t.tsv:2: submit time: -1 s is not a time"},
		{"NaN time", "a\tNaN\t1\t1\t1\t1", "t.tsv:2: submit time: NaN s is not a time"},
		{"infinite time", "a\t+Inf\t1\t1\t1\t1", "submit time: +Inf s is not a time"},
		{"no time", "a\t\t1\t1\t1\t1", `submit time: "" is not a number`},
		{"negative gap", "a\t1\t-1\t1\t1\t1", "gap: -1 s"},
		{"negative size", "a\t1\t1\t-1\t1\t1", "t.tsv:2: input bytes: -1, must be from 0"},
		{"NaN size", "a\t1\t1\t1\tNaN\t1", `t.tsv:2: shuffle bytes: "NaN" is not a whole number`},
		{"unit", "a\t1\t1\t10GB\t1\t1", `input bytes: "10GB" is not a whole number`},
		{"huge", "a\t1\t1\t1152921504606846976\t0\t1", "t.tsv:2: input bytes: 17179869184 maps, a job may have 1048576"},
		{"overflow", "a\t1\t1\t99999999999999999999\t0\t1", "is not a whole number"},
		{"many reduces", "a\t1\t1\t1\t1152921504606846976\t1", "shuffle bytes: 1073741824 reduces, a job may have"},
		{"long line", strings.Repeat("x", 70000), "t.tsv:2: bufio.Scanner: token too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadSWIM("t.tsv", strings.NewReader("ok\t1\t1\t10737418240\t1\t1\n"+tt.row+"\n"), SWIMOptions{})
			wantError(t, err, tt.want)
		})
	}
	_, err := ReadSWIM("t.tsv", strings.NewReader("\n"), SWIMOptions{})
	wantError(t, err, "t.tsv: no jobs")
	_, err = ReadSWIM("t.tsv", strings.NewReader(strings.Repeat("bad\n", 50)), SWIMOptions{})
	wantError(t, err, "t.tsv: and 30 more errors")
}

// The day of 5,894 jobs on 600 nodes at Facebook. It is not part of the project:
// SLOTWISE_TRACES names a folder that has it, in continuous integration at least.
func TestSWIMDay(t *testing.T) {
	dir := os.Getenv("SLOTWISE_TRACES")
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SLOTWISE_TRACES names no folder")
		}
		t.Skip("SLOTWISE_TRACES does not name a folder with swim-fb-2009-0.tsv")
	}
	f, err := os.Open(filepath.Join(dir, "swim-fb-2009-0.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := ReadSWIM(f.Name(), f, SWIMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps, only, in := 0, 0, int64(0)
	for _, j := range trace.List {
		maps += len(j.Maps)
		if len(j.Reduces) == 0 {
			only++
		}
		for _, r := range j.Reduces {
			in += r.Input
		}
	}
	// Counted with awk from the file.
	if len(trace.List) != 5894 || maps != 409855 || only != 4448 || in != 22216712306762 {
		t.Errorf("%d jobs, %d maps, %d map-only, %d bytes shuffled", len(trace.List), maps, only, in)
	}
	if last := trace.List[len(trace.List)-1].Submit; last < 23*time.Hour || last > 25*time.Hour {
		t.Errorf("the last job comes at %v", last)
	}
}

const rumenJobs = `{"jobID": "job_1", "jobName": "sort", "user": "ann", "queue": "prod", "priority": "VERY_HIGH",
 "outcome": "SUCCESS", "submitTime": 1371222054000, "totalMaps": 3, "totalReduces": 1,
 "jobProperties": {"mapreduce.job.reduce.slowstart.completedmaps": "0.5"},
 "mapTasks": [
  {"taskID": "m0", "startTime": 1371222060000, "finishTime": 1371222090000, "inputBytes": 100,
   "preferredLocations": [{"layers": ["rack", "n1"]}, {"layers": ["rack", "n2"]}],
   "attempts": [
    {"result": "KILLED", "startTime": 1371222060000, "finishTime": 1371222061000},
    {"result": "SUCCESS", "startTime": 1371222070000, "finishTime": 1371222090000, "mapInputBytes": -1,
     "hdfsBytesRead": 128, "mapOutputBytes": 64, "resourceUsageMetrics": {"cumulativeCpuUsage": 15000}}]},
  {"taskID": "m1", "startTime": -1, "finishTime": -1}],
 "reduceTasks": [{"taskID": "r0", "attempts": [
    {"result": "SUCCESS", "startTime": 1371222080000, "finishTime": 1371222100000, "reduceShuffleBytes": 60, "hdfsBytesWritten": 7}]}]
}
{"jobID": "job_2", "submitTime": 1371222055000, "outcome": "KILLED", "mapTasks": []} {"jobID": "job_3", "submitTime": 1371222053000,
 "mapTasks": [{"taskID": "m0", "startTime": 5, "finishTime": 5}]}
{"jobID": "job_4", "submitTime": 1371222054000}
`

func TestRumen(t *testing.T) {
	trace, err := ReadRumen("r.json", strings.NewReader(rumenJobs), RumenOptions{TraceOptions: TraceOptions{KeepHosts: true}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{Name: "job_3", Maps: []Task{{Duration: time.Millisecond}}, Reduces: []Task{}},
		{Name: "sort", App: "sort", Request: job.Request{User: "ann", Pool: "prod", Priority: job.VeryHigh, SlowStart: 0.5}, Submit: time.Second,
			Maps: []Task{{Duration: 20 * time.Second, Input: 128, Output: 64, CPU: 15 * time.Second, Hosts: []string{"n1", "n2"}},
				{Duration: 20 * time.Second}, {Duration: 20 * time.Second}},
			Reduces: []Task{{Duration: 10 * time.Second, Fetch: -1, Input: 60, Output: 7}}},
	}
	if diff := cmp.Diff(want, recorded(t, trace.List)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	warnings := []string{
		`r.json:1: job "job_1": 2 tasks have no times and get the median`,
		`r.json:17: job "job_4" has no tasks and is left out`,
		"r.json: 1 jobs that did not succeed are left out",
		"r.json:15: submitted before the job before it; 1 such jobs, sorted by time",
	}
	if diff := cmp.Diff(warnings, trace.Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	trace, err = ReadRumen("r.json", strings.NewReader(rumenJobs), RumenOptions{Stages: true})
	if err != nil {
		t.Fatal(err)
	}
	if m := trace.List[1].Maps[0]; m.Duration != 0 || m.CPU != 15*time.Second || m.Hosts != nil {
		t.Errorf("with stages: %+v", m)
	}
}

func TestRumenErrors(t *testing.T) {
	const ok = `{"jobID": "a", "submitTime": 1, "mapTasks": [{"startTime": 1, "finishTime": 2}]}` + "\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "r.json: no jobs"},
		{"cut off", ok + "{\n \"jobID\": \"b\",\n", "r.json:3: the file ends within an object, the last one after line 1"},
		{"syntax", ok + "{\n \"jobID\" \"b\"}\n", "r.json:3: invalid character '\"' after object key"},
		{"NaN", ok + "{\"submitTime\": NaN}\n", "r.json:2: invalid character 'N'"},
		{"type", ok + "{\"jobID\": \"b\",\n\"submitTime\": \"noon\"}\n", "r.json:3: submitTime: should be a int64, is a string"},
		{"fraction", ok + "{\"submitTime\": 1.5}\n", "r.json:2: submitTime: should be a int64, is a number 1.5"},
		{"array", "[" + ok + "]", "r.json:1: should be JSON objects {…} one after another, is "},
		{"no submit", ok + `{"jobID": "b", "mapTasks": []}`, `r.json:2: job "b": submitTime is missing or negative`},
		{"negative submit", ok + `{"jobID": "b", "submitTime": -5}`, "submitTime is missing or negative"},
		{"backwards", `{"submitTime": 1, "mapTasks": [{"taskID": "m7", "startTime": 3, "finishTime": 2}]}`, `task "m7": it finished at 2, before it started at 3`},
		{"too long", `{"submitTime": 1, "mapTasks": [{"startTime": 3, "finishTime": 4000000000000}]}`, "more than 10 years"},
		{"far apart", ok + `{"jobID": "b", "submitTime": 1371222053000, "mapTasks": [{"startTime": 1, "finishTime": 2}]}`, `r.json:2: job "b" comes`},
		{"no times", `{"submitTime": 1, "totalMaps": 3}`, "3 maps and the time of none of them"},
		{"many", `{"submitTime": 1, "totalReduces": 2000000000}`, "2000000000 reduces, a job may have"},
		{"priority", `{"submitTime": 1, "priority": "URGENT"}`, `unknown priority "URGENT"`},
		{"zero tasks", `{"jobID": "z", "submitTime": 1}`, `r.json:1: job "z" has no tasks and is left out`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadRumen("r.json", strings.NewReader(tt.text), RumenOptions{})
			wantError(t, err, tt.want)
		})
	}
}

func TestSLS(t *testing.T) {
	trace, err := ReadSLS("s.json", strings.NewReader(`
{"am.type": "mapreduce", "job.start.ms": 5000, "job.end.ms": 9000, "job.queue.name": "q", "job.id": "j1", "job.user": "ann",
 "job.tasks": [
  {"container.host": "/rack/n1", "container.start.ms": 6000, "container.end.ms": 8000, "container.priority": 20, "container.type": "map"},
  {"container.start.ms": 6500, "container.end.ms": 9000, "container.priority": 10, "container.type": "reduce"}]}
{"job.count": 2, "job.start.ms": 5500, "job.tasks": [{"container.type": "map", "duration.ms": 700, "count": 3}]}
`), TraceOptions{KeepHosts: true})
	if err != nil {
		t.Fatal(err)
	}
	three := []Task{{Duration: 700 * time.Millisecond}, {Duration: 700 * time.Millisecond}, {Duration: 700 * time.Millisecond}}
	want := []Job{
		{Name: "j1", App: "mapreduce", Request: job.Request{User: "ann", Pool: "q"},
			Maps: []Task{{Duration: 2 * time.Second, Hosts: []string{"n1"}}}, Reduces: []Task{{Duration: time.Second, Fetch: -1}}},
		{Name: "job2", Submit: 500 * time.Millisecond, Maps: three},
		{Name: "job2-2", Submit: 500 * time.Millisecond, Maps: three},
	}
	if diff := cmp.Diff(want, recorded(t, trace.List)); diff != "" || trace.Warnings != nil {
		t.Errorf("%q (-want +got)\n%s", trace.Warnings, diff)
	}
	for text, want := range map[string]string{
		`{"job.id": "j"}`:                            `s.json:1: job "j": has no tasks`,
		`{"job.start.ms": -1, "job.tasks": [{}]}`:    `job.start.ms: -1, must not be negative`,
		`{"job.tasks": [{"container.type": "map"}]}`: "task 0: neither duration.ms nor container.start.ms",
		`{"job.tasks": [{"container.type": "map", "container.start.ms": 5, "container.end.ms": 3}]}`:           "task 0: it takes -2 ms",
		`{"job.tasks": [{"container.type": "am", "duration.ms": 1}]}`:                                          `container.type "am", must be map or reduce`,
		`{"job.tasks": [{"container.type": "map", "duration.ms": 1, "count": 0}]}`:                             "count 0, must be at least 1",
		`{"job.tasks": [{"container.type": "map", "duration.ms": 1, "count": 99999999}]}`:                      "99999999 maps, a job may have",
		`{"job.count": 0, "job.tasks": [{"container.type": "map", "duration.ms": 1}]}`:                         "job.count: 0, must be from 1",
		`{"job.count": 1048576, "job.tasks": [{"container.type": "map", "duration.ms": 1, "count": 1000000}]}`: "so far; take fewer jobs",
		"{}\n" + `{"job.tasks": 3}`: "s.json:2: job.tasks: should be a []workload.slsTask",
		`{"job.id": "a", "job.tasks": [{"container.type": "map", "container.start.ms": 1.5, "container.end.ms": NaN}]}`: "invalid character 'N'",
	} {
		_, err := ReadSLS("s.json", strings.NewReader(text), TraceOptions{})
		wantError(t, err, want)
	}
}

const synthText = `{"description": "two classes", "num_nodes": 20, "nodes_per_rack": 4, "num_jobs": 400, "rand_seed": 2, "workloads": [
 {"workload_name": "w", "workload_weight": 0.5, "queue_name": "q1", "job_classes": [
   {"class_name": "c1", "user_name": "ann", "class_weight": 3, "mtasks_avg": 5, "mtasks_stddev": 1, "rtasks_avg": 2, "rtasks_stddev": 0,
    "dur_avg": 60, "mtime_avg": 10, "mtime_stddev": 2, "rtime_avg": 20, "rtime_stddev": 4},
   {"class_weight": 1, "mtasks_avg": 0.01, "mtime_avg": 1}],
  "time_distribution": [{"time": 1, "weight": 1}, {"time": 60, "weight": 1}, {"time": 61, "weight": 0}]}]}`

func TestSynth(t *testing.T) {
	s, err := ReadSynth("y.json", strings.NewReader(synthText))
	if err != nil {
		t.Fatal(err)
	}
	jobs, again := jobsOf(t, s, 1), jobsOf(t, s, 1)
	if !reflect.DeepEqual(jobs, again) || reflect.DeepEqual(jobs, jobsOf(t, s, 2)) {
		t.Error("the seed does not decide")
	}
	if s.Nodes != 20 || s.NodesPerRack != 4 || len(jobs) != 400 {
		t.Errorf("%d nodes, %d in a rack, %d jobs", s.Nodes, s.NodesPerRack, len(jobs))
	}
	first, early, maps, last := 0, 0, 0, time.Duration(0)
	for _, j := range jobs {
		if j.Class == "w/c1" {
			first++
			maps += len(j.Maps)
			if len(j.Reduces) != 2 || j.User != "ann" || j.Pool != "q1" {
				t.Fatalf("%+v", j)
			}
		} else if len(j.Maps) != 1 || j.Maps[0].Duration != time.Second {
			t.Fatalf("%+v", j)
		}
		if j.Submit < max(last, time.Second) || j.Submit > 61*time.Second {
			t.Fatalf("submitted at %v", j.Submit)
		}
		if last = j.Submit; last < time.Minute {
			early++
		}
	}
	if first < 270 || first > 330 || early < 160 || early > 240 || maps < 48*first/10 || maps > 52*first/10 {
		t.Errorf("%d of the first class with %d maps, %d early", first, maps, early)
	}
}

func TestSynthErrors(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{synthText, "", "y.json: is empty"},
		{`"num_jobs": 400`, `"num_jobs": 0`, "y.json:1: num_jobs is missing or not from 1"},
		{`"num_jobs": 400, `, ``, "num_jobs is missing"},
		{`"class_weight": 1`, `"class_weight": -9`, "must be above 0"},
		{`"workload_weight": 0.5`, `"workload_weight": 0`, `workloads[0] "w": workload_weight 0`},
		{`"mtasks_avg": 5`, `"mtasks_avg": -5`, `class "w/c1": -5, must be a number of at least 0`},
		{`"mtasks_avg": 5`, `"mtasks_avg": "five"`, "y.json:3: workloads.job_classes.mtasks_avg: should be a float64, is a string"},
		{`"mtasks_avg": 5`, `"mtasks_avg": 0`, "a log-normal mean must be above 0"},
		{`"mtasks_avg": 5`, `"mtasks_avg": NaN`, "y.json:3: invalid character 'N'"},
		{`"time": 60`, `"time": 0`, "times must ascend"},
		{`"time": 60`, `"time": -60`, "-60 s is not a time"},
		{`"weight": 1}`, `"weight": 0}`, "weights add up to 0"},
		{`"time_distribution"`, `"times"`, "time_distribution: is missing"},
		{`"workloads"`, `"work"`, "no workloads with job_classes"},
		{synthText, synthText + "{}", "y.json:6: a second object"},
	} {
		_, err := ReadSynth("y.json", strings.NewReader(strings.ReplaceAll(synthText, tt.old, tt.new)))
		wantError(t, err, tt.want)
	}
	s, err := ReadSynth("y.json", strings.NewReader(strings.Replace(synthText, `"mtasks_avg": 5, "mtasks_stddev": 1`, `"mtasks_avg": 9e9`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Jobs(1)
	wantError(t, err, "9000000000 maps, a job may have")
}

// The newer form of a class states the number and the duration of the tasks of each
// kind.
func TestSynthTasks(t *testing.T) {
	const text = `{"num_jobs": 200, "workloads": [{"workload_name": "w", "workload_weight": 1, "job_classes": [
 {"class_name": "c", "class_weight": 1, "type": "mapreduce", "duration": {"val": 60}, "tasks": [
  {"type": "map", "priority": 20, "count": {"val": 5, "std": 1}, "time": {"val": 10, "std": 2, "dist": "NORM"}},
  {"type": "reduce", "priority": 10, "count": {"val": 2}, "time": {"discrete": ["20", 30]}, "max_vcores": {"val": 2}}]}],
 "time_distribution": [{"time": 1, "weight": 100}, {"time": 60, "weight": 0}]}]}`
	s, err := ReadSynth("y.json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	maps, spent, long, reduces := 0, time.Duration(0), 0, 0
	for _, j := range jobsOf(t, s, 1) {
		maps += len(j.Maps)
		for _, m := range j.Maps {
			spent += m.Duration
		}
		if len(j.Reduces) != 2 {
			t.Fatalf("%d reduces", len(j.Reduces))
		}
		for _, r := range j.Reduces {
			reduces++
			switch r.Duration {
			case 30 * time.Second:
				long++
			case 20 * time.Second:
			default:
				t.Fatalf("a reduce of %v", r.Duration)
			}
		}
	}
	if mean := spent.Seconds() / float64(maps); maps < 950 || maps > 1050 || mean < 9.8 || mean > 10.2 || long < reduces/3 || long > 2*reduces/3 {
		t.Errorf("%d maps of %.1f s, %d long reduces of %d", maps, mean, long, reduces)
	}
	for _, tt := range [][3]string{
		{`"type": "mapreduce"`, `"type": "stream"`, `y.json:1: class "w/c": type "stream", must be mapreduce`},
		{`"type": "map",`, `"type": "shuffle",`, `tasks[0]: type "shuffle", must be map or reduce`},
		{`"type": "reduce"`, `"type": "map"`, `tasks[1]: the second of type map`},
		{`"type": "map",`, `"type": "reduce",`, `tasks[1]: the second of type reduce`},
		{`"count": {"val": 2}`, `"count": {"std": 2}`, "tasks[1]: count: has neither val nor discrete"},
		{`"dist": "NORM"`, `"dist": "PARETO"`, `tasks[0]: time: dist "PARETO", must be LOGNORM or NORM`},
		{`"discrete": ["20", 30]`, `"discrete": ["20", 30], "weights": [1, 2]`, "tasks[1]: time: weights are not read"},
		{`"discrete": ["20", 30]`, `"discrete": ["soon"]`, "y.json:"},
		{`"val": 5, "std": 1`, `"val": -5`, "-5, must be a number of at least 0"},
	} {
		_, err := ReadSynth("y.json", strings.NewReader(strings.Replace(text, tt[0], tt[1], 1)))
		wantError(t, err, tt[2])
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// An error of the reader is not taken for the end of the file.
func TestBrokenReader(t *testing.T) {
	var errs []error
	_, err := ReadSWIM("f", brokenReader{}, SWIMOptions{})
	errs = append(errs, err)
	_, err = ReadRumen("f", brokenReader{}, RumenOptions{})
	errs = append(errs, err)
	_, err = ReadSLS("f", brokenReader{}, TraceOptions{})
	errs = append(errs, err)
	_, err = ReadSynth("f", brokenReader{})
	errs = append(errs, err)
	_, err = ReadMix("f", brokenReader{})
	errs = append(errs, err)
	_, err = ReadCluster("f", brokenReader{})
	for _, err := range append(errs, err) {
		wantError(t, err, "disk on fire")
	}
}

// Jobs with an Outline have the tasks that the same trace has without one.
func TestSWIMOutline(t *testing.T) {
	read := func(o SWIMOptions) []Job {
		trace, err := ReadSWIM("t.tsv", strings.NewReader(swimRows), o)
		if err != nil {
			t.Fatal(err)
		}
		return trace.List
	}
	by := Naming{BySize: true}
	whole := read(SWIMOptions{TraceOptions: TraceOptions{Pools: by}})
	for i, j := range read(SWIMOptions{TraceOptions: TraceOptions{Pools: by}, Outline: true}) {
		w := &whole[i]
		if j.Outline == nil || j.Maps != nil || j.Reduces != nil || j.Name != w.Name || j.Pool != w.Pool ||
			j.Count(job.Map) != len(w.Maps) || j.Count(job.Reduce) != len(w.Reduces) || j.Work() != w.Work() ||
			!reflect.DeepEqual(j.Tasks(), w.Tasks()) {
			t.Errorf("job %d: %+v, want %+v", i, j, w)
		}
	}
}

// TestObjectBound: a reader of objects ends when one does not, however much follows, and a long
// file of short ones is read whole.
func TestObjectBound(t *testing.T) {
	endless := &lineCounter{in: io.MultiReader(strings.NewReader(`{"a":"`), iotest.OneByteReader(neverEnding{})), most: 1000}
	if n, err := io.Copy(io.Discard, endless); !errors.Is(err, errObjectSize) || n > 1000+32<<10 {
		t.Errorf("%d bytes, %v", n, err)
	}
	short := &lineCounter{in: strings.NewReader(strings.Repeat("{}\n", 5000)), most: 1000}
	for b := make([]byte, 300); ; {
		n, err := short.Read(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		short.forget(short.read - int64(n))
	}
}

// neverEnding reads the same letter for ever.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// recorded checks that the times of jobs count as measured, and returns the jobs without this
// note, which all jobs of a trace have alike.
func recorded(t *testing.T, jobs []Job) []Job {
	t.Helper()
	jobs = append([]Job(nil), jobs...)
	for i := range jobs {
		if jobs[i].Origin != Recorded {
			t.Errorf("job %d: origin %d, want %d", i, jobs[i].Origin, Recorded)
		}
		jobs[i].Origin = Stated
	}
	return jobs
}
