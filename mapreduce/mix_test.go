package mapreduce

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
)

// The name that a user gives a job is the job's, in every way of running it.
func TestNames(t *testing.T) {
	sleep := func(name string) func(Params) (*Job, error) {
		return func(Params) (*Job, error) {
			return &Job{Name: name, Synthetic: 1, Mapper: func() Mapper { return mapNothing{} }}, nil
		}
	}
	one := &App{Name: "one", Job: sleep("one")}
	chain := &App{
		Name: "chain", Steps: map[string]func(Params) (*Job, error){"first": sleep("first")},
		Chain: func(ctx context.Context, c *Chain) error { return c.Step(ctx, "first", nil, nil, c.Output()) },
	}
	for _, c := range []struct {
		app        *App
		name, want string
	}{{one, "", "one"}, {one, "mine", "mine"}, {chain, "", "first"}, {chain, "mine", "mine/first"}} {
		r, err := RunApp(t.Context(), c.app, nil, Options{Name: c.name, Output: filepath.Join(t.TempDir(), "out")})
		if err != nil || r[0].Job != c.want {
			t.Errorf("%s named %q: %v %v, want %s", c.app.Name, c.name, r, err, c.want)
		}
	}
	r, err := RunMix(t.Context(), []MixJob{{Name: "a", App: one}, {App: one, Options: Options{Name: "b"}}, {Name: "c", App: chain}}, MixOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range r.Jobs {
		got = append(got, e.Results[0].Job)
	}
	if want := []string{"a", "b", "c/first"}; !slices.Equal(got, want) {
		t.Errorf("the jobs of the mix are named %q, want %q", got, want)
	}
}

// mapNothing is a Mapper that emits nothing.
type mapNothing struct{}

func (mapNothing) Map(_, _ []byte, _ *Emitter) error { return nil }

func TestAloneRunsAreShared(t *testing.T) {
	app := &App{Name: "grep"}
	measured := []MixJob{{Name: "grep", App: app, Params: Params{"pattern": "a"}, Options: Options{Inputs: []string{"small"}}}}
	for i, c := range []struct {
		change func(*MixJob)
		want   int
	}{
		{func(*MixJob) {}, 0},
		{func(j *MixJob) { j.Delay, j.Options.Pool = 1, "nightly" }, 0},
		{func(j *MixJob) { j.Params = Params{"pattern": "b"} }, -1},
		{func(j *MixJob) { j.Options.Inputs = []string{"large"} }, -1},
		{func(j *MixJob) { j.Options.NamedInputs = map[string][]string{"left": {"large"}} }, -1},
		{func(j *MixJob) { j.Options.Exclude = []string{"a*"} }, -1},
	} {
		j := measured[0]
		c.change(&j)
		if got := indexSame(measured, &j); got != c.want {
			t.Errorf("case %d: the entry shares the run of %d, want %d", i, got, c.want)
		}
	}
}
