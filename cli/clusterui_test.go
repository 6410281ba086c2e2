package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// visitor is a browser without a script.
type visitor struct {
	t   *testing.T
	url string
	*http.Client
}

// visit opens the pages of a master.
func (c *testCluster) visit() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		c.T.Fatal(err)
	}
	return &visitor{c.T, c.URL, &http.Client{Jar: jar}}
}

// answer returns the status and the body of an answer.
func (v *visitor) answer(resp *http.Response, err error) (int, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (v *visitor) get(path string) (int, string) {
	v.t.Helper()
	return v.answer(v.Get(v.url + path))
}

func (v *visitor) post(path string, form url.Values) (int, string) {
	v.t.Helper()
	return v.answer(v.PostForm(v.url+path, form))
}

// TestConsole opens the pages of a cluster after a job.
func TestConsole(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Words("in/a.txt", 5_000)
	c.Must("wordcount", "in", "--output", "counts", "--split-size", "16KiB", "--reduces", "2", "--pool", "<script>x")
	v := c.visit()
	for path, want := range map[string]string{
		"/": "Maps running", "/ui/": "w1", "/ui/jobs": "&lt;script&gt;x", "/ui/jobs/j1": "succeeded", "/ui/jobs/j1/attempts?kind=reduce": "j1_r_1_0",
		"/ui/attempts/j1_m_0_0": "Log of j1_m_0_0", "/ui/nodes": "w1", "/ui/nodes/w1": "alive", "/ui/policy": "fifo", "/ui/history?state=succeeded": "j1", "/ui/compare?a=j1&b=j1": "same",
	} {
		clustertest.Eventually(t, path+" has "+want, func() bool { // the history has the job soon after its end
			status, body := v.get(path)
			return status == http.StatusOK && strings.Contains(body, want) && !strings.Contains(body, "<script>x")
		})
	}
	_, body := v.get("/ui/jobs/j1/attempts?format=json")
	var attempts struct {
		Total int
		Rows  []struct{ Attempt, State, Node string }
	}
	if err := json.Unmarshal([]byte(body), &attempts); err != nil || attempts.Total < 4 || attempts.Rows[0].Attempt != "j1_m_0_0" || attempts.Rows[0].Node != "w1" {
		t.Errorf("%v: %.300s", err, body)
	}
	if status, body := v.get("/ui/policy?name=fair"); status != http.StatusOK || !strings.Contains(body, "nothing would change") || !strings.Contains(body, "Installed: fifo") {
		t.Errorf("the preview of a policy: %d %.2000s", status, body)
	}
	if status, body := v.post("/ui/policy", url.Values{"name": {"fair"}}); status != http.StatusOK || !strings.Contains(body, "Installed: fair") || !strings.Contains(body, "Pools: maps") {
		t.Errorf("installing a policy: %d %.500s", status, body)
	}
	// Questions that are answered in the background: their page has the answer in the end.
	for want, question := range map[string]url.Values{
		"Recommended: ":     {"since": {"1h"}, "policy": {"fifo"}},
		"<bdi>new</bdi>":    {"mix": {"jobs: [{name: next, maps: 3, map-time: 2s}]"}},
		"does not read the": {"mix": {"jobs: [{app: wordcount, input: /etc}]"}},
	} {
		path := "/ui/whatif"
		if question["since"] != nil {
			path += "?past=1"
		}
		status, body := v.post(path, question)
		id := regexp.MustCompile(`/ui/whatif/[A-Z0-9]{20,}`).FindString(body)
		for end := time.Now().Add(4 * time.Minute); status == http.StatusOK && !strings.Contains(body, want) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			status, body = v.get(id)
		}
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%v: %d, without %q: %.3000s", question, status, want, body)
		}
	}
	if status, body := v.post("/ui/nodes/w1/drain", nil); status != http.StatusOK || !strings.Contains(body, "drained") {
		t.Errorf("draining: %d %.500s", status, body)
	}
}

