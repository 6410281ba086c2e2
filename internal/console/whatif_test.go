package console

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestWhatIf asks for each change that the form offers. Wrong fields are named, and nothing is
// asked then.
func TestWhatIf(t *testing.T) {
	f := newFake(2, "x")
	s := newConsole(t, f)
	for path, want := range map[string]string{
		"":                        "The master simulates the future",
		"?nodes=&policy=&maps=":   "The master simulates the future",
		"?nodes=%2B2":             "nodes:2",
		"?nodes=2&machine=new":    "nodes:2 on:new",
		"?nodes=-2&machine=new":   "nodes:-2",
		"?machine=present":        "The master simulates the future",
		"?nodes=-1&kill=j1+j2":    "nodes:-1 kill:j1,j2",
		"?policy=fair&set=a%3D1":  "policy:fair a=1",
		"?priority=HIGH&of=j2+j1": "priorities:j2=HIGH,j1=HIGH",
		"?maps=10&map_seconds=2.5&reduces=1&pool=p&name=n": "submit:10,1,2.5,n,p",
		"?nodes=many":            "nodes &#34;many&#34;: write a whole number",
		"?maps=-1":               "maps &#34;-1&#34;: write a whole number",
		"?map_seconds=NaN":       "map_seconds &#34;NaN&#34;: write a number of seconds",
		"?reduces=4":             "write the number of maps of the job to submit",
		"?set=a%3D1":             "choose the policy whose parameters are a=1",
		"?set=nonsense":          "write name=value",
		"?policy=nosuch":         "no policy nosuch",
		"?priority=x&of=j1":      "The master simulates the future",
		"?nodes=99999999999":     "write a whole number",
		"?nodes=1&kill=%3Cb%3Ex": "nodes:1 kill:<b>x",
	} {
		f.asked = nil
		body := ask(s, http.MethodGet, "/ui/whatif"+path, "ann").Body.String()
		got := body
		if c := f.asked; c != nil && c.Policy != "nosuch" {
			var parts []string
			add := func(on bool, format string, args ...any) {
				if on {
					parts = append(parts, fmt.Sprintf(format, args...))
				}
			}
			add(c.Policy != "", "policy:%s", c.Policy)
			add(len(c.Set) > 0, "a=%s", c.Set["a"])
			add(c.Nodes != 0, "nodes:%d", c.Nodes)
			add(c.Machine != "", "on:%s", c.Machine)
			add(len(c.Kill) > 0, "kill:%s", strings.Join(c.Kill, ","))
			var levels []string
			for _, p := range c.Priorities {
				levels = append(levels, p.Job+"="+p.Priority)
			}
			add(len(levels) > 0, "priorities:%s", strings.Join(levels, ","))
			for _, j := range c.Submit {
				add(true, "submit:%d,%d,%v,%s,%s", j.Maps, j.Reduces, j.MapSeconds, j.Job.Name, j.Job.Pool)
			}
			got = strings.Join(parts, " ")
			if !strings.Contains(body, "1 job would end earlier, 0 later") {
				t.Errorf("%s: no answer in %.3000s", path, body)
			}
		}
		if got != want && (f.asked != nil && f.asked.Policy != "nosuch" || !strings.Contains(got, want)) {
			t.Errorf("%s: want %q in %.3000s", path, want, got)
		}
	}
	if w := ask(New(t.Context(), f, nil, s.who, ""), http.MethodGet, "/ui/whatif", "ann"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "What if") {
		t.Errorf("without an actor: %d", w.Code)
	}
}

