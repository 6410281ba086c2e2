package protocol

import (
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// past makes an ended job from lines of an attempt each: id, state, node, level, start and end
// in seconds, and the bytes of its input.
func past(state slotwisev1.JobState, attempts ...attemptLine) *slotwisev1.HistoryJob {
	h := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "j1", State: state, SubmittedMs: 1000, StartedMs: 2000}}
	for _, a := range attempts {
		h.Tasks = append(h.Tasks, &slotwisev1.TaskStatus{InputBytes: a.bytes, Attempts: []*slotwisev1.AttemptStatus{{
			Id: a.id, State: a.state, Node: a.node, Level: a.level, StartedMs: 1000 * a.from, EndedMs: 1000 * a.to, Error: a.err}}})
		h.Job.EndedMs = max(h.Job.EndedMs, 1000*a.to+500)
	}
	return h
}

type attemptLine struct {
	id, state, node, level string
	from, to, bytes        int64
	err                    string
}

// TestFindings describes jobs that are slow or have failed, each for one reason.
func TestFindings(t *testing.T) {
	done, near := job.AttemptSucceeded.String(), job.LevelNode.String()
	maps := func(more ...attemptLine) []attemptLine {
		list := []attemptLine{}
		for _, id := range []string{"j1_m_0_0", "j1_m_1_0", "j1_m_2_0", "j1_m_3_0", "j1_m_4_0"} {
			list = append(list, attemptLine{id, done, "n1", near, 2, 12, 100, ""})
		}
		return append(list, more...)
	}
	for _, c := range []struct {
		name, code, want string
		state            slotwisev1.JobState
		attempts         []attemptLine
	}{
		{"large input", "straggler", "j1_m_5_0 on n2 took 40.0 s, 4.0 times the median of its 6 siblings: its input is 4.0 times the median", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", done, "n2", near, 2, 42, 400, ""})},
		{"far from its data", "straggler", "it read its input from another machine", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", done, "n2", job.LevelAny.String(), 2, 42, 100, ""})},
		{"slow node", "straggler", "its node is slow", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", done, "n2", near, 2, 42, 100, ""}, attemptLine{"j1_m_6_0", done, "n2", near, 2, 22, 100, ""},
				attemptLine{"j1_m_7_0", done, "n2", near, 2, 22, 100, ""}, attemptLine{"j1_m_8_0", done, "n2", near, 2, 22, 100, ""})},
		{"no reason", "straggler", "neither input, locality nor node", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", done, "n2", near, 2, 42, 100, ""})},
		{"skew", "skew", "the longest reduce, j1_r_2_0, took 20.0 s, 4.0 times the median of 3", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_r_0_0", done, "n1", "", 5, 17, 0, ""}, attemptLine{"j1_r_1_0", done, "n1", "", 5, 17, 0, ""}, attemptLine{"j1_r_2_0", done, "n1", "", 5, 32, 0, ""})},
		{"first cause", "first cause", "the first failure was j1_m_5_0 on n2: exit status 3", slotwisev1.JobState_JOB_STATE_FAILED,
			maps(attemptLine{"j1_m_5_0", "failed", "n2", near, 2, 4, 100, "exit status 3"}, attemptLine{"j1_m_5_1", "failed", "n1", near, 5, 6, 100, "other"})},
		{"retries", "retries", "2 attempts failed, after 3.0 s of work in all", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", "failed", "n2", near, 2, 4, 100, "x"}, attemptLine{"j1_m_5_1", "failed", "n1", near, 5, 6, 100, "y"})},
		{"lost", "lost", "1 attempt was lost because the master no longer heard from n2", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", "lost", "n2", near, 2, 4, 100, "x"})},
		{"preempted", "preempted", `2 attempts were preempted, after 5.0 s of work in all; the last was j1_m_5_1 on n1: its slot goes to pool "b"`, slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", "killed", "n2", near, 2, 4, 100, "its slot goes to another job"}, attemptLine{"j1_m_5_1", "killed", "n1", near, 5, 8, 100, `its slot goes to pool "b"`})},
		{"copies", "killed", "1 attempt was killed, copies of tasks", slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			maps(attemptLine{"j1_m_5_0", "killed", "n2", near, 2, 4, 100, "j1_m_5_1 succeeded first"})},
		{"path", "path", "15.5 s in all: 1.0 s until the first attempt; 10.0 s for maps, of which j1_m_0_0 on n1 ended last after 10.0 s; 4.0 s for reduces after them, of which j1_r_0_0 on n1 ended last after 4.0 s; 0.5 s to publish",
			slotwisev1.JobState_JOB_STATE_SUCCEEDED, maps(attemptLine{"j1_r_0_0", done, "n1", "", 5, 16, 0, ""})},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := ""
			for _, f := range SlowPast(past(c.state, c.attempts...)) {
				all += f.Code + ": " + f.Words + "\n"
				if f.Code == c.code && strings.Contains(f.Words, c.want) {
					return
				}
			}
			t.Errorf("found %swant %s: %s", all, c.code, c.want)
		})
	}
	spilled := past(slotwisev1.JobState_JOB_STATE_KILLED, maps()...)
	spilled.Job.MapCounters = &slotwisev1.Counters{Spills: 15, SpilledBytes: 3_000_000}
	if got := SlowPast(spilled); len(got) != 1 || got[0].Code != "spills" || !strings.Contains(got[0].Words, "15 times, 3.0 times each on average, 3.0 MB in all") {
		t.Errorf("spills: %v", got)
	}
	if got := SlowPast(past(slotwisev1.JobState_JOB_STATE_KILLED, maps()...)); len(got) != 0 {
		t.Errorf("of an ordinary job: %v", got)
	}
}
