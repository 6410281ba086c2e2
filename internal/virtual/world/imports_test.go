package world

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// taskTime adds up the work that a run does: a map's time, and a reduce's time after its
// job's last map. A reduce that waits for maps does no work.
type taskTime struct {
	lastMap map[int]time.Duration
	sum     time.Duration
}

func (x *taskTime) Observe(e *sim.Event) {
	switch {
	case e.Kind != sim.AttemptEnded:
	case e.Attempt.Kind == job.Map:
		x.lastMap[e.Job] = max(x.lastMap[e.Job], e.Finished)
		x.sum += e.Finished - e.Started
	default:
		x.sum += e.Finished - max(e.Started, x.lastMap[e.Job])
	}
}

// TestImportsKeepTheWork: the simulator runs as many task seconds as the workload's text
// states, also where reduces start with the maps. The sums are worked out by hand.
func TestImportsKeepTheWork(t *testing.T) {
	const textLog = `Job JOBID="job_1" JOBNAME="a" USER="u" SUBMIT_TIME="1000" .
Job JOBID="job_1" LAUNCH_TIME="1000" TOTAL_MAPS="1" TOTAL_REDUCES="2" JOB_STATUS="PREP" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_m_0" TASK_ATTEMPT_ID="m0" START_TIME="1000" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_m_0" TASK_ATTEMPT_ID="m0" TASK_STATUS="SUCCESS" FINISH_TIME="61000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_r_0" TASK_ATTEMPT_ID="r0" START_TIME="2000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_r_0" TASK_ATTEMPT_ID="r0" TASK_STATUS="SUCCESS" FINISH_TIME="151000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_r_1" TASK_ATTEMPT_ID="r1" START_TIME="71000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_r_1" TASK_ATTEMPT_ID="r1" TASK_STATUS="SUCCESS" FINISH_TIME="101000" .
Job JOBID="job_1" FINISH_TIME="151000" JOB_STATUS="SUCCESS" FINISHED_MAPS="1" .
`
	avro := func(kind, of, fields string) string {
		return fmt.Sprintf(`{"type":%q,"event":{"org.apache.hadoop.mapreduce.jobhistory.%s":{%s}}}`+"\n", kind, of, fields)
	}
	attempt := func(kind, id string, start, end int) string {
		low := strings.ToLower(kind[:1])
		return avro(kind+"_ATTEMPT_STARTED", "TaskAttemptStarted", fmt.Sprintf(`"taskid":"task_1_%s_%s","taskType":%q,"attemptId":"a%s","startTime":%d`, low, id, kind, id, start)) +
			avro(kind+"_ATTEMPT_FINISHED", kind[:1]+strings.ToLower(kind[1:])+"AttemptFinished",
				fmt.Sprintf(`"taskid":"task_1_%s_%s","taskType":%q,"attemptId":"a%s","taskStatus":"SUCCEEDED","finishTime":%d`, low, id, kind, id, end))
	}
	jhist := "Avro-Json\n{}\n" + avro("JOB_SUBMITTED", "JobSubmitted", `"jobid":"job_1","jobName":"a","userName":"u","submitTime":1000`) +
		attempt("MAP", "0", 1000, 61000) + attempt("REDUCE", "1", 2000, 151000) + attempt("REDUCE", "2", 71000, 101000) +
		avro("JOB_FINISHED", "JobFinished", `"jobid":"job_1","finishTime":151000`)
	for _, c := range []struct {
		form, text string
		want       time.Duration // of all tasks together
	}{
		// A container's lifetime, or its part after the maps: 60 + 90 + 30.
		{"sls", `{"job.id": "j", "job.tasks": [{"container.type": "map", "container.start.ms": 0, "container.end.ms": 60000},
 {"container.type": "reduce", "container.start.ms": 5000, "container.end.ms": 150000}, {"container.type": "reduce", "duration.ms": 30000}]}`, 180 * time.Second},
		// One map of 8 s and one reduce of 12 s.
		{"synth", `{"num_nodes": 1, "nodes_per_rack": 1, "num_jobs": 1, "rand_seed": 1, "workloads": [{"workload_name": "w", "workload_weight": 1, "queue_name": "q",
 "job_classes": [{"class_name": "c", "user_name": "u", "class_weight": 1, "mtasks_avg": 1, "mtasks_stddev": 0, "rtasks_avg": 1, "rtasks_stddev": 0,
 "mtime_avg": 8, "mtime_stddev": 0, "rtime_avg": 12, "rtime_stddev": 0}], "time_distribution": [{"time": 1, "weight": 1}]}]}`, 20 * time.Second},
		// 60 of the map; 90 of 145 after it; 30 of a reduce that started after it.
		{"rumen", `{"jobID": "job_1", "submitTime": 0, "outcome": "SUCCESS", "totalMaps": 1, "totalReduces": 2,
 "mapTasks": [{"taskID": "m0", "attempts": [{"result": "SUCCESS", "startTime": 0, "finishTime": 60000}]}],
 "reduceTasks": [{"taskID": "r0", "attempts": [{"result": "SUCCESS", "startTime": 5000, "finishTime": 150000}]},
 {"taskID": "r1", "attempts": [{"result": "SUCCESS", "startTime": 70000, "finishTime": 100000}]}]}`, 180 * time.Second},
		{"hadoop", textLog, 180 * time.Second},
		{"hadoop", jhist, 180 * time.Second},
		// Two maps of 82 s, a reduce of 25 s after them, a task of three of 47 s.
		{"alibaba", "M1,2.0,j_3,1,Terminated,100,182,1,1\nR2_1,1.0,j_3,1,Terminated,182,207,1,1\nJ3_2,3,j_3,1,Terminated,207,254,1,1\n", 330 * time.Second},
		// The tasks of run sleep for all of reduce-time: 10 × 4 + 2 × 9.
		{"mix", "jobs: [{name: a, maps: 10, map-time: 4s, reduces: 2, reduce-time: 9s}]\n", 58 * time.Second},
	} {
		for _, name := range []string{"ideal", Default} {
			got := workOf(t, name, c.form, c.text)
			// Times of traces are whole milliseconds, a mix's draws are too.
			if d := (got - c.want).Abs(); d > 5*time.Millisecond {
				t.Errorf("%s in world %s: the simulator runs %v of work, the text states %v", c.form, name, got, c.want)
			}
		}
	}
}

// workOf simulates a workload on a slot for every task and returns the work that was done.
func workOf(t *testing.T, world, form, text string) time.Duration {
	t.Helper()
	file := workload.File{Name: "f", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	source, err := workload.Read(form, "f", strings.NewReader(text), workload.Options{})
	if form == "hadoop" {
		source, err = workload.ReadFolder(form, "f", []workload.File{file}, workload.Options{})
	}
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	jobs, err := source.Jobs(1)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	for i := range jobs {
		jobs[i].SlowStart = -1
	}
	model, err := Lookup(world)
	if err != nil {
		t.Fatal(err)
	}
	// A copy of a reduce would run its work a second time.
	policy, err := policies.Build("fifo,speculate=none", sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := &taskTime{lastMap: map[int]time.Duration{}}
	cluster := workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Count: 4, Speed: 1, MapSlots: 8, ReduceSlots: 8}}}
	if _, err := sim.Run(sim.Config{Cluster: cluster, Policy: policy, Jobs: jobs, Seed: 1, Model: model, Observer: x}); err != nil {
		t.Fatal(err)
	}
	return x.sum
}