// TestTrends compares the latest run of a name with the ones before it.
func TestTrends(t *testing.T) {
	f := newFake(0, "x")
	add := func(name string, took int64, state slotwisev1.JobState) {
		f.jobs = append([]*slotwisev1.JobStatus{{Id: fmt.Sprint("j", len(f.jobs)+1), Name: name, State: state, SubmittedMs: 1000, EndedMs: 1000 + took}}, f.jobs...)
	}
	const ok = slotwisev1.JobState_JOB_STATE_SUCCEEDED
	for _, took := range []int64{5000, 4000, 6000, 7000} {
		add("slower", took, ok)
		add("same", 5000+took/100, ok)
	}
	add("slower", 100, slotwisev1.JobState_JOB_STATE_FAILED)
	add("once", 5000, ok)
	s := newConsole(t, f)
	got := ask(s, http.MethodGet, "/ui/history?format=csv&table=trends", "ann").Body.String()
	if want := "name,runs,median_ms,last_ms,change\nslower,4,5000,7000,0.4\nsame,4,5050,5070,0.0039603960396039604\n"; got != want {
		t.Errorf("%s", got)
	}
	body := ask(s, http.MethodGet, "/ui/history", "ann").Body.String()
	if !strings.Contains(body, `<span class="more">+40 %</span>`) || strings.Count(body, `class="spark"`) != 2 || strings.Contains(body, `class="less"`) {
		t.Errorf("%s", body[strings.Index(body, `id="trends"`):])
	}
	f.jobs = f.jobs[:1]
	if body := ask(s, http.MethodGet, "/ui/history", "ann").Body.String(); strings.Contains(body, "Times by name") {
		t.Error("a single run has a trend")
	}
}

// send posts a form with a file to the page What if, and returns the answer.
func send(s *Server, path, user, file string, fields ...string) *httptest.ResponseRecorder {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		form.WriteField(fields[i], fields[i+1])
	}
	part, _ := form.CreateFormFile("file", "jobs.yaml")
	io.WriteString(part, file)
	form.Close()
	r := httptest.NewRequest(http.MethodPost, path, &b)
	r.Header.Set("Content-Type", form.FormDataContentType())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(secure.With(r.Context(), secure.Identity{User: user, Role: secure.Admin})))
	return w
}

// answer follows the redirection of a question and waits until its page has a text.
func answer(t *testing.T, s *Server, w *httptest.ResponseRecorder, user, want string) string {
	t.Helper()
	to := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/ui/whatif/") {
		t.Fatalf("%d, to %q: %.2000s", w.Code, to, w.Body)
	}
	body := ""
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		body = ask(s, http.MethodGet, to, user).Body.String()
		if strings.Contains(body, want) {
			return to
		}
	}
	t.Fatalf("%q is missing in %.6000s", want, body)
	return ""
}

