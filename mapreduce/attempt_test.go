package mapreduce

import (
	"errors"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/feature"
)

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
		"quiet": {Name: "quiet", Job: job, NoOutput: true},
		"chain": {Name: "chain", Steps: map[string]func(Params) (*Job, error){"first": job}},
	}
	lookup := func(name string) (*App, error) {
		if a := apps[name]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such app")
	}
	for _, c := range []struct {
		p    *feature.Recipe
		want string
	}{
		{&feature.Recipe{App: "one"}, ""},
		{&feature.Recipe{App: "one", Params: map[string]string{"bad": "1"}}, "bad parameter"},
		{&feature.Recipe{App: "two"}, "no such app"},
		{&feature.Recipe{App: "chain", Step: "first"}, ""},
		{&feature.Recipe{App: "chain"}, "one of its steps must be named"},
		{&feature.Recipe{App: "chain", Step: "second"}, `no step "second"`},
		{&feature.Recipe{Streaming: &feature.Streaming{Mapper: "cat"}}, ""},
		{&feature.Recipe{Streaming: &feature.Streaming{}}, "needs a mapper"},
	} {
		_, err := build(c.p, &Files{}, lookup)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.p, err, c.want)
		}
	}
	for name, a := range apps {
		if p, err := build(&feature.Recipe{App: name}, &Files{}, lookup); err == nil && p.NoOutput != a.NoOutput {
			t.Errorf("%s needs no output: %v", name, p.NoOutput)
		}
	}
	p, err := build(&feature.Recipe{App: "one", Params: map[string]string{"order": "1"}, Cuts: [][]byte{[]byte("g"), []byte("p")}}, &Files{}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a": 0, "g": 1, "o": 1, "z": 2} {
		if got := p.Partition([]byte(key), 3); got != want {
			t.Errorf("%s is in part %d, want %d", key, got, want)
		}
	}
}
