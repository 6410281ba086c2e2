package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// alibabaTasks are rows of batch_task in their documented form. The job j_3 is a part of a
// real one.
const alibabaTasks = `M1,2.0,j_3,1,Terminated,157213,157295,100.0,0.3
R2_1,1.0,j_3,1,Terminated,157297,157322,100.0,0.49
J3_2_9,3,j_3,1,Terminated,157329,157376,100.0,0.59
task_Nzg3,2,j_4,1,Terminated,157300,157310,50.0,0.1
M1,5,j_5,1,Failed,157300,157310,50.0,0.1
M1,5,j_6,1,Waiting,,,50.0,0.1
M1_Stg1,1,j_7,1,Terminated,157400,157401,100,0.1
M2,1,j_7,1,Terminated,157400,0,100,0.1
`

func TestAlibaba(t *testing.T) {
	const s = time.Second
	trace, err := Read("alibaba", "f", strings.NewReader(alibabaTasks), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{Name: "j_3/R2_1", Request: job.Request{SlowStart: 1}, Maps: slices.Repeat([]Task{{Duration: 82 * s}}, 2), Reduces: []Task{{Duration: 25 * s, Fetch: -1}}},
		{Name: "j_3/J3_2_9", Request: job.Request{SlowStart: 1}, After: []int{0}, Reduces: slices.Repeat([]Task{{Duration: 47 * s, Fetch: -1}}, 3)},
		{Name: "j_4", Request: job.Request{SlowStart: 1}, Submit: 87 * s, Maps: slices.Repeat([]Task{{Duration: 10 * s}}, 2)},
		{Name: "j_7", Request: job.Request{SlowStart: 1}, Submit: 187 * s, Maps: []Task{{Duration: s}}},
	}
	if diff := cmp.Diff(want, recorded(t, jobsOf(t, trace, 1))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"f: 2 jobs with parts that did not terminate are left out",
		"f: 1 tasks without usable times are left out",
		"f: 1 dependencies on tasks that are not in the trace are left out",
		"f: 5 tasks have no rows of batch_instance: each of their instances takes the time from the first start to the last end",
		"f:1: fields that the importer does not use: plan_cpu, plan_mem",
	}, trace.(*Trace).Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
}

