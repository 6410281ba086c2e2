package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// at continues at another server.
func (b *chrome) at(url string) *chrome {
	b.url = strings.TrimSuffix(url, "/ui/")
	return b
}

// ui serves slotwise ui with an argument and returns the URL of its server.
func ui(c *clustertest.Cluster, what string) string {
	c.T.Helper()
	p := c.Start("ui "+what, "ui", what, "--listen", "127.0.0.1:0")
	p.Says("the pages are at ")
	_, rest, _ := strings.Cut(p.Log.String(), "http://")
	return "http://" + strings.Split(rest, "/")[0]
}

// largeJob is an ended job of 10,000 maps on 100 nodes, whose names are hostile.
func largeJob() *slotwisev1.HistoryJob {
	name := strings.Repeat("<b>\u202ename", 100)
	h := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "j1", Name: name, User: "ann", Pool: name, State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, SubmittedMs: 1_790_000_000_000,
		StartedMs: 1_790_000_001_000, EndedMs: 1_790_000_400_000, Maps: &slotwisev1.TaskCounts{Total: 10_000, Done: 10_000, Progress: 1}, Reduces: &slotwisev1.TaskCounts{}}}
	for i := range int64(10_000) {
		id, start := fmt.Sprint("j1_m_", i), h.Job.StartedMs+(i/200)*6000
		h.Tasks = append(h.Tasks, &slotwisev1.TaskStatus{Id: id, State: "succeeded", Attempts: []*slotwisev1.AttemptStatus{{Id: id + "_0", State: "succeeded", Node: fmt.Sprint("n", i%100), Level: "node",
			Progress: 1, StartedMs: start, EndedMs: start + 4000 + i*7919%1900}}})
	}
	return h
}

// TestBrowserWithoutMaster opens the pages of a history, of simulations and of a study. The history
// has a job of 10,000 tasks.
func TestBrowserWithoutMaster(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, binary)
	store, err := history.Open(filepath.Join(c.Dir, "m"), history.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(largeJob()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	mix, err := os.ReadFile("../../examples/sim/mix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Write("mix.yaml", string(mix))
	c.Write("study.yaml", "workload: mix.yaml\nclusters: [\"nodes=20,maps=4,reduces=2,racks=2\"]\npolicies: [fifo, fair]\nloads: [1, 2]\nseeds: 2\n")
	for _, args := range [][]string{
		{"sim", "--workload", "mix.yaml", "--cluster", "nodes=20,maps=4,reduces=2,racks=2", "--policy", "fair,fifo", "--references", "none", "--quiet", "--out", "results"},
		{"study", "study.yaml", "--quiet", "--out", "big"},
	} {
		if status, out := c.Run(args...); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, out)
		}
	}
	b := newChrome(t, ui(c, "history:m"))
	b.open("/ui/jobs/j1")
	b.until("the attempts", `document.querySelector("#timeline svg path") !== null`)
	if note := eval[string](b, `document.querySelector("#timeline .note").textContent`); !strings.Contains(note, "too many to draw each") {
		t.Errorf("the timeline says %q", note)
	}
	if n := eval[int](b, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("%d elements in the page of 10,000 tasks", n)
	}
	b.do("+", chromedp.KeyEvent("+"))
	b.until("a part of the timeline", `location.search.includes("from=")`)
	for _, path := range []string{"/ui/", "/ui/jobs/j1", "/ui/jobs/j1/attempts?offset=9965", "/ui/compare?a=j1&b=j1"} {
		b.check(path)
	}
	b.open("/ui/jobs/j1/attempts?offset=9965")
	if got := eval[string](b, `document.querySelector("#t-attempts tbody tr:last-child th").textContent`); got != "j1_m_9999_0" {
		t.Errorf("the last attempt is %q", got)
	}
	b.at(ui(c, "results"))
	for _, path := range []string{"/ui/", "/ui/history?q=fair-1", "/ui/jobs/r1.j3", "/ui/compare?a=r1.j3&b=r2.j3"} {
		b.check(path)
	}
	const drawn = `document.querySelectorAll("img").length > 2 && [...document.querySelectorAll("img")].every((e) => (e.loading = "eager", e.complete && e.naturalWidth > 100))`
	b.open("/ui/")
	b.until("the plots of sim", drawn)
	if os.Getenv("SLOTWISE_REWRITE") == "1" {
		b.picture(picture{"/ui/", "results", "light"})
	}
	b.at(ui(c, "big"))
	b.check("/ui/")
	b.check("/ui/?q=fair")
	b.open("/ui/")
	b.until("the plots of the study", drawn)
	if os.Getenv("SLOTWISE_REWRITE") == "1" {
		b.picture(picture{"/ui/", "study", "light"})
	}
	noScript(b, []string{"/ui/", "/ui/?q=fair"})
}

