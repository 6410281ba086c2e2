package sched_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
)

type color uint8

// everything has a field for each kind of Values.
type everything struct {
	count  int
	share  float64
	gain   float64
	wait   time.Duration
	period time.Duration
	on     bool
	strict bool
	color  color
	word   string
	sizes  []float64
}

func (c *everything) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.count, sched.Int(-1, 9), sched.Param{Name: "count", Default: "3"}),
		sched.Bind(&c.share, sched.Float(0, 1), sched.Param{Name: "share", Default: "0.25"}),
		sched.Bind(&c.gain, sched.PositiveFloat(), sched.Param{Name: "gain", Default: "1.2"}),
		sched.Bind(&c.wait, sched.Or("auto", -1, sched.DurationFrom(0)), sched.Param{Name: "wait", Default: "auto"}),
		sched.Bind(&c.period, sched.PositiveDuration(), sched.Param{Name: "period", Default: "200s"}),
		sched.Bind(&c.on, sched.Bool(), sched.Param{Name: "on", Default: "true"}),
		sched.Bind(&c.strict, sched.Switch("lax", "strict"), sched.Param{Name: "mode", Default: "lax"}),
		sched.Bind(&c.color, sched.Enum[color]("red", "green"), sched.Param{Name: "color", Default: "green"}),
		sched.Bind(&c.word, sched.Word("a", "b", "c"), sched.Param{Name: "word", Default: "b"}),
		sched.Bind(&c.sizes, sched.List("numbers", sched.Float(0, math.Inf(1))), sched.Param{Name: "sizes", Default: "0.3, 0.7"}),
	}
}

func TestBindingsSetDefaultsAndValues(t *testing.T) {
	var c everything
	if err := c.bind().Set(map[string]string{"count": "-1", "wait": "0s", "another": "x"}); err != nil {
		t.Fatal(err)
	}
	if c.count != -1 || c.share != 0.25 || c.wait != 0 || c.period != 200*time.Second || !c.on || c.strict || c.color != 1 ||
		c.word != "b" || fmt.Sprint(c.sizes) != "[0.3 0.7]" {
		t.Errorf("set to %+v", c)
	}
}

// Print writes what Set reads, and Normalize is idempotent.
func TestBindingsRoundTrip(t *testing.T) {
	for _, set := range []map[string]string{nil,
		{"count": "+7", "share": "1e-3", "wait": "90s", "on": "F", "mode": "Strict", "color": "red", "word": "a", "sizes": ""}} {
		var c, d everything
		if err := c.bind().Set(set); err != nil {
			t.Fatal(err)
		}
		printed := c.bind().Print()
		if err := d.bind().Set(printed); err != nil {
			t.Fatal(err)
		}
		if again := d.bind().Print(); !maps.Equal(printed, again) {
			t.Errorf("printed %v, then %v", printed, again)
		}
		for _, p := range d.bind().Params() {
			if text, err := p.Normalize(printed[p.Name]); err != nil || text != printed[p.Name] {
				t.Errorf("%s: %q became %q, %v", p.Name, printed[p.Name], text, err)
			}
		}
	}
}

// Each invalid value is reported with its parameter and the accepted values, and
// no field changes if there is one.
func TestBindingsReportAllErrors(t *testing.T) {
	bad := map[string]string{"count": "10", "share": "NaN", "gain": "0", "wait": "-2s", "period": "0s", "on": "maybe", "mode": "loose",
		"color": "blue", "word": "d", "sizes": "1,x"}
	want := map[string]string{
		"count":  `parameter count: bad value "10": must be a whole number from -1 to 9`,
		"share":  `parameter share: bad value "NaN": must be a number from 0 to 1`,
		"gain":   `parameter gain: bad value "0": must be a number above 0`,
		"wait":   `parameter wait: bad value "-2s": must be auto or a duration of at least 0s, such as 1m30s`,
		"period": `parameter period: bad value "0s": must be a duration above 0, such as 1m30s`,
		"on":     `parameter on: bad value "maybe": must be true or false`,
		"mode":   `parameter mode: bad value "loose": must be lax or strict`,
		"color":  `parameter color: bad value "blue": must be red or green`,
		"word":   `parameter word: bad value "d": must be one of a, b, c`,
		"sizes":  `parameter sizes: bad value "1,x": "x" is not a number of at least 0; must be numbers separated by commas`,
	}
	c := everything{count: 5}
	err := c.bind().Set(bad)
	if err == nil {
		t.Fatal("invalid values were accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d errors, want %d:\n%v", len(lines), len(want), err)
	}
	for name, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: want %q in\n%v", name, text, err)
		}
	}
	if c.count != 5 {
		t.Errorf("a field was set although other values are invalid: %+v", c)
	}
	delete(bad, "count")
	if c.bind().Set(bad) == nil || c.count != 5 {
		t.Error("the valid value was stored although others are invalid")
	}
}

// Build reports unknown names and invalid values of all parts together, before
// it builds the first part.
func TestBuildChecksAllSettingsFirst(t *testing.T) {
	var c everything
	built := false
	g, err := sched.NewRegistry(sched.Table{
		Slots: []sched.Part[sched.Slots]{{Name: "s", Params: c.bind().Params(),
			New: func(*sched.Kit) (sched.Slots, error) { built = true; return nil, nil }}},
		Order: []sched.Part[sched.Order]{{Name: "o", Params: []sched.Param{
			sched.Bind(new(int), sched.Int(0, 1), sched.Param{Name: "users", Default: "0"}).Param,
		}}},
		Place:     []sched.Part[sched.Place]{{Name: "p"}},
		Speculate: []sched.Part[sched.Speculate]{{Name: "c"}},
		Policies:  []sched.Row{{Name: "all", Slots: "s", Order: "o", Place: "p", Speculate: "c"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Build("all", sched.Options{Set: map[string]string{"count": "x", "users": "2", "colour": "red"}})
	if err == nil || built {
		t.Fatalf("error %v, built %t", err, built)
	}
	for _, part := range []string{`s: parameter count: bad value "x"`, `o: parameter users: bad value "2": must be a whole number from 0 to 1`,
		`unknown parameter of all "colour"; did you mean "color"?`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want %q in\n%v", part, err)
		}
	}
}

// The parameters of a policy, declared once and bound to the fields of its
// configuration.
func ExampleBindings() {
	var c struct {
		Lag time.Duration
		Cap float64
	}
	params := sched.Bindings{
		sched.Bind(&c.Lag, sched.DurationFrom(0), sched.Param{Name: "lag", Default: "1m",
			Help: "How long an attempt must have run before it may be copied."}),
		sched.Bind(&c.Cap, sched.Float(0, 1), sched.Param{Name: "cap", Default: "0.1",
			Help: "The share of a job's running tasks that may be copied."}),
	}
	fmt.Println(params.Set(map[string]string{"cap": "0.5"}), c.Lag, c.Cap)
	fmt.Println(params.Set(map[string]string{"cap": "2", "lag": "soon"}))
	// Output:
	// <nil> 1m0s 0.5
	// parameter lag: bad value "soon": must be a duration of at least 0s, such as 1m30s
	// parameter cap: bad value "2": must be a number from 0 to 1
}
