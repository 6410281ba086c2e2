package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// sparkTask is the event of a successful task.
func sparkTask(stage, index int, launch, finish int64, more string) string {
	return fmt.Sprintf(`{"Event":"SparkListenerTaskEnd","Stage ID":%d,"Stage Attempt ID":0,"Task Type":"ShuffleMapTask","Task End Reason":{"Reason":"Success"},`+
		`"Task Info":{"Task ID":7,"Index":%d,"Attempt":0,"Launch Time":%d,"Executor ID":"1","Host":"h","Locality":"ANY","Speculative":false,"Getting Result Time":0,"Finish Time":%d,"Failed":false}%s}`+"\n",
		stage, index, launch, finish, more)
}

func sparkStart(job int, submit int64, stages string) string {
	return fmt.Sprintf(`{"Event":"SparkListenerJobStart","Job ID":%d,"Submission Time":%d,"Stage Infos":[%s],"Stage IDs":[],"Properties":{"spark.scheduler.pool":"etl"}}`+"\n", job, submit, stages)
}

func sparkEnd(job int, at int64, result string) string {
	return fmt.Sprintf(`{"Event":"SparkListenerJobEnd","Job ID":%d,"Completion Time":%d,"Job Result":{"Result":"%s"}}`+"\n", job, at, result)
}

// sparkLog is an application with a job of two stages, a job with a stage that was
// skipped, a failed one, and one without an end.
var sparkLog = `{"Event":"SparkListenerLogStart","Spark Version":"3.5.0"}
{"Event":"SparkListenerApplicationStart","App Name":"etl nightly","App ID":"app-1","Timestamp":900,"User":"ann"}
` + sparkStart(0, 1000, `{"Stage ID":0,"Number of Tasks":2,"Parent IDs":[]},{"Stage ID":1,"Number of Tasks":1,"Parent IDs":[0]}`) +
	sparkTask(0, 1, 1100, 5100, `,"Task Metrics":{"Executor CPU Time":1500000000,"Input Metrics":{"Bytes Read":64},"Shuffle Write Metrics":{"Shuffle Bytes Written":10}}`) +
	strings.Replace(sparkTask(0, 0, 1100, 2100, ""), "Success", "ExceptionFailure", 1) +
	sparkTask(0, 0, 2100, 9100, "") +
	sparkTask(0, 0, 2200, 9200, "") + // a copy that came second
	sparkTask(1, 0, 9200, 12200, `,"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":3,"Local Bytes Read":4,"Fetch Wait Time":100},"Output Metrics":{"Bytes Written":9}}`) +
	sparkEnd(0, 12300, "JobSucceeded") +
	sparkStart(1, 13000, `{"Stage ID":2,"Number of Tasks":9,"Parent IDs":[]},{"Stage ID":3,"Number of Tasks":1,"Parent IDs":[2]}`) +
	sparkTask(3, 0, 13000, 14000, "") +
	sparkEnd(1, 14000, "JobSucceeded") +
	sparkStart(2, 14000, `{"Stage ID":4,"Number of Tasks":1,"Parent IDs":[]}`) +
	sparkTask(4, 0, 14000, 15000, "") + sparkEnd(2, 15000, "JobFailed") +
	sparkStart(3, 15000, `{"Stage ID":5,"Number of Tasks":1,"Parent IDs":[]}`)

func TestSpark(t *testing.T) {
	const s = time.Second
	trace, err := Read("spark", "f", strings.NewReader(sparkLog), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{Name: "app-1/job0", App: "etl nightly", Request: job.Request{User: "ann", Pool: "etl", SlowStart: 1},
			Maps:    []Task{{Duration: 7 * s}, {Duration: 4 * s, CPU: 1500 * time.Millisecond, Input: 64, Output: 10}},
			Reduces: []Task{{Duration: 3 * s, Fetch: -1, Input: 7, Output: 9}}},
		// Its first stage was skipped; it was submitted after job 0 had ended.
		{Name: "app-1/job1", App: "etl nightly", Request: job.Request{User: "ann", Pool: "etl", SlowStart: 1}, Submit: 12 * s, After: []int{0}, Maps: []Task{{Duration: s}}},
	}
	if diff := cmp.Diff(want, recorded(t, jobsOf(t, trace, 1))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"f: 2 Spark jobs that did not succeed are left out",
		"f: 2 task attempts that failed, were killed or came second are left out"}, trace.(*Trace).Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
}

