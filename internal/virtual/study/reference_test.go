package study

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/policies"
)

// No policy beats the lower bounds, neither with the makespan nor with any job's response
// time. Copies are off, because a copy draws its duration anew. The learning policies are left
// out: they run more tasks on a node than it has slots. Policy auto has no parts.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	var specs []string
	for _, name := range policies.Names() {
		if !strings.HasPrefix(name, "learning-") && name != "auto" {
			specs = append(specs, name+",speculate=none")
		}
	}
	cfg := config(t, mix, specs...)
	cfg.References, cfg.Reference, cfg.Details = References(), Ideal, true
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.runs {
		if r.err != nil {
			t.Errorf("%s: %v", r.Policy, r.err)
			continue
		}
		if r.report.Makespan < r.draft.bounds.Best() {
			t.Errorf("%s, seed %d: makespan %v, bound %v", r.Policy, r.Seed, r.report.Makespan, r.draft.bounds.Best())
		}
		for i, least := range collect.Ideal(&cfg.Cluster, r.draft.jobs, s.model) {
			if took := r.result.Jobs[i].Ended - r.result.Jobs[i].Submitted; took < least {
				t.Errorf("%s, seed %d, job %d: %v, bound %v", r.Policy, r.Seed, i, took, least)
			}
		}
	}
	all := s.Comparison()
	if len(all.Bound) != 2 || len(all.References) != 10 || all.References[0].Policy != ReferenceNames[RefSRPT] || len(all.Runs) != 2*len(specs) {
		t.Fatalf("%d bounds, %d references, %d runs", len(all.Bound), len(all.References), len(all.Runs))
	}
	fifo := slices.IndexFunc(all.Runs, func(r *collect.Report) bool { return r.Policy == "fifo,speculate=none" })
	for i, srpt := range all.References[:2] { // on many slots srpt is a reference and no bound
		if bound := all.Bound[i].Response.Mean; srpt.Response.Mean < bound || srpt.Response.Mean > 1.1*all.Runs[fifo+i].Response.Mean {
			t.Errorf("mean response: srpt %v, fifo %v, bound %v", srpt.Response.Mean, all.Runs[fifo+i].Response.Mean, bound)
		}
	}
}

// A study with references writes the files of its policies only, and a reference that is not
// possible is left out with a warning.
func TestReferencesOfStudy(t *testing.T) {
	cfg := config(t, mix, "fifo")
	cfg.Seeds, cfg.References, cfg.Details = 1, DefaultReferences(), true
	two := cfg.Cluster.Groups[0]
	two.Count = 1
	cfg.Cluster.Groups = append(cfg.Cluster.Groups, two)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	files, err := OpenFiles(s, out, "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Discard()
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := files.Publish(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := s.Comparison()
	if len(all.References) != 1 || len(all.Warnings) != 1 || !strings.Contains(all.Warnings[0], "static-split is left out: the best static split is for clusters with one group") {
		t.Errorf("%d references, warnings %q", len(all.References), all.Warnings)
	}
	if tables, err := filepath.Glob(filepath.Join(out, "tasks-*.csv")); err != nil || len(tables) != 1 {
		t.Errorf("tables of tasks %q, %v", tables, err)
	}
	text, err := os.ReadFile(filepath.Join(out, "comparison.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"\nsrpt, sizes known ", "\nlower bound "} {
		if !strings.Contains(string(text), name) {
			t.Errorf("no row%qin\n%s", name, text)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(page, []byte("<figure><svg")); n != 4 || !bytes.Contains(page, []byte("srpt, sizes known")) ||
		bytes.Contains(page, []byte("src=\"http")) || bytes.Contains(page, []byte("&lt;svg")) {
		t.Errorf("the page has %d figures, want 4, the comparison, and nothing from elsewhere", n)
	}
	for _, list := range [][]string{{"srpt", "srpt"}, {"none", "bound"}, {"optimum"}} {
		if CheckReferences(list) == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}