// TestLater asks about a file of jobs and about the past. The page of the question shows its
// progress, belongs to the one who asked, and has the answer at the end.
func TestLater(t *testing.T) {
	f := newFake(2, "x")
	s := newConsole(t, f)
	if w := send(s, "/ui/whatif", "ann", "jobs"); w.Code != http.StatusNotFound {
		t.Errorf("without a simulator: %d", w.Code)
	}
	sim := fakeSimulator{make(chan struct{})}
	s.Simulator = sim
	if to := send(s, "/ui/whatif", "ann", "", "nodes", "+2", "policy", "", "mix", " ").Header().Get("Location"); to != "/ui/whatif?nodes=%2B2" {
		t.Errorf("a question that an address can hold leads to %q", to)
	}
	answer(t, s, send(s, "/ui/whatif", "ann", "a mix", "nodes", "1"), "ann", "1 job would end earlier, 0 later")
	if len(f.asked.Submit) != 1 || f.asked.Submit[0].Job.Name != "a mix" || f.asked.Nodes != 1 {
		t.Errorf("asked %v", f.asked)
	}
	answer(t, s, send(s, "/ui/whatif", "ann", "", "mix", "wrong"), "ann", "jobs:1: no jobs")
	answer(t, s, send(s, "/ui/whatif", "ann", "", "mix", "fault"), "ann", "the simulator has a fault: a fault")

	past := []string{"since", "2h", "budget", "0"}
	to := answer(t, s, send(s, "/ui/whatif?past=1", "ann", "", past...), "ann", "simulating 2h0m0s")
	if body := ask(s, http.MethodGet, to, "ann").Body.String(); !strings.Contains(body, `<noscript><meta http-equiv="refresh"`) || !strings.Contains(body, "Stop the simulation") {
		t.Errorf("the page of a question that is being answered: %.4000s", body)
	}
	if w := ask(s, http.MethodGet, to, "bob"); w.Code != http.StatusNotFound {
		t.Errorf("another user sees the question: %d", w.Code)
	}
	if w := send(s, "/ui/whatif?past=1", "ann", "", past...); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "still being answered") {
		t.Errorf("a second question: %d %.2000s", w.Code, w.Body)
	}
	other := answer(t, s, send(s, "/ui/whatif?past=1", "bob", "", past...), "bob", "simulating 2h0m0s")
	if w := send(s, "/ui/whatif?past=1", "eve", "", past...); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a third user's question: %d", w.Code)
	}
	if w := ask(s, http.MethodPost, other+"/stop", "bob"); w.Code != http.StatusSeeOther {
		t.Errorf("stop: %d", w.Code)
	} else {
		answer(t, s, w, "bob", "the simulation was stopped")
	}
	close(sim.proceed)
	answered := httptest.NewRecorder()
	http.Redirect(answered, httptest.NewRequest(http.MethodGet, "/ui/", nil), to, http.StatusSeeOther)
	for _, want := range []string{"Recommended: fair: it is better.", "-25 % (-40 % to -10 %)", "fair beats fifo", "a note"} {
		answer(t, s, answered, "ann", want)
	}
	if q := s.laters.find(strings.TrimPrefix(to, "/ui/whatif/"), "ann"); q == nil || q.answer.Table.CSV != "" || q.answer.Title != "" {
		t.Errorf("a page has changed the answer that all windows show: %+v", q)
	}
	if got := ask(s, http.MethodGet, to+"?format=csv", "ann").Body.String(); got != "policy,measure,value,ratio,low,high,verdict\nfifo,response.mean,120,0,0,0,\nfair,response.mean,90,0.75,0.6,0.9,fair beats fifo\n" {
		t.Error(got)
	}
	for fields, want := range map[string]string{"since=soon": "since &#34;soon&#34;: write a time", "since=-1h": "write a time", "since=1h&nodes=x": "nodes &#34;x&#34;: write a whole number",
		"since=1h&budget=many": "budget &#34;many&#34;: write a whole number", "since=1h&set=x": "write name=value"} {
		w := ask(s, http.MethodPost, "/ui/whatif?past=1|"+fields, "ann")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, want %q in %.2000s", fields, w.Code, want, w.Body)
		}
	}
	if w := send(s, "/ui/whatif", "ann", strings.Repeat("x", maxMix+1)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "may have 256 KiB") {
		t.Errorf("a large file: %d %.2000s", w.Code, w.Body)
	}
	if w := send(s, "/ui/whatif", "ann", strings.Repeat("x", 3*maxMix)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "may have 256 KiB") {
		t.Errorf("a very large file: %d %.2000s", w.Code, w.Body)
	}
	if w := send(s, "/ui/whatif", "ann", "a", "mix", "b"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "leave one out") {
		t.Errorf("a file and a text: %d", w.Code)
	}
	for range 2 * laterKept {
		answer(t, s, send(s, "/ui/whatif", "ann", "a mix"), "ann", "1 job would end earlier, 0 later")
	}
	if n := len(s.laters.list); n > laterKept {
		t.Errorf("%d answers are kept", n)
	}
	if w := ask(s, http.MethodGet, to, "ann"); w.Code != http.StatusNotFound {
		t.Errorf("the oldest answer is kept: %d", w.Code)
	}
	f.acted = nil
	if w := ask(s, http.MethodPost, "/ui/policy|name=fair&set=a%3D1&setting=pools%3Dpool+a+minMaps%3D1", "ann"); w.Code != http.StatusSeeOther || len(f.acted) != 1 || f.acted[0] != "policy fair map[a:1 pools:pool a minMaps=1]" {
		t.Errorf("%d %q", w.Code, f.acted)
	}
}
