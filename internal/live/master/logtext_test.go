package master

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// logSecret is printed by the failed attempt of these tests.
const logSecret = "password=hunter2"

// TestLogTextIsForReaders makes a job fail with text in its log. Only users who may read
// the log get the text, wherever an answer carries it: from memory, from the journal
// after a restart and from the history.
func TestLogTextIsForReaders(t *testing.T) {
	t.Parallel()
	rules := secure.Rules{Pools: map[string]secure.Pool{"shared": {Submit: []string{"*"}, Manage: []string{"mia"}}}}
	r := newRig(t, Config{Access: rules, Grace: time.Millisecond})
	w := r.worker("w1", 1, 0)
	failing := func(attempt string) *slotwisev1.Report {
		report := w.failed(attempt, "exit status 1")
		report.LogTail = logSecret
		return report
	}
	spec := r.spec(1, 0, "")
	spec.MaxAttempts, spec.Pool = 2, "shared"
	id := r.submit(spec)
	w.awaitLaunch(id + "_m_0_0")
	w.heartbeat(0, failing(id+"_m_0_0"))
	checkLogText(t, r.m, id, "while the job runs")
	r.stop()
	r.start()
	w.register(1, 0)
	checkLogText(t, r.m, id, "after a restart")
	w.awaitLaunch(id + "_m_0_1")
	w.heartbeat(0, failing(id+"_m_0_1"))
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_FAILED {
		t.Fatalf("job %v", st)
	}
	checkLogText(t, r.m, id, "after the job's end")
	r.stop()
	r.start() // from now on the job is in the history only
	checkLogText(t, r.m, id, "from the history")
}

// checkLogText compares the answers that each user gets about a job.
func checkLogText(t *testing.T, m *Master, id, when string) {
	t.Helper()
	for _, x := range []struct {
		who  secure.Identity
		sees bool
	}{
		{secure.Identity{User: "ann", Role: secure.User}, true}, // the owner
		{secure.Identity{User: "mia", Role: secure.User}, true}, // manages the pool
		{secure.Identity{User: "root", Role: secure.Admin}, true},
		{secure.Identity{Open: true}, true}, // a cluster without authentication
		{secure.Identity{User: "bob", Role: secure.User}, false},
		{secure.Identity{User: "w1", Role: secure.Worker}, false},
		{secure.Identity{}, false},
	} {
		ctx := secure.With(t.Context(), x.who)
		seen := 0
		for name, answer := range jobAnswers(t, ctx, m, id) {
			shown := strings.Contains(answer, logSecret)
			if shown && !x.sees {
				t.Errorf("%s: %s sees log text in %s", when, x.who, name)
			}
			if shown {
				seen++
			}
		}
		if x.sees && seen < 3 { // Job, Jobs and Tasks at least
			t.Errorf("%s: %s sees log text in %d answers only", when, x.who, seen)
		}
	}
}

// jobAnswers returns all answers that describe a job or its attempts, by the name of the
// response. TestLogTextAnswers checks that none is missing.
func jobAnswers(t *testing.T, ctx context.Context, m *Master, id string) map[string]string {
	t.Helper()
	c := clientService{m}
	answers := map[string]string{}
	add := func(name string, resp proto.Message, err error) {
		if err == nil {
			answers[name] = resp.(interface{ String() string }).String()
		}
	}
	jobs, err := c.Jobs(ctx, &slotwisev1.JobsRequest{Ended: true})
	add("JobsResponse", jobs, err)
	status, err := c.Job(ctx, &slotwisev1.JobRequest{Job: id})
	add("JobResponse", status, err)
	tasks, err := c.Tasks(ctx, &slotwisev1.TasksRequest{Job: id})
	add("TasksResponse", tasks, err)
	one, err := c.History(ctx, &slotwisev1.HistoryRequest{Job: id})
	add("HistoryResponse", one, err)
	list, err := c.History(ctx, &slotwisev1.HistoryRequest{})
	add("HistoryResponse of a list", list, err)
	why, err := c.Explain(ctx, &slotwisev1.ExplainRequest{Job: id})
	add("ExplainResponse", why, err)
	return answers
}

// TestLogTextAnswers fails if a response of the client service has a field for log text
// that TestLogTextIsForReaders does not check.
func TestLogTextAnswers(t *testing.T) {
	t.Parallel()
	checked := []string{"HistoryResponse", "JobResponse", "JobsResponse", "TasksResponse"}
	var carry []string
	methods := slotwisev1.File_slotwise_v1_client_proto.Services().ByName("ClientService").Methods()
	for i := range methods.Len() {
		if out := methods.Get(i).Output(); carriesLogText(out, map[protoreflect.FullName]bool{}) {
			carry = append(carry, string(out.Name()))
		}
	}
	slices.Sort(carry)
	if !slices.Equal(carry, checked) {
		t.Errorf("responses with log text: %v; this test checks %v", carry, checked)
	}
}

// TestHiddenLogText fills every log_tail that a history entry can hold, also in the steps
// of a chain, and lets users see the entry.
func TestHiddenLogText(t *testing.T) {
	t.Parallel()
	m := &Master{}
	for user, sees := range map[string]bool{"ann": true, "bob": false} {
		j := &slotwisev1.HistoryJob{}
		filled := fillLogText(j.ProtoReflect())
		j.Job.User = "ann"
		got := strings.Count(m.shownPast(secure.Identity{User: user, Role: secure.User}, j).String(), logSecret)
		if filled < 3 || sees && got != filled || !sees && got != 0 {
			t.Errorf("%s sees %d of %d texts", user, got, filled)
		}
	}
}

// fillLogText puts a text into every field log_tail of a message, with one element in each
// list, and returns the number of texts.
func fillLogText(m protoreflect.Message) (n int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.Name() == "log_tail":
			m.Set(f, protoreflect.ValueOfString(logSecret))
			n++
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			n += fillLogText(m.Mutable(f).List().AppendMutable().Message())
		default:
			n += fillLogText(m.Mutable(f).Message())
		}
	}
	return n
}

// carriesLogText reports whether a message has a field log_tail, directly or in a
// message inside it.
func carriesLogText(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[m.FullName()] {
		return false
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.Name() == "log_tail" || f.Message() != nil && carriesLogText(f.Message(), seen) {
			return true
		}
	}
	return false
}
