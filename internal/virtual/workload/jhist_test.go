package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// jhistLine is a line of a .jhist file.
func jhistLine(kind, class, body string) string {
	return `{"type":"` + kind + `","event":{"org.apache.hadoop.mapreduce.jobhistory.` + class + `":{` + body + "}}}\n\n"
}

// jhistLog is a job with a map that was killed once, a map, a reduce that started before
// the maps ended, and one that started after them: the job of historyLog.
var jhistLog = "Avro-Json\n" + `{"type":"record","name":"Event"}` + "\n" +
	jhistLine("AM_STARTED", "AMStarted", `"applicationAttemptId":"appattempt_1_0001_000001","startTime":100050`) +
	jhistLine("JOB_SUBMITTED", "JobSubmitted", `"jobid":"job_1_0001","jobName":"word \"count\"","userName":"ann","submitTime":100000,"acls":{},"jobQueueName":"default","workflowId":{"string":""},"workflowAdjacencies":{"string":""}`) +
	jhistLine("JOB_PRIORITY_CHANGED", "JobPriorityChange", `"jobid":"job_1_0001","priority":"HIGH"`) +
	jhistLine("JOB_INITED", "JobInited", `"jobid":"job_1_0001","launchTime":100100,"totalMaps":2,"totalReduces":2,"jobStatus":"INITED","uberized":false`) +
	jhistLine("TASK_STARTED", "TaskStarted", `"taskid":"task_1_0001_m_000001","taskType":"MAP","startTime":101000,"splitLocations":"h1,h2"`) +
	jhistLine("MAP_ATTEMPT_STARTED", "TaskAttemptStarted", `"taskid":"task_1_0001_m_000001","taskType":"MAP","attemptId":"a_m_1_0","startTime":101000,"locality":{"string":"OFF_SWITCH"},"avataar":{"string":"VIRGIN"}`) +
	jhistLine("MAP_ATTEMPT_KILLED", "TaskAttemptUnsuccessfulCompletion", `"taskid":"task_1_0001_m_000001","taskType":"MAP","attemptId":"a_m_1_0","finishTime":109000,"status":"KILLED","error":"x","counters":null`) +
	jhistLine("MAP_ATTEMPT_STARTED", "TaskAttemptStarted", `"taskid":"task_1_0001_m_000001","taskType":"MAP","attemptId":"a_m_1_1","startTime":110000`) +
	jhistLine("REDUCE_ATTEMPT_STARTED", "TaskAttemptStarted", `"taskid":"task_1_0001_r_000000","taskType":"REDUCE","attemptId":"a_r_0_0","startTime":112000`) +
	jhistLine("MAP_ATTEMPT_FINISHED", "MapAttemptFinished", `"taskid":"task_1_0001_m_000001","attemptId":"a_m_1_1","taskType":"MAP","taskStatus":"SUCCEEDED","mapFinishTime":159000,"finishTime":160000,"hostname":"h1","rackname":"/r","counters":{"name":"COUNTERS","groups":[{"name":"g","displayName":"G","counts":[{"name":"HDFS_BYTES_READ","displayName":"x","value":7},{"name":"CPU_MILLISECONDS","displayName":"y","value":1500}]}]},"clockSplits":[1]`) +
	jhistLine("MAP_ATTEMPT_STARTED", "TaskAttemptStarted", `"taskid":"task_1_0001_m_000000","taskType":"MAP","attemptId":"a_m_0_0","startTime":101000`) +
	jhistLine("MAP_ATTEMPT_FINISHED", "MapAttemptFinished", `"taskid":"task_1_0001_m_000000","attemptId":"a_m_0_0","taskType":"MAP","taskStatus":"SUCCEEDED","finishTime":121000`) +
	jhistLine("REDUCE_ATTEMPT_FINISHED", "ReduceAttemptFinished", `"taskid":"task_1_0001_r_000000","attemptId":"a_r_0_0","taskType":"REDUCE","taskStatus":"SUCCEEDED","shuffleFinishTime":164000,"sortFinishTime":164500,"finishTime":250000,"counters":{"name":"COUNTERS","groups":[{"counts":[{"name":"REDUCE_SHUFFLE_BYTES","value":55}]}]}`) +
	jhistLine("REDUCE_ATTEMPT_STARTED", "TaskAttemptStarted", `"taskid":"task_1_0001_r_000001","taskType":"REDUCE","attemptId":"a_r_1_0","startTime":170000`) +
	jhistLine("REDUCE_ATTEMPT_FINISHED", "ReduceAttemptFinished", `"taskid":"task_1_0001_r_000001","attemptId":"a_r_1_0","taskType":"REDUCE","taskStatus":"SUCCEEDED","shuffleFinishTime":176000,"finishTime":190000`) +
	jhistLine("TASK_FINISHED", "TaskFinished", `"taskid":"task_1_0001_r_000001","taskType":"REDUCE","finishTime":190000,"status":"SUCCEEDED","counters":{"name":"COUNTERS","groups":[]},"successfulAttemptId":{"string":"a_r_1_0"}`) +
	jhistLine("JOB_FINISHED", "JobFinished", `"jobid":"job_1_0001","finishTime":251000,"finishedMaps":2,"totalCounters":{"name":"T","groups":[]}`)

