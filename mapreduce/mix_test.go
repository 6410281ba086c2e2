package mapreduce

import "testing"

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
