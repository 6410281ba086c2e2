package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/console"
)

// TestUIOfResults simulates two policies and opens the pages of their results.
func TestUIOfResults(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	var out, stderr bytes.Buffer
	if code := execute(t.Context(), []string{"sim", "--workload", "../examples/sim/mix.yaml", "--cluster", "nodes=20,maps=4,reduces=2,racks=2", "--policy", "fair,fifo,speculate=late",
		"--references", "none", "--quiet", "--out", dir}, &out, &stderr); code != exitOK {
		t.Fatalf("status %d: %s", code, stderr.String())
	}
	results, err := console.OpenResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := startUI(t.Context(), "--listen", results, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pages.stop)
	get := func(path string) (int, string) {
		resp, err := http.Get(strings.TrimSuffix(pages.url, "/ui/") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{
		"/ui/": "Mean response (s)", "/ui/history?q=fair-1": "of 40.", "/ui/history?q=fifo_spec": "policy fifo,speculate=late, seed 1", "/ui/jobs/r2.j1": "question-1", "/ui/jobs/r1.j3/attempts": "r1.j3_m_0_0",
		"/ui/compare?a=r1.j1&b=r2.j1": "median time of maps", "/ui/figures/queue.svg": "<svg", "/ui/?format=csv&table=measures": "fair,makespan,1,",
	} {
		if status, body := get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q: %.3000s", path, status, want, body)
		}
	}
	// The style sheet of a figure is inside the file. Without leave to use it, a browser that opens the
	// figure by itself would draw everything in black.
	resp, err := http.Get(strings.TrimSuffix(pages.url, "/ui/") + "/ui/figures/queue.svg")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'; style-src 'unsafe-inline'; sandbox") {
		t.Errorf("a figure may use %q", policy)
	}
	for _, path := range []string{"/ui/figures/report.json", "/ui/figures/..%2Freport.json", "/ui/nodes", "/ui/policy", "/ui/jobs/r9.j1", "/ui/attempts/r1.j1_m_0_0"} {
		if status, body := get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d: %.300s", path, status, body)
		}
	}
	var first struct {
		Rows []struct {
			Started, Took_ms int64
			State, Node      string
		}
	}
	_, body := get("/ui/jobs/r1.j1/attempts?format=json")
	if err := json.Unmarshal([]byte(body), &first); err != nil || len(first.Rows) < 5 || first.Rows[0].Took_ms <= 0 || first.Rows[0].Node == "" {
		t.Errorf("%v: %.500s", err, body)
	}
	for name, text := range map[string]string{"report.json": "{", "jobs.csv": "policy,seed,job\nfifo,1,x\n"} {
		broken := t.TempDir()
		for _, file := range []string{"report.json", "jobs.csv"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if file == name {
				b = []byte(text)
			}
			if err := os.WriteFile(filepath.Join(broken, file), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := console.OpenResults(broken); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a damaged %s: %v", name, err)
		}
	}
}

// TestUIOfStudy simulates a small study and opens the page of its results.
func TestUIOfStudy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, results := filepath.Join(dir, "study.yaml"), filepath.Join(dir, "big")
	mix, err := filepath.Abs("../examples/sim/mix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := "workload: " + mix + "\nclusters: [\"nodes=20,maps=4,reduces=2,racks=2\"]\npolicies: [fifo, fair]\nloads: [1, 2]\nseeds: 2\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if code := execute(t.Context(), []string{"study", file, "--out", results, "--quiet"}, &out, &stderr); code != exitOK {
		t.Fatalf("status %d: %s", code, stderr.String())
	}
	source, err := console.OpenResults(results)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := startUI(t.Context(), "--listen", source, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pages.stop)
	get := func(path string) (int, string) {
		resp, err := http.Get(strings.TrimSuffix(pages.url, "/ui/") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{
		"/ui/": "response-mean.svg", "/ui/?q=fair": "Mean response (s)", "/ui/figures/response-mean.svg": "<svg", "/ui/?q=nosuch": "No run matches.",
		"/ui/history":                    "A study keeps the measures of its runs and no jobs.",
		"/ui/?format=csv&table=verdicts": "fair,fifo,\"nodes=20,maps=4,reduces=2,racks=2, world slotwise, load 1\",makespan,",
	} {
		if status, body := get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q: %.3000s", path, status, want, body)
		}
	}
	// A mean is half of the sum of the two runs.
	mean := func(query string) (sum float64, n int) {
		var table struct {
			Rows []map[string]any
		}
		if _, body := get("/ui/?format=json&" + query); json.Unmarshal([]byte(body), &table) != nil {
			t.Fatalf("%s: %.500s", query, body)
		}
		for _, row := range table.Rows {
			if row["policy"] == "fair" && strings.HasSuffix(row["point"].(string), "load 2") {
				sum, n = sum+row["makespan"].(float64), n+1
			}
		}
		return sum, n
	}
	runs, n := mean("table=runs")
	one, m := mean("table=comparison")
	if n != 2 || m != 1 || math.Abs(runs/2-one) > 1e-6*one || one <= 0 {
		t.Errorf("%d runs with a sum of %v, %d means: %v", n, runs, m, one)
	}
	if status, _ := get("/ui/jobs/r1.j1"); status != http.StatusNotFound {
		t.Errorf("a job of a study: %d", status)
	}
	if err := os.WriteFile(filepath.Join(results, "study.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := console.OpenResults(results); err == nil || !strings.Contains(err.Error(), "study.json") {
		t.Errorf("a damaged study.json: %v", err)
	}
}
