package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/pages"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestJobSentence checks the sentence below the title of a job in each state.
func TestJobSentence(t *testing.T) {
	now := time.UnixMilli(100_000)
	for _, tt := range []struct {
		st   *slotwisev1.JobStatus
		want string
	}{
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, SubmittedMs: 1000, EndedMs: 4000}, "Succeeded in 3.0 s."},
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_FAILED, Message: "no disk."}, "Failed because: no disk."},
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_FAILED, LastError: "exit status 3"}, "Failed because: exit status 3."},
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_KILLED}, "Killed."},
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_WAITING, Waiting: "two jobs come first", Forecast: &slotwisev1.JobForecast{Position: 2, StartMs: 130_000}},
			"Waits because: two jobs come first. It is number 2 of the waiting jobs and starts in about 30.0 s."},
		{&slotwisev1.JobStatus{State: slotwisev1.JobState_JOB_STATE_RUNNING, StartedMs: 99_000, Maps: &slotwisev1.TaskCounts{Pending: 4}}, "; 4 tasks without a slot."},
	} {
		if got := jobSentence(&source.Job{Status: tt.st}, now); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.st.State, got, tt.want)
		}
	}
}

// TestFailedJob shows a failed job: the sentence and the actions come before the timeline, and the
// rest is folded. Only users who may read the log get a link to it.
func TestFailedJob(t *testing.T) {
	f := newFake(1, "x")
	st := f.jobs[0]
	st.State, st.EndedMs, st.Message, st.LastError, st.LogTail = slotwisev1.JobState_JOB_STATE_FAILED, 9000, "a task failed 4 times", "j1_m_3_2: exit status 3", "bad record"
	f.attempts[3].State, f.attempts[4].State = "failed", "killed"
	s := newConsole(t, f)
	body := ask(s, http.MethodGet, "/ui/jobs/j1", "ann").Body.String()
	at := -1
	for _, part := range []string{"Failed because: a task failed 4 times.", "Why it failed", `href="/ui/attempts/j1_m_3_2"`, "bad record", "Attempts over time", `<details class="fold" id="fold-attempts">`, `id="fold-details"`} {
		next := strings.Index(body, part)
		if next <= at {
			t.Errorf("%q is at %d, after a part at %d", part, next, at)
		}
		at = next
	}
	for class, id := range map[string]string{"bad": "j1_m_3_0", "gone": "j1_m_4_0"} {
		if _, rest, _ := strings.Cut(body, `<a href="/ui/attempts/`+id+`"`); !strings.HasPrefix(rest[strings.Index(rest, "<rect"):], `<rect class="`+class+`"`) {
			t.Errorf("%s is not drawn as %s: %.300s", id, class, rest)
		}
	}
	if other := ask(s, http.MethodGet, "/ui/jobs/j1", "eve").Body.String(); strings.Contains(other, "j1_m_3_2\"") || strings.Contains(other, `<a href="/ui/attempts/`) {
		t.Error("a viewer without rights gets links to logs")
	}
	// The actions of a job that runs are beside its title.
	st.State, st.EndedMs = slotwisev1.JobState_JOB_STATE_RUNNING, 0
	body = ask(s, http.MethodGet, "/ui/jobs/j1", "ann").Body.String()
	if kill, timeline := strings.Index(body, "/ui/jobs/j1/kill"), strings.Index(body, `id="timeline"`); kill < 0 || kill > timeline {
		t.Errorf("kill at %d, timeline at %d", kill, timeline)
	}
}

// TestChainChart draws three steps: the last two were submitted when the first had ended.
func TestChainChart(t *testing.T) {
	now := time.UnixMilli(60_000)
	step := func(id string, from, to int64) *slotwisev1.JobStatus {
		return &slotwisev1.JobStatus{Id: id, Step: "step " + id, State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, SubmittedMs: from, EndedMs: to}
	}
	steps := []*slotwisev1.JobStatus{step("j1", 10_000, 20_000), step("j2", 20_000, 60_000), step("j3", 40_000, 0)}
	steps[2].State = slotwisev1.JobState_JOB_STATE_RUNNING
	c := chainChart(steps, now)
	if len(c.Shapes) != 3 || c.Shapes[1].X != 200 || c.Shapes[1].W != 800 || c.Shapes[2].Class != "map running" || c.Shapes[0].Href != "/ui/jobs/j1" {
		t.Errorf("%+v", c.Shapes)
	}
	if len(c.Paths) != 2 || c.Paths[1].D.String() != "M200 23V75H600" {
		t.Errorf("lines: %v", c.Paths)
	}
	if c.Labels[1].Text != "step j2, 40.0 s" {
		t.Errorf("%+v", c.Labels)
	}
}

// TestAlive reads the stream of events while the source answers, and after it has stopped.
func TestAlive(t *testing.T) {
	f := newFake(1, "x")
	s := New(t.Context(), f, f, pages.Visitor, "")
	srv := httptest.NewServer(s)
	defer srv.Close()
	s.samples.add(time.Now(), f.use)
	resp, err := srv.Client().Get(srv.URL + "/ui/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	for len(got) < 4 {
		b := make([]byte, 200)
		n, err := resp.Body.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(string(b[:n]), "\n")
		got = append(got, name)
	}
	if want := "event: change,event: alive,: the source does not answer,: the source does not answer"; strings.Join(got, ",") != want {
		t.Errorf("%q", got)
	}
}

// TestTheme chooses the theme of all pages.
func TestTheme(t *testing.T) {
	s := newConsole(t, newFake(1, "x"))
	w := ask(s, http.MethodPost, "/ui/theme|theme=dark&next=/ui/jobs?q=x", "ann")
	cookie := w.Header().Get("Set-Cookie")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/jobs?q=x" || !strings.HasPrefix(cookie, "slotwise-theme=dark; Path=/ui/") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if body := ask(s, http.MethodGet, "/ui/jobs", "ann", "Cookie", "slotwise-theme=dark").Body.String(); !strings.Contains(body, `data-theme="dark"`) {
		t.Errorf("%.300s", body)
	}
	for _, bad := range []string{"slotwise-theme=x\"y", "slotwise-theme="} {
		if body := ask(s, http.MethodGet, "/ui/jobs", "ann", "Cookie", bad).Body.String(); strings.Contains(body, "data-theme") {
			t.Errorf("%s: %.300s", bad, body)
		}
	}
	w = ask(s, http.MethodPost, "/ui/theme|theme=browser&next=//evil.example/", "ann")
	if w.Header().Get("Location") != "/ui/" || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%v", w.Header())
	}
}

// TestNatural orders names with numbers.
func TestNatural(t *testing.T) {
	order := []string{"", "a", "node2", "node002", "node2aaaa", "node2b", "node10", "node10a2", "node10a10", "node99999999999999999999", "nodes", "w1"}
	for i := range order {
		for k := range order {
			got := natural(order[i], order[k])
			if want := map[bool]int{true: -1}[i < k]; i > k && got <= 0 || i == k && got != 0 || i < k && got != want {
				t.Errorf("%q and %q: %d", order[i], order[k], got)
			}
		}
	}
}

// TestRefusedSignIn shows a failed sign-in as an alert.
func TestRefusedSignIn(t *testing.T) {
	s := newConsole(t, newFake(1, "x"))
	if body := ask(s, http.MethodGet, "/ui/login?done=failed", "ann").Body.String(); !strings.Contains(body, `<p class="alert" role="alert">The token is not valid`) {
		t.Errorf("%.2000s", body)
	}
}