// A .jhist file and the log of a JobTracker make the same job of the same attempts.
func TestJhist(t *testing.T) {
	o := RumenOptions{TraceOptions: TraceOptions{KeepHosts: true, All: true}}
	failed := strings.NewReplacer("JOB_FINISHED", "JOB_FAILED").Replace(jhistLog)
	for _, logs := range [][2]string{{historyLog, jhistLog}, {strings.Replace(historyLog, `STATUS="SUCCESS" FINISHED`, `STATUS="FAILED" FINISHED`, 1), failed}} {
		var traces [2]*Trace
		for i, log := range logs {
			var err error
			if traces[i], err = ReadHistory("h", files("h/job_1_0001-x.jhist", log, "h/job_1_0001_conf.xml", historyConfig), o); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(traces[0], traces[1]); diff != "" {
			t.Errorf("(-JobTracker +jhist)\n%s", diff)
		}
		if x := traces[1]; len(x.List) != 1 || x.List[0].Reduces[1].Fetch != 6*time.Second || len(x.Recorded) != 1 || x.Recorded[0] != 151*time.Second || len(x.Warnings) > 0 {
			t.Errorf("jobs %+v, recorded %v, warnings %q", x.List, x.Recorded, x.Warnings)
		}
	}
	o.All = false
	if _, err := ReadHistory("h", files("f", failed), o); err == nil || !strings.Contains(err.Error(), "1 jobs that did not succeed are left out") {
		t.Errorf("a failed job: %v", err)
	}
	odd := strings.NewReplacer(`"uberized":false`, `"uberized":true`, `Adjacencies":{"string":""}`, `Adjacencies":{"string":"a=b"}`).Replace(jhistLog)
	trace, err := ReadHistory("h", files("f", odd), o)
	if err != nil || len(trace.Warnings) != 1 || trace.Warnings[0] != "f:5: fields that the importer does not use: workflowAdjacencies, uberized" {
		t.Errorf("unused fields: %v, %q", err, trace.Warnings)
	}
}

func TestJhistErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Avro-Binary\n\x00": "f: is in Avro's binary encoding",
		"Avro-Json\n{}\n{":  "f:3: is no event such as",
		"Avro-Json\n{}\n" + jhistLine("JOB_SUBMITTED", "JobSubmitted", `"jobid":7`): "f:3: is no event such as",
		"Avro-Json\n": "h: no jobs",
		"Avro-Json\n{}\n" + jhistLine("JOB_SUBMITTED", "JobSubmitted", `"jobid":"j","submitTime":5`) + jhistLine("JOB_INITED", "JobInited", `"totalMaps":99999999`) + jhistLine("JOB_FINISHED", "JobFinished", ``): "f:3: job \"j\": 99999999 maps, a job may have",
	} {
		_, err := ReadHistory("h", files("f", text), RumenOptions{})
		wantError(t, err, want)
	}
}

// The text of an error may have several lines.
func TestHistoryContinuation(t *testing.T) {
	log := strings.Replace(historyLog, `TASK_STATUS="KILLED"`, "ERROR=\"java\\.lang\\.Error: x\n\tat Y\n\" TASK_STATUS=\"KILLED\"", 1)
	trace, err := ReadHistory("h", files("f", log), RumenOptions{})
	if err != nil || len(trace.List) != 1 || len(trace.List[0].Maps) != 2 {
		t.Errorf("%v, %v", trace, err)
	}
}
