package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFaults is a short set of runs in which every kind of fault strikes.
func TestFaults(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("clusters of real processes, on Linux")
	}
	s := &settings{limit: 3 * time.Minute}
	if err := s.prepare(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	in, err := makeInput(filepath.Join(s.dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	const runs = 8
	outcomes := make([]*outcome, runs)
	each(3, runs, func(i int) { outcomes[i] = s.run(t.Context(), dealt(i, runs, s.disks), in) })
	for _, o := range outcomes {
		t.Logf("%s, %.1f s: %v", o.name, o.took.Seconds(), o.strikes)
		if o.wrong == nil {
			continue
		}
		t.Errorf("%s: %v", o.name, o.wrong)
		logs, _ := filepath.Glob(filepath.Join(s.dir, o.name, "*.log"))
		for _, l := range logs {
			b, _ := os.ReadFile(l)
			t.Logf("%s:\n%s", filepath.Base(l), b)
		}
	}
}

// dealt is a plan of which all together have each kind of fault once.
func dealt(i, of int, disks bool) plan {
	p := draw(uint64(i), disks)
	p.faults = nil
	for k := i; k < len(kinds); k += of {
		if kinds[k].disk && !disks {
			continue
		}
		f := fault{kind: kinds[k], at: time.Duration(k/of+1) * time.Second, worker: k % p.workers, lasts: kinds[k].least, amount: uint64(k) << 20}
		p.faults = append(p.faults, f)
	}
	return p
}

// TestDraw draws plans: the same seed gives the same, all kinds come up, and all
// that is drawn is within bounds.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(500) {
		p := draw(seed, true)
		if !reflect.DeepEqual(p, draw(seed, true)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		for _, f := range p.faults {
			seen[f.kind.name] = true
			if f.at < firstFault || f.at > lastFault || f.lasts < f.kind.least || f.lasts > max(f.kind.least, f.kind.most) || f.worker >= p.workers {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		for _, f := range draw(seed, false).faults {
			if f.kind.disk {
				t.Errorf("seed %d: %v without disks", seed, f)
			}
		}
	}
	for _, k := range kinds {
		if !seen[k.name] {
			t.Errorf("%s never comes up", k.name)
		}
	}
}

// TestCheckOutput has outputs that are right, and wrong in every way that is
// looked for.
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
		dir := t.TempDir()
		for _, files := range []map[string]string{right, change} {
			for file, text := range files {
				path := filepath.Join(dir, file)
				if text == "-" {
					os.Remove(path)
				} else if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := checkOutput(dir, w, in); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestAnswers looks that no job of the runs has an answer that is empty, and that
// the mixes name jobs that there are.
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
				t.Errorf("no job %q", name)
			}
		}
	}
}

// TestExplains has failures judged: only a fault that struck, and of a kind that
// has a job fail so, explains one.
func TestExplains(t *testing.T) {
	at := func(name string, hit bool) strike {
		i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
		return strike{fault: fault{kind: kinds[i]}, hit: hit}
	}
	said := "write spill: no space left on device"
	for _, c := range []struct {
		strikes []strike
		want    bool
	}{
		{nil, false},
		{[]strike{at("disk-full", false)}, false},
		{[]strike{at("disk-full", true)}, true},
		{[]strike{at("worker-kill", true), at("master-kill", true)}, false},
	} {
		o := &outcome{strikes: c.strikes}
		if o.explains(&jobFailed{said: said}) != c.want || o.explains(&jobFailed{said: "checksum mismatch"}) ||
			o.explains(&jobFailed{said: said, published: true}) {
			t.Errorf("%v: %t", c.strikes, !c.want)
		}
		if err := o.judge([]error{&jobFailed{said: said}, nil, fmt.Errorf("has not ended")}); err == nil || strings.Contains(err.Error(), said) == c.want {
			t.Errorf("%v: %v", c.strikes, err)
		}
	}
}
