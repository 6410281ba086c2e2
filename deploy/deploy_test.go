// Package deploy holds the tests of the files for operators: units of systemd, rules of
// Prometheus and a board of Grafana. docs/operate.md describes them.
package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestUnits checks the units with systemd-analyze, and that its estimate of their
// exposure stays "OK", which is below 2.5 of 10.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is missing")
	}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatal(units, err)
	}
	binary := current(t)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), filepath.Base(unit))
		if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/slotwise", binary)), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", unit, err, out)
		}
		if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", copied).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", unit, err, out)
		}
		// The flags of the unit must exist.
		command := regexp.MustCompile(`(?m)^ExecStart=\S+ (\w+) (.*)$`).FindStringSubmatch(string(text))
		if command == nil {
			t.Fatalf("%s has no ExecStart", unit)
		}
		out, err := exec.Command(binary, append([]string{command[1]}, append(strings.Fields(command[2]), "--help")...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// rules are the parts of a file of Prometheus rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// readRules parses the alerts strictly.
func readRules(t *testing.T) rules {
	file, err := os.Open("monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d := yaml.NewDecoder(file)
	d.KnownFields(true)
	var r rules
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAlerts checks the alerts with promtool where it is installed. Everywhere it checks
// that each has a severity and a summary, a valid duration and balanced brackets, and
// that docs/operate.md explains it.
func TestAlerts(t *testing.T) {
	page, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			seen++
			if r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" || r.Annotations["summary"] == "" {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			for _, pair := range []string{"()", "{}", "[]"} {
				if strings.Count(r.Expr, pair[:1]) != strings.Count(r.Expr, pair[1:]) {
					t.Errorf("%s: %s is not balanced in %s", r.Alert, pair, r.Expr)
				}
			}
			if !strings.Contains(string(page), "| `"+r.Alert+"` |") {
				t.Errorf("docs/operate.md does not explain %s", r.Alert)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d alerts", seen)
	}
	if _, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command("promtool", "check", "rules", "monitoring/alerts.yaml").CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// board is the part of a Grafana board that has expressions.
type board struct {
	Title  string
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// metric matches the names of our metrics in an expression.
var metric = regexp.MustCompile(`\bslotwise_\w+`)

// stateLabel matches a label and its value in an expression.
var stateLabel = regexp.MustCompile(`(slotwise_\w+)\{(\w+)="(\w+)"\}`)

// TestMetrics runs a job on a master and a worker, and checks that every metric that an
// alert or the board names is on their /metrics pages, with the labels that it selects.
func TestMetrics(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	var expressions []string
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			expressions = append(expressions, r.Expr)
		}
	}
	text, err := os.ReadFile("monitoring/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("a panel %q with %d expressions", p.Title, len(p.Targets))
		}
		for _, x := range p.Targets {
			expressions = append(expressions, x.Expr)
		}
	}
	exported := scrape(t)
	for _, x := range expressions {
		names := metric.FindAllString(x, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", x)
		}
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(exported) {
				t.Errorf("%s: there is no metric %s", x, name)
			}
		}
		for _, m := range stateLabel.FindAllStringSubmatch(x, -1) {
			if m[3] != "failed" && !regexp.MustCompile(`(?m)^`+m[1]+`\{.*`+m[2]+`="`+m[3]+`"`).MatchString(exported) {
				t.Errorf("%s: there is no %s", x, m[0])
			}
		}
	}
}

// scrape returns the metrics of a master and of a worker that have run a job.
func scrape(t *testing.T) string {
	c := newCluster(t, current(t))
	c.startWorker("w1")
	c.submit("job").wait(t)
	var all strings.Builder
	for _, url := range []string{c.URL, "http://" + c.workers["w1"].Address()} {
		r, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v\n%s", url, r.Status, err, page)
		}
		all.Write(page)
	}
	return all.String()
}

// build compiles slotwise into the file binary. It adds no flag that the tests are not compiled with:
// Go would compile the whole program a second time.
func build(binary string) error {
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/slotwise")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// programs is the directory of buildCurrent.
var programs string

// buildCurrent compiles this tree once.
var buildCurrent = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(programs, "slotwise")
	return binary, build(binary)
})

// current returns the program of this tree.
func current(t *testing.T) string {
	t.Helper()
	binary, err := buildCurrent()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// TestMain runs many tests at a time, since most wait for a cluster, and removes the files that they share.
func TestMain(m *testing.M) {
	clustertest.ManyAtOnce()
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "deploy-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		return m.Run()
	}())
}

// cluster is a cluster of processes whose program the tests change between starts.
type cluster struct {
	*clustertest.Cluster
	workers map[string]*clustertest.Worker
}

func newCluster(t *testing.T, program string) *cluster {
	t.Helper()
	c := &cluster{clustertest.New(t, program), map[string]*clustertest.Worker{}}
	var text strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&text, "line %d of %d\n", i%700, i%3)
	}
	c.Write("in.txt", text.String())
	c.StartMaster("127.0.0.1:0")
	return c
}

// startWorker starts a worker, possibly again in its directory.
func (c *cluster) startWorker(name string) {
	c.T.Helper()
	c.workers[name] = c.StartWorker(name, "--listen", "127.0.0.1:0", "--map-slots", "2", "--drain-timeout", "1s")
}

// submission is a job that a client waits for.
type submission struct {
	c    *cluster
	name string
	cmd  *exec.Cmd
	out  strings.Builder
}

// submit submits a job whose tasks take some time.
func (c *cluster) submit(name string) *submission {
	c.T.Helper()
	s := &submission{c: c, name: name}
	s.cmd = c.Command("submit", "--mapper", "sleep 1; cat", "--reducer", "sleep 1; uniq -c", "--split-size", "8KiB", "--reduces", "3",
		"--input", filepath.Join(c.Dir, "in.txt"), "--output", filepath.Join(c.Dir, name), "--master", c.URL, "--wait", "--no-progress")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	return s
}

// wait waits for the job and checks that its output has each line of the input.
func (s *submission) wait(t *testing.T) {
	t.Helper()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("job %s: %v\n%s", s.name, err, &s.out)
		return
	}
	want := map[string]int{}
	text, err := os.ReadFile(filepath.Join(s.c.Dir, "in.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		want[strings.TrimSpace(line)]++
	}
	var expected []string
	if parts, err := filepath.Glob(filepath.Join(s.c.Dir, s.name, "part-*")); err != nil || len(parts) != 3 {
		t.Errorf("job %s has the parts %v, %v", s.name, parts, err)
	}
	var lines []string
	for _, line := range s.c.Lines(s.name) {
		lines = append(lines, strings.TrimSpace(line))
	}
	for line, n := range want {
		expected = append(expected, fmt.Sprintf("%d %s", n, line))
	}
	slices.Sort(lines)
	slices.Sort(expected)
	if !slices.Equal(lines, expected) {
		t.Errorf("job %s has %d lines, want %d", s.name, len(lines), len(expected))
	}
	if _, err := os.Stat(filepath.Join(s.c.Dir, s.name, "_SUCCESS")); err != nil {
		t.Error(err)
	}
}
