package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// TestFaults makes a few runs that together inject every kind of fault.
func TestFaults(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("clusters of real processes, on Linux")
	}
	dir := t.TempDir()
	// Tasks that run as the jobs' users must reach the workers' directories. TempDir's
	// parent is private.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &settings{limit: 5 * time.Minute}
	if err := s.prepare(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	in, err := makeInput(filepath.Join(s.dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	s.hdfs = newHDFSPool(s.keeper, s.dir, 1)
	plans := shares(s.machine)
	outcomes := make([]*outcome, len(plans))
	each(3, len(plans), func(i int) { outcomes[i] = s.run(t.Context(), plans[i], in) })
	if err := s.hdfs.stop(); err != nil {
		t.Error(err)
	}
	snapshots := 0
	for _, o := range outcomes {
		t.Logf("%s, %v, %.1f s: %v", o.name, o.plan, o.took.Seconds(), o.injections)
		snapshots += o.snapshotted
		if o.problem == nil {
			continue
		}
		t.Errorf("%s: %v", o.name, o.problem)
		logs, _ := filepath.Glob(filepath.Join(s.dir, o.name, "*.log"))
		for _, l := range logs {
			b, _ := os.ReadFile(l)
			t.Logf("%s:\n%s", filepath.Base(l), b)
		}
	}
	if snapshots == 0 {
		t.Error("no master has made a snapshot")
	}
}

// TestS3Faults checks that each fault of the S3 server changes what a client sees, and
// that its end restores the server and its objects.
func TestS3Faults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	keeper, err := harness.BuildKeeper(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.PrepareServers(keeper, "s3"); err != nil {
		t.Skip(err)
	}
	in, err := makeInput(filepath.Join(t.TempDir(), "in"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newS3Store(t.Context(), keeper, t.TempDir(), in, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	status := func(limit time.Duration) int { // an unsigned request gets 403 from a healthy server
		r, err := (&http.Client{Timeout: limit}).Get(s.front.URL + "/test/in/0")
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	for _, k := range kinds {
		if k.storage != s3Storage {
			continue
		}
		if got := status(4 * time.Minute); got != http.StatusForbidden {
			t.Fatalf("before %s: status %d", k.name, got)
		}
		undo, hit, err := k.inject(&cluster{store: s}, fault{kind: k})
		if !hit || err != nil {
			t.Fatalf("%s: %t, %v", k.name, hit, err)
		}
		affected := 0
		for range 30 {
			if status(200*time.Millisecond) != http.StatusForbidden {
				affected++
			}
		}
		if affected == 0 {
			t.Errorf("%s affects no request", k.name)
		}
		if err := undo(); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		if err := eventually("the server answers", func() (bool, error) { return status(time.Minute) == http.StatusForbidden, nil }); err != nil {
			t.Fatal(err)
		}
		if names, err := s.names("in"); len(names) != 2 || err != nil {
			t.Errorf("after %s: %v, %v", k.name, names, err)
		}
	}
}

// shares returns plans that together have each kind of fault that the machine permits
// once, on every storage and with every security.
func shares(m machine) []plan {
	const runs = 9
	plans := make([]plan, runs)
	for i := range plans {
		plans[i] = draw(uint64(i+1), m)
		p := &plans[i]
		p.storage, p.security, p.snapshots, p.faults = m.storages()[i%len(m.storages())], securities[i/3%3], i%2 == 0, nil
		p.namespaces = m.namespaces && p.storage == localStorage && p.security != openDoors
		p.owners = m.owners && p.storage == localStorage && p.security == certificates
	}
	for n, k := range kinds {
		for i := range runs { // the first run from n on that can have the fault
			p := &plans[(n+i)%runs]
			if all, _ := p.possible(m); slices.Contains(all, k) {
				at := time.Duration(len(p.faults)+1) * 800 * time.Millisecond
				p.faults = append(p.faults, fault{kind: k, at: at, worker: n % p.workers, lasts: k.least, amount: uint64(n) << 20})
				break
			}
		}
	}
	return plans
}

// TestDraw checks that a seed always gives the same plan, that all kinds of faults
// occur, and that times, durations and targets are within bounds.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	able := machine{disks: true, s3: true, hdfs: true, namespaces: true, netem: true, owners: true}
	for seed := range uint64(500) {
		p := draw(seed, able)
		if !reflect.DeepEqual(p, draw(seed, able)) {
			t.Fatalf("seed %d gives two different plans", seed)
		}
		seen[p.storage], seen[p.security], seen[fmt.Sprint("snapshots ", p.snapshots)], seen[fmt.Sprint("namespaces ", p.namespaces)], seen[fmt.Sprint("owners ", p.owners)] = true, true, true, true, true
		for _, f := range p.faults {
			seen[f.kind.name] = true
			if f.kind.storage != "" && f.kind.storage != p.storage || f.kind.namespace && !p.namespaces {
				t.Errorf("seed %d: %v in a run with %v", seed, f, p)
			}
			if f.at < firstFault || f.at > lastFault || f.lasts < f.kind.least || f.lasts > max(f.kind.least, f.kind.most) || f.worker >= p.workers {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		for _, f := range draw(seed, machine{}).faults {
			if f.kind.disk || f.kind.storage != "" || f.kind.namespace {
				t.Errorf("seed %d: %v on a machine that does not permit it", seed, f)
			}
		}
	}
	want := append([]string{"snapshots true", "snapshots false", "namespaces true", "namespaces false", "owners true", "owners false"}, append(able.storages(), securities...)...)
	for _, k := range kinds {
		want = append(want, k.name)
	}
	for _, name := range want {
		if !seen[name] {
			t.Errorf("%s is never drawn", name)
		}
	}
}

// TestCheckOutput checks a correct output and one output for each possible defect.
func TestCheckOutput(t *testing.T) {
	in := &input{lines: []string{"w1 w2", "w3 w4", "w1 w2"}}
	w := work{parts: 2, sorted: true, answer: all}
	right := map[string]string{"_SUCCESS": "", "part-r-00000": "w1 w2\nw1 w2\n", "part-r-00001": "w3 w4\n"}
	for name, change := range map[string]map[string]string{
		"":                       nil,
		"no _SUCCESS":            {"_SUCCESS": "-"},
		"a part is missing":      {"part-r-00001": "-"},
		"a part too many":        {"part-r-00002": ""},
		"a file that is no part": {"part-r-00001.tmp": ""},
		"a line twice":           {"part-r-00001": "w3 w4\nw3 w4\n"},
		"a line is missing":      {"part-r-00000": "w1 w2\n"},
		"another line":           {"part-r-00001": "w3 w5\n"},
		"not in order":           {"part-r-00000": "w3 w4\n", "part-r-00001": "w1 w2\nw1 w2\n"},
	} {
		d := &directory{dir: t.TempDir()}
		for _, files := range []map[string]string{right, change} {
			for file, text := range files {
				path := filepath.Join(d.dir, file)
				if text == "-" {
					os.Remove(path)
				} else if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := checkOutput(d, ".", w, in); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestAnswers checks that every job has a non-empty answer and that the mixes only
// name existing jobs.
func TestAnswers(t *testing.T) {
	in, err := makeInput(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		if n := len(w.answer(in)); n < 20 {
			t.Errorf("%s: %d lines", w.name, n)
		}
	}
	for _, m := range mixes {
		for _, name := range m {
			if !slices.ContainsFunc(works, func(w work) bool { return w.name == name }) {
				t.Errorf("a mix names the job %q, which does not exist", name)
			}
		}
	}
}

// TestExplains checks that only an injected fault, of a kind that causes this error
// message, explains a failure.
func TestExplains(t *testing.T) {
	at := func(name string, hit bool) injection {
		i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
		return injection{fault: fault{kind: kinds[i]}, hit: hit}
	}
	message := "write spill: no space left on device"
	for _, c := range []struct {
		injections []injection
		want       bool
	}{
		{nil, false},
		{[]injection{at("disk-full", false)}, false},
		{[]injection{at("disk-full", true)}, true},
		{[]injection{at("worker-kill", true), at("master-kill", true)}, false},
	} {
		o := &outcome{injections: c.injections}
		if o.explains(&jobFailed{message: message}) != c.want || o.explains(&jobFailed{message: "checksum mismatch"}) ||
			o.explains(&jobFailed{message: message, published: true}) {
			t.Errorf("%v: %t", c.injections, !c.want)
		}
		if err := o.judge([]error{&jobFailed{message: message}, nil, fmt.Errorf("has not ended")}); err == nil || strings.Contains(err.Error(), message) == c.want {
			t.Errorf("%v: %v", c.injections, err)
		}
	}
}

// TestPage checks that lab/results/fault-runs.md has the current text and the current
// kinds of faults. Its results are measurements, which the test does not compare.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "results", "fault-runs.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "page.md")
	if err := (&report{}).writePage(name); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(string(fresh), "## Results")
	got, _, _ := strings.Cut(string(page), "## Results")
	if got != want {
		t.Errorf("lab/results/fault-runs.md begins with\n%s\nwant\n%s", got, want)
	}
}

// TestReport adds up two runs: one without faults, whose time is the base line,
// and one with a fault that hit, a fault without a target and a failed job.
func TestReport(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hit := injection{fault: fault{kind: kinds[0]}, hit: true, began: began, next: 300 * time.Millisecond}
	r := &report{calm: map[string][]time.Duration{}}
	var lines strings.Builder
	r.add(&outcome{plan: plan{name: "calm-0"}, took: 2 * time.Second, jobs: 2}, &lines)
	r.add(&outcome{plan: plan{name: "seed-7", seed: 7}, took: 5 * time.Second, jobs: 2, problem: fmt.Errorf("a file is left"),
		explained:  []string{"sort: no space left on device"},
		injections: []injection{hit, {fault: fault{kind: kinds[1]}, next: -1}}}, &lines)
	var out strings.Builder
	r.write(&out)
	for _, want := range []string{"1 runs (seeds 7 to 7)", "4 jobs", "1 faults; 1 jobs failed", "| worker-kill | 1 | 0.3 | 0.3 | 0.3 | 3.0 | 3.0 | 3.0 |",
		"| worker-lost | 0 | | | | | | |", "| all runs | 1 | | | | 3.0 | 3.0 | 3.0 |", "| sort: no space left on device | 1 | seed-7 |", "FAILED: seed-7: a file is left"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if want := "(no target)"; !strings.Contains(lines.String(), want) {
		t.Errorf("%q is missing in\n%s", want, lines.String())
	}
}

// TestNetworkAgain makes and removes one network many times: its names are free as soon as
// it is removed.
func TestNetworkAgain(t *testing.T) {
	s := &networks{}
	if err, _ := s.probe(); err != nil {
		t.Skip("no network namespaces here:", err)
	}
	for i := range 20 {
		n, err := s.make()
		if n != nil {
			err = errors.Join(err, n.close())
		}
		if err != nil {
			t.Fatalf("network %d: %v", i, err)
		}
	}
}
