package mapreduce

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestRemoteNames: what a cluster is told are names that mean the same
// everywhere, and a chain's hidden directory lies beside its output.
func TestRemoteNames(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{Remote: &Remote{}}
	for in, want := range map[string]string{
		"a/b": "file://" + here + "/a/b", "/x/y": "file:///x/y", "../z*": "file://" + filepath.Dir(here) + "/z*",
		"file:///q": "file:///q", "hdfs://nn:8020/a": "hdfs://nn:8020/a",
	} {
		if got, err := r.uri(in); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"out": "file://" + here + "/.out.chain-", "out/": "file://" + here + "/.out.chain-", "file:///a/b": "file:///a/.b.chain-",
	} {
		dir, remove, err := r.chainDir(in)
		if err != nil || !strings.HasPrefix(dir, want) || strings.Contains(dir[len(want):], "/") {
			t.Errorf("%s: %s, %v; want %s…", in, dir, err, want)
			continue
		}
		if err := remove(); err != nil {
			t.Errorf("removing what was never made: %v", err)
		}
	}
	r.Detach = true
	if _, _, err := r.chainDir("out"); err == nil {
		t.Error("a chain was detached")
	}
}

// TestRemoteRefuses: a job that no other process can build is not submitted.
func TestRemoteRefuses(t *testing.T) {
	r := &remote{Remote: &Remote{}}
	_, err := r.run(t.Context(), &planned{job: &Job{Name: "mine"}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "mine cannot run on a cluster") {
		t.Errorf("got %v", err)
	}
}

// TestBuild builds jobs as a worker does, of descriptions that fit and that
// don't.
func TestBuild(t *testing.T) {
	job := func(p Params) (*Job, error) {
		if p["bad"] != "" {
			return nil, errors.New("bad parameter")
		}
		return &Job{Name: "j", Mapper: func() Mapper { return nil }, Reducer: SumText, TotalOrder: p["order"] != ""}, nil
	}
	apps := map[string]*App{
		"one":   {Name: "one", Job: job},
		"chain": {Name: "chain", Steps: map[string]func(Params) (*Job, error){"first": job}},
	}
	lookup := func(name string) (*App, error) {
		if a := apps[name]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such app")
	}
	for _, c := range []struct {
		p    *slotwisev1.Program
		want string
	}{
		{&slotwisev1.Program{App: "one"}, ""},
		{&slotwisev1.Program{App: "one", Params: map[string]string{"bad": "1"}}, "bad parameter"},
		{&slotwisev1.Program{App: "two"}, "no such app"},
		{&slotwisev1.Program{App: "chain", Step: "first"}, ""},
		{&slotwisev1.Program{App: "chain"}, "a step is needed"},
		{&slotwisev1.Program{App: "chain", Step: "second"}, `no step "second"`},
		{&slotwisev1.Program{Streaming: &slotwisev1.Streaming{Mapper: "cat"}}, ""},
		{&slotwisev1.Program{Streaming: &slotwisev1.Streaming{}}, "needs a mapper"},
	} {
		_, err := build(c.p, lookup)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.p, err, c.want)
		}
	}
	p, err := build(&slotwisev1.Program{App: "one", Params: map[string]string{"order": "1"}, Cuts: [][]byte{[]byte("g"), []byte("p")}}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a": 0, "g": 1, "o": 1, "z": 2} {
		if got := p.Partition([]byte(key), 3); got != want {
			t.Errorf("%s is in part %d, want %d", key, got, want)
		}
	}
}