// Rows of batch_instance replace the times of batch_task.
func TestAlibabaInstances(t *testing.T) {
	const s = time.Second
	const instances = "ins_1,M1,j_3,1,Terminated,157213,157233,m_1,1,1,50,80,0.1,0.2\n" +
		"ins_2,M1,j_3,1,Failed,157213,157214,m_1,1,2,-1,-1,-1,-1\n" +
		"ins_3,J3_2_9,j_3,1,Terminated,157329,157331,m_1,1,1,101,80,0.1,0.2\n" +
		"ins_4,J3_2_9,j_3,1,Terminated,157329,157335,m_1,1,1,,,,\n" +
		"ins_4,J3_2_9,j_3,1,Terminated,157330,157339,m_2,2,2,,,,\n" // a copy that came second
	trace, err := ReadFolder("alibaba", "d", files("d/batch_task.csv", alibabaTasks, "d/batch_instance.csv", instances), Options{Trace: TraceOptions{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		// M1 has two instances by batch_task, of which one has no row.
		{Name: "j_3/R2_1", Request: job.Request{SlowStart: 1}, Maps: []Task{{Duration: 20 * s, CPU: 10 * s}, {Duration: 20 * s}}, Reduces: []Task{{Duration: 25 * s, Fetch: -1}}},
		{Name: "j_3/J3_2_9", Request: job.Request{SlowStart: 1}, After: []int{0}, Reduces: []Task{{Duration: 2 * s, Fetch: -1}, {Duration: 6 * s, Fetch: -1}, {Duration: 2 * s, Fetch: -1}}},
	}
	if diff := cmp.Diff(want, recorded(t, jobsOf(t, trace, 1))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	warnings := strings.Join(trace.(*Trace).Warnings, "\n")
	for _, w := range []string{"d: 1 instances that did not terminate are left out", "d: 2 instances have no row and get the median of their task", "d: 1 further runs of instances that terminated earlier are left out"} {
		if !strings.Contains(warnings, w) {
			t.Errorf("no warning %q in\n%s", w, warnings)
		}
	}
}

// Everything that is left out or guessed is counted in a warning, and with All failed jobs stay.
func TestAlibabaWarnings(t *testing.T) {
	const tasks = "M1,2,j_1,1,Terminated,100,110,100,0.5\n" +
		"M1,1,j_2,1,Terminated,0,0,100,0.5\n" + // no usable times, and no other task
		"M1,1,j_3,1,Failed,100,105,100,0.5\n" +
		"M1,1,j_4,1,Terminated,100,108,100,0.5\nR2_7,1,j_4,1,Terminated,110,115,100,0.5\n" // 7 is not there
	const instances = "i1,M1,j_1,1,Terminated,100,104,m,1,1,50,80,0.1,0.2\n" +
		"i2,M1,j_1,1,Interrupted,100,104,m,1,1,50,80,0.1,0.2\n" +
		"i3,M1,j_1,1,Terminated,104,100,m,1,1,50,80,0.1,0.2\n"
	for _, all := range []bool{false, true} {
		trace, err := ReadFolder("alibaba", "d", files("d/batch_task.csv", tasks, "d/batch_instance.csv", instances), Options{Trace: TraceOptions{All: all}})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"d: 1 jobs with parts that did not terminate are left out",
			"d: 1 instances that did not terminate are left out",
			"d: 1 jobs in which no task has usable times are left out",
			"d: 1 instances that terminated without usable times are left out",
			"d: 1 tasks without usable times are left out",
			"d: 1 dependencies on tasks that are not in the trace are left out",
			"d: 2 tasks have no rows of batch_instance: each of their instances takes the time from the first start to the last end",
			"d: 1 instances have no row and get the median of their task",
		}
		if all { // j_3 stays, but its task has no usable times
			want = slices.Delete(want, 0, 1)
			want[1], want[3] = "d: 2 jobs in which no task has usable times are left out", "d: 2 tasks without usable times are left out"
		}
		got := trace.(*Trace).Warnings
		if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
			t.Errorf("all %v: warnings (-want +got)\n%s", all, diff)
		}
		rest := strings.Join(got[min(len(want), len(got)):], "\n")
		for _, field := range []string{"mem_avg", "plan_cpu", "plan_mem"} {
			if !strings.Contains(rest, field) {
				t.Errorf("all %v: no warning about %s in\n%s", all, field, rest)
			}
		}
	}
}

func TestAlibabaErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "f: no jobs",
		"a,b\n":                           "f:1: has 2 columns; a row of batch_task has 9 and one of batch_instance 14",
		"M1,x,j,1,Terminated,1,2,3,4\n":   `f:1: instance_num "x", must be a number from 0`,
		"M1,9e9,j,1,Terminated,1,2,3,4\n": `f:1: instance_num "9e9", must be a number from 0`,
		"\nM1,1,j,1,Terminated,1,z,3,4\n": `f:2: end_time "z", must be a number of seconds`,
		"M1,1,,1,Terminated,1,2,3,4\n":    "f:1: has no job_name or no task_name",
		"M1_2,1,j,1,Terminated,1,2,3,4\nM2_1,1,j,1,Terminated,1,2,3,4\n": `f:1: job "j": its tasks wait for each other in a circle`,
		"M1,1,j,1,Terminated,1,99999999999,3,4\n":                        `f:1: job "j", task "M1": it took`,
		strings.Repeat("x", maxRow+1):                                    "f: has a line of more than",
	} {
		_, err := Read("alibaba", "f", strings.NewReader(text), Options{})
		wantError(t, err, want)
	}
}

func TestAlibabaDAG(t *testing.T) {
	for name, want := range map[string]string{
		"M1": "1 []", "R2_1": "2 [1]", "J8_6_7": "8 [6 7]", "R13_2_3_12": "13 [2 3 12]", "task_Nzg3": "-1 []", "M3__1": "3 [1]", "R4_3_Stg2_1": "4 [3]", "MergeTask": "-1 []", "": "-1 []", "7": "-1 []",
	} {
		number, parents := alibabaDAG(name)
		if got := fmt.Sprint(number, " ", parents); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A start of 0 is unknown, so the end says nothing about how long the task took.
func TestAlibabaUnknownStart(t *testing.T) {
	const tasks = "M1,1,j,1,Terminated,500,510,100,0.5\nM2,1,j,1,Terminated,0,90000,100,0.5\n"
	const instances = "i1,M1,j,1,Terminated,,80000,m,1,1,50,80,0.1,0.2\n"
	trace, err := ReadFolder("alibaba", "d", files("d/t.csv", tasks, "d/i.csv", instances), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if jobs := jobsOf(t, trace, 1); len(jobs) != 1 || len(jobs[0].Maps) != 1 || jobs[0].Maps[0].Duration != 10*time.Second {
		t.Errorf("%+v", jobs)
	}
	if w := strings.Join(trace.(*Trace).Warnings, "\n"); !strings.Contains(w, "1 tasks without usable times") || !strings.Contains(w, "1 instances that terminated without usable times") {
		t.Error(w)
	}
}
