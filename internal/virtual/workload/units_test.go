package workload

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "12": 12, "1.5KiB": 1536, "2kB": 2000, "3 MB": 3e6, "64MiB": 64 << 20,
		"10GB": 1e10, "1GiB": 1 << 30, "2TB": 2e12, "1TiB": 1 << 40, "1PiB": 1 << 50, "7B": 7} {
		if got, err := ParseBytes(text); got != want || err != nil {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]float64{"8kbit": 1000, "1Gbit/s": 1.25e8, "100Mbit": 1.25e7, "5MB/s": 5e6} {
		if got, err := ParseRate(text); got != want || err != nil {
			t.Errorf("%s is %g, %v; want %g", text, got, err, want)
		}
	}
	for text, want := range map[string]time.Duration{"2.5": 2500 * time.Millisecond, "1h30m": 90 * time.Minute, "0": 0} {
		if got, err := parseTime(text); got != want || err != nil {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1s", "-1", "NaN", "Inf", "20y", "100000h", "1e300"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestMeans(t *testing.T) {
	for _, d := range []Dist{Fixed(3), {Shape: Uniform, A: 1, B: 5}, {Shape: Table, Values: []float64{1, 2, 6}}, {Shape: Exponential, A: 3}} {
		if got := d.Mean(); got != 3 {
			t.Errorf("%+v: mean %g", d, got)
		}
	}
}

// TestManyErrors: for a file with many errors, ReadMix reports the first
// maxErrors and the number of the others.
func TestManyErrors(t *testing.T) {
	_, err := ReadMix("f", strings.NewReader(strings.Repeat("x: 1\n", 26)+"jobs: 1\n"))
	if err == nil || strings.Count(err.Error(), "\n") != maxErrors {
		t.Fatalf("not %d errors and a summary: %v", maxErrors, err)
	}
	wantError(t, err, fmt.Sprintf("f: and %d more errors", 27-maxErrors))
}

// TestKnownProfiles: profiles in the file take precedence over the caller's,
// and hints of a class over hints of a profile.
func TestKnownProfiles(t *testing.T) {
	known := []Profile{{App: "a", MapCPU: 1}, {App: "b", MapCPU: 2}}
	known[1].Hints[0].CPU = 7
	m, err := ReadMix("f", strings.NewReader(`
profiles: [{app: a, map-cpu: 3, map-selectivity: 1, reduce-cpu: 1, reduce-selectivity: 1}]
classes:
  - {name: a, count: 1, app: a, maps: 1, hints: {map: [1, 2, 3, 4]}}
  - {name: b, count: 1, app: b, maps: 1}
`), known...)
	if err != nil {
		t.Fatal(err)
	}
	jobs := jobsOf(t, m, 1)
	if m.Classes[0].Profile.MapCPU != 3 || m.Classes[1].Profile.MapCPU != 2 || jobs[0].Hints[0].Network != 4 || jobs[1].Hints[0].CPU != 7 {
		t.Errorf("%+v\n%+v", m.Classes, jobs)
	}
	const p = "{app: a, map-cpu: 3, map-selectivity: 1, reduce-cpu: 1, reduce-selectivity: 1}"
	for text, want := range map[string]string{
		"profiles: [" + p + ", " + p + "]": `f:1: a second profile of app "a"`,
		"other: 1":                         `no key "profiles"`,
		"profiles: [3]":                    "f:1: profile: should be a mapping",
		"profiles: [{map-cpu: -1}]":        "profile: has no app",
	} {
		_, err := ReadProfiles("f", strings.NewReader(text))
		wantError(t, err, want)
	}
}

// Small things that decide much.
func TestDetails(t *testing.T) {
	trace, err := ReadSWIM("t", strings.NewReader("a\t9\t0\t1\t1\t1\nb\t8\t0\t1\t1\t1\nc\t7\t0\t1\t1\t1\n"), SWIMOptions{DataScale: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Warnings) != 1 || !strings.HasPrefix(trace.Warnings[0], "t:2: ") || !strings.Contains(trace.Warnings[0], "2 such jobs") {
		t.Errorf("warnings %q", trace.Warnings)
	}
	if len(trace.List[0].Reduces) != 1 {
		t.Error("scaling took a job's reduces away")
	}
	for _, name := range []string{"modfair-a-6-5", "modfair-example"} {
		if j := generated(t, name, 1)[0]; j.SlowStart != 1 {
			t.Errorf("%s: slow start %g", name, j.SlowStart)
		}
	}
	two, err := ReadSynth("y", strings.NewReader(strings.Replace(synthText, `"rand_seed": 2`, `"rand_seed": 3`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	one, err := ReadSynth("y", strings.NewReader(synthText))
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(jobsOf(t, one, 1), jobsOf(t, two, 1)) {
		t.Error("rand_seed decides nothing")
	}
}