// TestBrowserRun opens the pages of a run in one process while its maps wait.
func TestBrowserRun(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, binary)
	c.Words("in/a.txt", 2_000)
	mapper := "while ! [ -e " + filepath.Join(c.Dir, "go") + " ]; do sleep 0.1; done; cat"
	run := c.Start("run", "run", "--mapper", mapper, "--input", "in", "--split-size", "8KiB", "--output", "out", "--ui")
	run.Says("the pages of this run are at ")
	_, rest, _ := strings.Cut(run.Log.String(), "http://")
	b := newChrome(t, "http://"+strings.Split(rest, "/")[0])
	for _, path := range []string{"/ui/", "/ui/jobs/j1", "/ui/nodes/worker1", "/ui/policy", "/ui/history"} {
		b.open(path)
		if bad := b.complaints(); len(bad) > 0 {
			t.Errorf("%s: %q", path, bad)
		}
	}
	c.Write("go", "")
	run.Ends()
}

// TestBrowserRights signs in as a user who may see a job and not change it. No page offers an
// action, a forged request is refused, and so is one from a page of another site while the
// owner is signed in.
func TestBrowserRights(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := map[string]string{}
	for _, user := range []string{"ann", "eve"} {
		var err error
		if tokens[user], err = secure.AddToken(file, secure.Identity{User: user, Role: secure.User}); err != nil {
			t.Fatal(err)
		}
	}
	shared := t.TempDir()
	c := newTestCluster(t, "--tokens", file, "--storage-root", "file://"+shared)
	if err := os.WriteFile(filepath.Join(c.Dir, "ann"), []byte(tokens["ann"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out := c.Run("submit", "--master", c.URL, "--token-file", "ann", "sleep", "--param", "maps=2x1s", "--output", filepath.Join(shared, "out")); status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	b := newChrome(t, c.URL)
	signIn := func(user string) { b.signIn(user, tokens[user], "/ui/jobs/j1") }
	const actions = `document.querySelectorAll("details.action, main form[method=post]").length`
	signIn("eve")
	for _, path := range []string{"/ui/jobs/j1", "/ui/nodes", "/ui/policy"} {
		b.open(path)
		if n := eval[int](b, actions); n > 0 {
			t.Errorf("eve has %d actions on %s", n, path)
		}
	}
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
	for _, path := range []string{"/ui/jobs/j1/kill", "/ui/jobs/j1/priority", "/ui/jobs/j1/move", "/ui/policy"} {
		forge := fmt.Sprintf(`fetch(%q, {method: "POST", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body: "reason=x&priority=HIGH&pool=p&name=fair"}).then((r) => { window.forged = r.status; }); 1`, path)
		eval[int](b, "window.forged = 0; "+forge)
		b.until("an answer", "window.forged > 0")
		if got := eval[int](b, "window.forged"); got != http.StatusForbidden {
			t.Errorf("eve's request to %s: %d", path, got)
		}
	}
	signIn("ann")
	if n := eval[int](b, actions); n == 0 {
		t.Error("ann has no actions")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/ui/jobs/j1/kill"><button>Win</button></form>`, c.URL)
	}))
	defer other.Close()
	b.do("a page of another site", chromedp.Navigate(other.URL), chromedp.Click("button", chromedp.ByQuery))
	b.until("the refusal", `document.body.textContent.includes("another site")`)
	b.complaints() // the refusals
	b.open("/ui/jobs/j1")
	if got := eval[string](b, `document.querySelector("#summary .state").textContent`); got == "killed" {
		t.Error("the job was killed")
	}
}