// A rolling log has several files, whose numbers are their order.
func TestSparkRolling(t *testing.T) {
	lines := strings.SplitAfter(sparkLog, "\n")
	list := files("log/eventlog_v2_a/events_10_a", strings.Join(lines[5:], ""), "log/eventlog_v2_a/appstatus_a", "", "log/eventlog_v2_a/events_9_a", strings.Join(lines[:5], ""))
	trace, err := ReadFolder("spark", "log", list, Options{Trace: TraceOptions{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if jobs := jobsOf(t, trace, 1); len(jobs) != 1 || len(jobs[0].Maps) != 2 || len(jobs[0].Reduces) != 1 {
		t.Errorf("jobs %+v", jobs)
	}
}

func TestSparkErrors(t *testing.T) {
	start := sparkStart(0, 1000, `{"Stage ID":0,"Number of Tasks":1,"Parent IDs":[0]}`)
	for text, want := range map[string]string{
		"{":                                   "f:1: the file ends within an object",
		start + sparkTask(0, 0, 9, 3, ""):     "f:2: stage 0, task 0: it finished at 3, before it started at 9",
		start + sparkTask(0, -1, 1, 3, ""):    "f:2: stage 0: task index -1",
		start + sparkTask(0, 1<<30, 1, 3, ""): "f:2: stage 0: task index 1073741824, must be from 0",
		sparkStart(0, -5, ""):                 "f:1: job 0: Submission Time -5",
		`{"Event":"SparkListenerLogStart"}`:   "f: no jobs",
		`{"Event":7}`:                         "f:1: Event: should be a string",
		start + sparkTask(0, 0, 1, 3, "") + sparkEnd(0, 9, "JobSucceeded"):                                                         "f:1: job 0: its stages wait for each other in a circle",
		sparkStart(0, 1, `{"Stage ID":0,"Number of Tasks":99999999}`) + sparkTask(0, 0, 1, 3, "") + sparkEnd(0, 9, "JobSucceeded"): "f:1: job 0: stage 0: 99999999 maps, a job may have",
	} {
		_, err := Read("spark", "f", strings.NewReader(text), Options{})
		wantError(t, err, want)
	}
	_, err := ReadFolder("spark", "d", files("d/app.lz4", "x"), Options{})
	wantError(t, err, "d/app.lz4: is compressed; decompress it first")
}

// addStages keeps every order of stages and adds none.
func TestAddStages(t *testing.T) {
	tasks := func(n int) []Task { return make([]Task, n) }
	for name, c := range map[string]struct {
		stages []stage
		want   []string // name: maps+reduces after
	}{
		"one":     {[]stage{{name: "M1", tasks: tasks(2)}}, []string{"j: 2+0 []"}},
		"pair":    {[]stage{{name: "M1", tasks: tasks(2)}, {name: "R2", parents: []int{0}, tasks: tasks(1)}}, []string{"j: 2+1 []"}},
		"join":    {[]stage{{name: "M1", tasks: tasks(2)}, {name: "M2", tasks: tasks(3)}, {name: "J3", parents: []int{0, 1}, tasks: tasks(1)}}, []string{"j: 5+1 []"}},
		"chain":   {[]stage{{name: "M1", tasks: tasks(2)}, {name: "R2", parents: []int{0}, tasks: tasks(1)}, {name: "R3", parents: []int{1}, tasks: tasks(4)}}, []string{"j/R2: 2+1 []", "j/R3: 0+4 [0]"}},
		"fork":    {[]stage{{name: "M1", tasks: tasks(2)}, {name: "R2", parents: []int{0}, tasks: tasks(1)}, {name: "R3", parents: []int{0}, tasks: tasks(4)}}, []string{"j/M1: 2+0 []", "j/R2: 0+1 [0]", "j/R3: 0+4 [0]"}},
		"mixed":   {[]stage{{name: "M1", tasks: tasks(2)}, {name: "R2", parents: []int{0}, tasks: tasks(1)}, {name: "M3", tasks: tasks(1)}, {name: "J4", parents: []int{1, 2}, tasks: tasks(5)}}, []string{"j/M3: 1+0 []", "j/R2: 2+1 []", "j/J4: 0+5 [1 0]"}},
		"reverse": {[]stage{{name: "R1", parents: []int{1}, tasks: tasks(1)}, {name: "M2", tasks: tasks(2)}}, []string{"j: 2+1 []"}},
	} {
		im := &importer{}
		if _, ok := im.addStages(1, Job{Name: "j"}, c.stages); !ok {
			t.Errorf("%s: a cycle", name)
		}
		var got []string
		for _, j := range im.jobs {
			got = append(got, fmt.Sprintf("%s: %d+%d %v", j.Name, len(j.Maps), len(j.Reduces), j.After))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// A task that computes all the time has its whole CPU time. Deserialising adds to it, and the sum is at
// most the task's time: Spark measures CPU time on one thread of the executor.
func TestSparkCPU(t *testing.T) {
	for metrics, want := range map[string]time.Duration{
		`{"Executor CPU Time":3900000000,"Executor Deserialize CPU Time":50000000}`:    3950 * time.Millisecond,
		`{"Executor CPU Time":3900000000,"Executor Deserialize CPU Time":9000000000}`:  4 * time.Second,
		`{"Executor CPU Time":9223372036854775807,"Executor Deserialize CPU Time":-1}`: 4 * time.Second,
	} {
		log := sparkStart(0, 1000, `{"Stage ID":0,"Number of Tasks":1}`) + sparkTask(0, 0, 1000, 5000, `,"Task Metrics":`+metrics) + sparkEnd(0, 5000, "JobSucceeded")
		trace, err := Read("spark", "f", strings.NewReader(log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := jobsOf(t, trace, 1)[0].Maps[0].CPU; got != want {
			t.Errorf("%s: %v of CPU, want %v", metrics, got, want)
		}
	}
}

// Tasks without an event get the median. It is computed once: a stage may lack a million tasks.
func TestSparkManyUnknown(t *testing.T) {
	var log strings.Builder
	log.WriteString(sparkStart(0, 1000, fmt.Sprintf(`{"Stage ID":0,"Number of Tasks":%d}`, MaxTasks)))
	for i := range 2000 {
		log.WriteString(sparkTask(0, i, 1000, int64(2000+i), ""))
	}
	log.WriteString(sparkEnd(0, 5000, "JobSucceeded"))
	began := time.Now()
	trace, err := Read("spark", "f", strings.NewReader(log.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if tasks := jobsOf(t, trace, 1)[0].Maps; len(tasks) != MaxTasks || tasks[MaxTasks-1].Duration != 1999*time.Millisecond {
		t.Errorf("%d tasks, the last takes %v", len(tasks), tasks[len(tasks)-1].Duration)
	}
	if d := time.Since(began); d > 4*time.Minute {
		t.Errorf("took %v", d)
	}
}