// TestConsoleSignIn signs in with a token, and is kept out without one, with another
// user's rights, after signing out, and after the token was revoked.
func TestConsoleSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	tokens := map[string]string{}
	for user, role := range map[string]secure.Role{"ann": secure.User, "eve": secure.User, "root": secure.Admin, "w1": secure.Worker} {
		var err error
		if tokens[user], err = secure.AddToken(file, secure.Identity{User: user, Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	c := newTestCluster(t, "--tokens", file)
	v := c.visit()
	if status, body := v.get("/ui/jobs?q=x"); status != http.StatusOK || !strings.Contains(body, "Sign in") || strings.Contains(body, "Submitted") {
		t.Errorf("without a token: %d %.500s", status, body)
	}
	signIn := func(v *visitor, token, next string) (int, string) {
		return v.post("/ui/login?next="+url.QueryEscape(next), url.Values{"token": {token}})
	}
	if _, body := signIn(v, "slw_WRONG", "/ui/jobs"); !strings.Contains(body, "not valid") {
		t.Errorf("a wrong token: %.500s", body)
	}
	if status, body := signIn(v, tokens["ann"], "/ui/jobs?q=x"); status != http.StatusOK || !strings.Contains(body, "user ann") || !strings.Contains(body, `value="x"`) {
		t.Errorf("ann: %d %.800s", status, body)
	}
	if status, _ := v.post("/ui/policy", url.Values{"name": {"fair"}}); status != http.StatusForbidden {
		t.Errorf("ann changes the policy: %d", status)
	}
	root := c.visit()
	if _, body := signIn(root, tokens["root"], "https://evil.example/ui/"); !strings.Contains(body, "admin root") {
		t.Errorf("root: %.500s", body)
	}
	if status, body := root.post("/ui/policy", url.Values{"name": {"fair"}}); status != http.StatusOK || !strings.Contains(body, "Installed: fair") {
		t.Errorf("root changes the policy: %d %.500s", status, body)
	}
	// The cookie opens pages only.
	base, err := url.Parse(c.URL + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/slotwise.v1.ClientService/Jobs", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, cookie := range root.Jar.Cookies(base) {
		r.AddCookie(cookie)
	}
	if status, _ := v.answer(http.DefaultClient.Do(r)); status != http.StatusUnauthorized {
		t.Errorf("a call with the cookie: %d", status)
	}
	if _, body := root.post("/ui/logout", nil); !strings.Contains(body, "signed out") {
		t.Errorf("signing out: %.500s", body)
	}
	if _, body := root.get("/ui/policy"); !strings.Contains(body, "Sign in") {
		t.Errorf("after signing out: %.500s", body)
	}
	worker := c.visit()
	if status, _ := signIn(worker, tokens["w1"], ""); status != http.StatusForbidden {
		t.Errorf("a worker: %d", status)
	}
	if err := os.WriteFile(file, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "ann's session ends with her token", func() bool {
		_, body := v.get("/ui/jobs")
		return strings.Contains(body, "Sign in")
	})
}

// TestHistoryUI shows the history of a master that has ended.
func TestHistoryUI(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Words("in/a.txt", 2_000)
	c.Must("wordcount", "in", "--output", "counts", "--split-size", "8KiB", "--reduces", "1")
	clustertest.Eventually(t, "the history has the job", func() bool {
		_, body := c.visit().get("/ui/history")
		return strings.Contains(body, "/ui/jobs/j1")
	})
	c.Master.Kill()
	ui := c.Start("ui", "ui", "history:m", "--listen", "127.0.0.1:0")
	ui.Says("the pages are at ")
	_, rest, _ := strings.Cut(ui.Log.String(), "http://")
	c.URL = "http://" + strings.Split(rest, "/")[0]
	v := c.visit()
	for path, want := range map[string]string{"/": "wordcount", "/ui/jobs/j1": "Attempts over time", "/ui/jobs/j1/attempts?kind=map": "j1_m_0_0", "/ui/compare?a=j1&b=j1": "same", "/ui/history?q=none": "No job matches"} {
		if status, body := v.get(path); status != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "/kill") {
			t.Errorf("%s: %d, without %q: %.1500s", path, status, want, body)
		}
	}
	if status, _ := v.get("/ui/nodes"); status != http.StatusNotFound {
		t.Errorf("nodes: %d", status)
	}
	if status, _ := v.post("/ui/jobs/j1/kill", nil); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
		t.Errorf("a kill: %d", status)
	}
	if err := ui.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ui.Ends()
	if status := ui.Cmd.ProcessState.ExitCode(); status != 0 && status != 130 {
		t.Errorf("exit status %d\n%s", status, &ui.Log)
	}
}

// TestRunUI shows a run in one process while it runs, and its job from the history later.
func TestRunUI(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.Words("in/a.txt", 2_000)
	// The maps wait until the test has seen the pages.
	mapper := "while ! [ -e " + filepath.Join(c.Dir, "go") + " ]; do sleep 0.1; done; cat"
	run := c.Start("run", "run", "--mapper", mapper, "--reducer", "cat", "--input", "in", "--split-size", "8KiB", "--output", "out", "--pool", "<script>x", "--ui", "--history", "runs")
	run.Says("the pages of this run are at ")
	_, rest, _ := strings.Cut(run.Log.String(), "http://")
	c.URL = "http://" + strings.Split(rest, "/")[0]
	v := c.visit()
	clustertest.Eventually(t, "a map runs", func() bool {
		_, body := v.get("/ui/nodes/worker1")
		return strings.Contains(body, "j1_m_")
	})
	for path, want := range map[string]string{"/": "Maps running", "/ui/jobs": "&lt;script&gt;x", "/ui/jobs/j1": "running", "/ui/jobs/j1/attempts?format=json": "j1_m_0_0", "/ui/nodes": "worker1", "/ui/policy": "fifo", "/ui/history": "No job matches"} {
		if status, body := v.get(path); status != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "<script>x") || strings.Contains(body, "<form method=\"post\"") {
			t.Errorf("%s: %d, without %q: %.1500s", path, status, want, body)
		}
	}
	for _, path := range []string{"/ui/jobs/j2", "/ui/attempts/j1_m_0_0/log"} {
		if status, body := v.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	c.Write("go", "")
	run.Ends()
	if status := run.Cmd.ProcessState.ExitCode(); status != 0 {
		t.Fatalf("exit status %d\n%s", status, &run.Log)
	}
	again := c.Start("again", "run", "wordcount", "in", "--output", "counts", "--history", "runs")
	again.Ends()
	store, err := history.OpenRead(filepath.Join(c.Dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for id, name := range map[string]string{"j1": "streaming", "j2": "wordcount"} {
		h, err := store.Get(id)
		if err != nil || h.Job.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || !strings.Contains(strings.ToLower(h.Job.Name), name) || len(h.Tasks) < 2 || !strings.HasPrefix(h.Tasks[0].Attempts[0].Id, id+"_m_0") {
			t.Errorf("%s: %v, %v", id, h.GetJob(), err)
		}
	}
	sim := c.Command("sim", "--workload", "history:runs", "--cluster", "nodes=2,maps=1,reduces=1", "--policy", "fair", "-q")
	if out, err := sim.CombinedOutput(); err != nil {
		t.Errorf("sim: %v\n%s", err, out)
	}
}
