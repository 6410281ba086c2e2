package master

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// page requests a page of the console and returns its content and how long it took.
func (r *rig) page(path string) (string, time.Duration) {
	r.t.Helper()
	start := time.Now()
	resp, err := r.srv.Client().Get(r.srv.URL + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s, %v: %.500s", path, resp.Status, err, b)
	}
	return string(b), time.Since(start)
}

// TestConsoleBytes sends the console a form whose bytes are no UTF-8. No record of the journal can hold them, and the
// master must refuse them instead of ending.
func TestConsoleBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	resp, err := r.srv.Client().PostForm(r.srv.URL+"/ui/policy", url.Values{"name": {"capacity"}, "setting": {"queues=a\xff,capacity=100"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%s, %v", resp.Status, err)
	}
	if body, _ := r.page("/ui/policy"); !strings.Contains(body, "fifo") {
		t.Errorf("the policy: %.3000s", body)
	}
}

// TestConsoleWithManyJobs shows pages of 1,000 jobs with 100,000 tasks. Their times are
// logged; their sizes are bounded.
func TestConsoleWithManyJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Policy: "fair"})
	program := r.spec(100, 0, "")
	for i := range 1000 {
		program.Name, program.Pool = fmt.Sprintf("job %d", i), fmt.Sprintf("pool%d", i%20)
		r.submit(program)
	}
	t.Log("submitted")
	w := r.worker("w1", 100, 0)
	w.awaitLaunch("j1_m_0_0")
	w.heartbeat(0, w.succeeded("j1_m_0_0"))
	for _, path := range []string{"/ui/", "/ui/", "/ui/jobs", "/ui/jobs?sort=-end", "/ui/jobs?q=job+99&offset=10", "/ui/jobs/j1", "/ui/jobs/j1/attempts", "/ui/nodes/w1", "/ui/policy", "/ui/history"} {
		body, took := r.page(path)
		t.Logf("%s: %d bytes in %v", path, len(body), took)
		if len(body) > 200<<10 {
			t.Errorf("%s: %d bytes", path, len(body))
		}
	}
	if body, _ := r.page("/ui/"); !strings.Contains(body, "All 1000 jobs that have not ended") {
		t.Errorf("the overview does not count the jobs: %.3000s", body)
	}
	if body, _ := r.page("/ui/jobs?q=JOB+99&offset=0"); !strings.Contains(body, "Showing 1 to 11 of 11.") {
		t.Errorf("a search: %.3000s", body)
	}
	if body, _ := r.page("/ui/jobs/j1/attempts?state=succeeded&format=csv"); !strings.Contains(body, "j1_m_0_0,map,succeeded,w1") {
		t.Errorf("attempts: %.1000s", body)
	}
	if body, _ := r.page("/ui/nodes/w1?format=json"); !strings.Contains(body, `"total": 99`) && !strings.Contains(body, `"total": 100`) {
		t.Errorf("running attempts: %.500s", body)
	}
}
