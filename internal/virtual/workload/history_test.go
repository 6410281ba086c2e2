package workload

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// files makes the files of a folder from pairs of names and texts.
func files(pairs ...string) []File {
	var list []File
	for i := 0; i < len(pairs); i += 2 {
		text := pairs[i+1]
		list = append(list, File{pairs[i], func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
	}
	return list
}

// historyLog is the log of a job with a set-up, a map that was killed once, a map, a
// reduce that started before the maps ended, and one that started after them.
const historyLog = `Meta VERSION="1" .
Job JOBID="job_1_0001" JOBNAME="word \"count\"" USER="ann" SUBMIT_TIME="100000" JOBCONF="job\.xml" JOB_QUEUE="default" .
Job JOBID="job_1_0001" JOB_PRIORITY="HIGH" .
Job JOBID="job_1_0001" LAUNCH_TIME="100100" TOTAL_MAPS="2" TOTAL_REDUCES="2" JOB_STATUS="PREP" .
MapAttempt TASK_TYPE="SETUP" TASKID="task_1_0001_m_000002" TASK_ATTEMPT_ID="attempt_1_0001_m_000002_0" START_TIME="100100" .
Task TASKID="task_1_0001_m_000001" TASK_TYPE="MAP" START_TIME="101000" SPLITS="/r1/h1,/r2/h2" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000001" TASK_ATTEMPT_ID="attempt_1_0001_m_000001_0" START_TIME="101000" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000001" TASK_ATTEMPT_ID="attempt_1_0001_m_000001_0" TASK_STATUS="KILLED" FINISH_TIME="109000" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000001" TASK_ATTEMPT_ID="attempt_1_0001_m_000001_1" START_TIME="110000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_0001_r_000000" TASK_ATTEMPT_ID="attempt_1_0001_r_000000_0" START_TIME="112000" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000001" TASK_ATTEMPT_ID="attempt_1_0001_m_000001_1" TASK_STATUS="SUCCESS" FINISH_TIME="160000" COUNTERS="{(g)(G)[(HDFS_BYTES_READ)(Bytes \\(read\\))(7)][(CPU_MILLISECONDS)(CPU)(1500)]}" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000000" TASK_ATTEMPT_ID="attempt_1_0001_m_000000_0" START_TIME="101000" .
MapAttempt TASK_TYPE="MAP" TASKID="task_1_0001_m_000000" TASK_ATTEMPT_ID="attempt_1_0001_m_000000_0" TASK_STATUS="SUCCESS" FINISH_TIME="121000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_0001_r_000000" TASK_ATTEMPT_ID="attempt_1_0001_r_000000_0" TASK_STATUS="SUCCESS" SHUFFLE_FINISHED="164000" FINISH_TIME="250000" COUNTERS="{(g)(G)[(REDUCE_SHUFFLE_BYTES)(x)(55)]}" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_0001_r_000001" TASK_ATTEMPT_ID="attempt_1_0001_r_000001_0" START_TIME="170000" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_1_0001_r_000001" TASK_ATTEMPT_ID="attempt_1_0001_r_000001_0" TASK_STATUS="SUCCESS" SHUFFLE_FINISHED="176000" FINISH_TIME="190000" .
Job JOBID="job_1_0001" FINISH_TIME="251000" JOB_STATUS="SUCCESS" FINISHED_MAPS="2" .
`

const historyConfig = `<?xml version="1.0"?><configuration>
<property><name>mapred.reduce.slowstart.completed.maps</name><value>0.25</value></property>
<property><name>mapred.fairscheduler.pool</name><value>etl</value></property></configuration>`

func TestHistory(t *testing.T) {
	const s = time.Second
	failed := strings.NewReplacer("job_1_0001", "job_1_0002", `JOB_STATUS="SUCCESS"`, `JOB_STATUS="FAILED"`).Replace(historyLog)
	trace, err := ReadHistory("h", files("h/job_1_0002_x", failed, "h/job_1_0001_x", historyLog, "h/job_1_0001_conf.xml.gz", historyConfig),
		RumenOptions{TraceOptions: TraceOptions{KeepHosts: true}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{{Name: `word "count"`, App: `word "count"`, Request: job.Request{User: "ann", Pool: "etl", Priority: job.High, SlowStart: 0.25},
		Maps:    []Task{{Duration: 20 * s}, {Duration: 50 * s, Input: 7, CPU: 1500 * time.Millisecond, Hosts: []string{"h1", "h2"}}},
		Reduces: []Task{{Duration: 90 * s, Fetch: -1, Input: 55}, {Duration: 20 * s, Fetch: 6 * s}}}}
	if diff := cmp.Diff(want, recorded(t, trace.List)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(trace.Warnings) != 1 || trace.Warnings[0] != "h: 1 jobs that did not succeed are left out" {
		t.Errorf("warnings %q", trace.Warnings)
	}
	all, err := ReadHistory("h", files("a", historyLog+failed), RumenOptions{TraceOptions: TraceOptions{All: true}})
	if err != nil || len(all.List) != 2 {
		t.Errorf("two jobs in one file, failed ones too: %v, %v", all, err)
	}
}

func TestHistoryErrors(t *testing.T) {
	for text, want := range map[string]string{
		"nonsense":                    `log:1: is no record such as Job JOBID="…" .`,
		`Job JOBID="job_1`:            "log:1: is no record",
		`Job JOBID="a" .` + "\nJob x": "log:2: is no record",
		`Job JOBID="j" SUBMIT_TIME="1" . ` + "\n" + `Job JOBID="j" JOB_STATUS="SUCCESS" JOB_PRIORITY="URGENT" .`: "URGENT",
		"": "h: no jobs",
		`Job JOBID="j" SUBMIT_TIME="1" TOTAL_MAPS="99999999" JOB_STATUS="SUCCESS" .`: "99999999 maps, a job may have",
		strings.Repeat("x", maxHistoryLine+1):                                        "log: bufio.Scanner: token too long",
	} {
		if _, err := ReadHistory("h", files("log", text), RumenOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadHistory("h", files("log", historyLog, "job_1_0001_conf.xml", "<"), RumenOptions{}); err == nil || !strings.Contains(err.Error(), "job_1_0001_conf.xml: XML syntax error") {
		t.Errorf("a torn configuration: %v", err)
	}
	gone := []File{{"log", func() (io.ReadCloser, error) { return nil, errors.New("it is gone") }}}
	if _, err := ReadHistory("h", gone, RumenOptions{}); err == nil || !strings.Contains(err.Error(), "log: it is gone") {
		t.Errorf("a file that cannot be opened: %v", err)
	}
}

// Damaged bytes of a job are an error, also of a job with tasks without times.
func TestPastBytes(t *testing.T) {
	for _, tasks := range [][]PastTask{
		{{Attempts: []PastAttempt{{Started: 1, Ended: 1001, Succeeded: true}}}},
		{{Attempts: []PastAttempt{{Started: 1, Ended: 1001, Succeeded: true}}}, {}},
	} {
		list := func(yield func(*PastJob, error) bool) {
			yield(&PastJob{ID: "j1", Submitted: 1, Ended: 2000, Succeeded: true, InputBytes: -1, Maps: tasks}, nil)
		}
		_, err := ReadPast("h", list, TraceOptions{})
		wantError(t, err, `h: job "j1": -1 input bytes, must be from 0 to 2⁶⁰`)
	}
}

// With TraceOptions.All, a job that was killed before its reduces started keeps its maps, and one that was
// killed in the queue is left out. Neither makes the trace an error.
func TestFailedJobsWithoutTimes(t *testing.T) {
	log := `{"jobID": "ok", "outcome": "SUCCESS", "submitTime": 1, "mapTasks": [{"startTime": 1, "finishTime": 1001}]}
{"jobID": "maps", "outcome": "KILLED", "submitTime": 2, "totalMaps": 2, "totalReduces": 3, "mapTasks": [{"startTime": 3, "finishTime": 1003}]}
{"jobID": "queue", "outcome": "FAILED", "submitTime": 3, "totalMaps": 5}`
	trace, err := ReadRumen("r", strings.NewReader(log), RumenOptions{TraceOptions: TraceOptions{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.List) != 2 || len(trace.List[1].Maps) != 2 || len(trace.List[1].Reduces) != 0 {
		t.Errorf("%+v", trace.List)
	}
	warnings := []string{`r:2: job "maps": 1 tasks have no times and get the median`,
		`r:2: job "maps" did not succeed, and 3 tasks of which none has run are left out`, `r:3: job "queue" has no tasks and is left out`}
	if diff := cmp.Diff(warnings, trace.Warnings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
