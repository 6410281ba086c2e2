package sched_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
)

func TestParse(t *testing.T) {
	for _, spec := range []string{"fifo", "slots=static", "fifo,place=greedy", "slots=static,order=fifo,place=greedy,speculate=none"} {
		if p, err := policies.Parse(spec); err != nil || p == nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for spec, want := range map[string]string{
		"fiffo":             `unknown policy "fiffo"; did you mean "fifo"?`,
		"":                  `unknown policy "": must be one of fifo`,
		"zzzzzzzz":          `unknown policy "zzzzzzzz": must be one of fifo`,
		"slots=statik":      `unknown slots "statik"; did you mean "static"?`,
		"fifo,plac=greedy":  `unknown part "plac"; did you mean "place"?`,
		"order=fifo,place=": `unknown place "": must be one of greedy`,
		"speculate=none,,":  `unknown part "": must be one of slots, order, place, speculate`,
		"order=fifo,fifo":   `unknown part "fifo": must be one of slots, order, place, speculate`,
	} {
		if _, err := policies.Parse(spec); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", spec, err, want)
		}
	}
	if _, err := policies.Build("fifo", sched.Options{Set: map[string]string{"x": "1"}}); err == nil {
		t.Error("a setting that nobody has was accepted")
	}
	info, err := policies.Describe("fifo")
	if err != nil || len(info.Parts) != 4 || info.Parts[1].Name != "fifo" || info.Summary == "" {
		t.Errorf("described as %+v, %v", info, err)
	}
	if names := policies.Names(); names[0] != policies.Default {
		t.Errorf("names %v", names)
	}
}

// registry returns one whose slots part has a parameter, cap. Building the part
// stores the parameter's value in got.
func registry(t *testing.T, got *int) *sched.Registry {
	limit := sched.Bindings{sched.Bind(got, sched.Int(0, 9), sched.Param{Name: "cap", Default: "3", Help: "slots"})}
	g, err := sched.NewRegistry(sched.Table{
		Slots: []sched.Part[sched.Slots]{{Name: "static", Params: limit.Params(),
			New: func(k *sched.Kit) (sched.Slots, error) { return &hadoop.Static{}, k.Read(limit) }}},
		Order:     []sched.Part[sched.Order]{{Name: "fifo", New: func(*sched.Kit) (sched.Order, error) { return hadoop.NewFIFO(), nil }}},
		Place:     []sched.Part[sched.Place]{{Name: "greedy", New: func(*sched.Kit) (sched.Place, error) { return &hadoop.Greedy{}, nil }}},
		Speculate: []sched.Part[sched.Speculate]{{Name: "none", New: func(*sched.Kit) (sched.Speculate, error) { return &hadoop.None{}, nil }}},
		Policies: []sched.Row{
			{Name: "a", Slots: "static", Order: "fifo", Place: "greedy", Speculate: "none"},
			{Name: "whole", New: func(*sched.Kit) (sched.Policy, error) { return nil, nil }},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSettings(t *testing.T) {
	var got int
	g := registry(t, &got)
	if _, err := g.Build("a", sched.Options{}); err != nil || got != 3 {
		t.Errorf("default: %d, %v", got, err)
	}
	if _, err := g.Build("a", sched.Options{Set: map[string]string{"cap": "7"}}); err != nil || got != 7 {
		t.Errorf("set: %d, %v", got, err)
	}
	if _, err := g.Build("a", sched.Options{Set: map[string]string{"cap": "x"}}); err == nil || !strings.Contains(err.Error(), "static: parameter cap") {
		t.Errorf("bad value: %v", err)
	}
	if _, err := g.Build("a", sched.Options{Set: map[string]string{"capp": "1"}}); err == nil || !strings.Contains(err.Error(), `did you mean "cap"`) {
		t.Errorf("unknown setting: %v", err)
	}
}

func TestRegistryRefuses(t *testing.T) {
	var got int
	g := registry(t, &got)
	wrong := sched.Bind(&got, sched.Int(0, 9), sched.Param{Name: "cap", Default: "10"}).Param
	places := func(names ...string) (t sched.Table) {
		for _, name := range names {
			t.Place = append(t.Place, sched.Part[sched.Place]{Name: name})
		}
		return t
	}
	policy := func(name, order string) sched.Table {
		return sched.Table{Policies: []sched.Row{{Name: name, Slots: "static", Order: order, Place: "greedy", Speculate: "none"}}}
	}
	for _, c := range []struct {
		table sched.Table
		want  string
	}{
		{policy("a", "fifo"), `policy "a" exists already; choose another name`},
		{places("greedy"), `place "greedy" exists already; choose another name`},
		{places("x", "x"), `place "x" exists already; choose another name`},
		{places(""), `place "": a name must not be empty or contain commas, equals signs or spaces`},
		{places("a,b"), `place "a,b": a name must not be empty or contain commas, equals signs or spaces`},
		{sched.Table{Place: []sched.Part[sched.Place]{{Name: "x", Params: []sched.Param{wrong}}}},
			`place "x": default: parameter cap: bad value "10": must be a whole number from 0 to 9`},
		{policy("b", "fiffo"), `policy "b": unknown order "fiffo"; did you mean "fifo"?`},
	} {
		if _, err := g.With(c.table); err == nil || err.Error() != c.want {
			t.Errorf("got error %v, want %s", err, c.want)
		}
	}
	more, err := g.With(policy("b", "fifo"), policy("c", "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := more.Names(), []string{"a", "whole", "b", "c"}; !slices.Equal(got, want) || len(g.Names()) != 2 {
		t.Errorf("extended to %v, want %v; the original has %v", got, want, g.Names())
	}
	if _, err := g.Build("whole,place=greedy", sched.Options{}); err == nil {
		t.Error("a part of an undivided policy was replaced")
	}
	if info, err := g.Describe("whole"); err != nil || len(info.Parts) != 1 {
		t.Errorf("described as %+v, %v", info, err)
	}
}

// Values of a row replace the defaults of its parts' parameters. The user's values win, and a
// policy that begins with a part takes nothing from a row.
func TestRowSet(t *testing.T) {
	var got int
	row := func(set map[string]string) sched.Table {
		return sched.Table{Policies: []sched.Row{{Name: "b", Slots: "static", Order: "fifo", Place: "greedy", Speculate: "none", Set: set}}}
	}
	g, err := registry(t, &got).With(row(map[string]string{"cap": "5"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		set  map[string]string
		want int
	}{{"b", nil, 5}, {"b", map[string]string{"cap": "7"}, 7}, {"b,order=fifo", nil, 5}, {"a", nil, 3}, {"slots=static", nil, 3}} {
		if _, err := g.Build(c.spec, sched.Options{Set: c.set}); err != nil || got != c.want {
			t.Errorf("%s %v: %d, %v, want %d", c.spec, c.set, got, err, c.want)
		}
	}
	if info, err := g.Describe("b"); err != nil || info.Parts[0].Params[0].Default != "5" {
		t.Errorf("described as %+v, %v", info, err)
	}
	for value, want := range map[string]string{"10": `policy "b": static: parameter cap: bad value "10"`, "x": "must be a whole number"} {
		if _, err := registry(t, &got).With(row(map[string]string{"cap": value})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, err := registry(t, &got).With(row(map[string]string{"capp": "1"})); err == nil || !strings.Contains(err.Error(), `did you mean "cap"`) {
		t.Errorf("an unknown parameter: %v", err)
	}
}
