package world

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/virtual/sim"
)

func TestRead(t *testing.T) {
	got, err := Read("w.yaml", strings.NewReader(`
base: hadoop-1.2-reuse
heartbeat: fixed:1s
failure-rate: 0.02
shuffle-share: 0
replicas: 0
sort-memory: 100MB
straggler:
  probability: 0.05
  factor: 4
overheads:
  setup: 2s
crashes:
  - {node: 3, at: 60s, return: 2m}
stops:
  - {node: 2, at: 30s, until: 90s}
slow:
  - node: 1
    factor: 2.5
background:
  - {at: 5s, share: 0.5}
  - {at: 9s, share: 0, node: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := sim.ModelConfig{Heartbeat: "fixed:1s", ProgressEvery: 3 * time.Second, FailureRate: 0.02, ShuffleShare: -1, Contention: true, Replicas: -1, SortMemory: 100e6,
		Straggler: sim.Straggler{Probability: 0.05, Factor: 4}, Overheads: sim.Hadoop121(true), Outliers: true, Distance: sim.Distance{NIC: 125e6, Oversubscription: 5},
		Crashes: []sim.Crash{{Node: 2, At: time.Minute, Return: 2 * time.Minute}}, Stops: []sim.Stop{{Node: 1, At: 30 * time.Second, Until: 90 * time.Second}}, Slow: []sim.Slow{{Node: 0, Factor: 2.5}},
		Background: []sim.Background{{At: 5 * time.Second, Node: -1, Share: 0.5}, {At: 9 * time.Second, Node: 1}}}
	want.Overheads.Setup = 2 * time.Second
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Every error names the file, the line and the parameter.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "w.yaml: is empty",
		"[1]":                                 "w.yaml:1: world: should be a mapping",
		"a: b: c":                             "w.yaml: yaml:",
		"failure-rat: 1":                      `w.yaml:1: failure-rat: unknown parameter; did you mean "failure-rate"?`,
		"mtbf: 1h\nfailure-rate: 1":           `w.yaml:2: failure-rate: "1" must be a number from 0`,
		"distance: {oversubscription: 0.5}":   "distance.oversubscription: \"0.5\" must be 0, or at least 1",
		"distance: {nic: fast}":               "distance.nic: \"fast\"",
		"failure-rate: nan":                   `"nan" must be a number`,
		"mtbf: -1s":                           `mtbf: "-1s" must be from 0s to`,
		"mtbf: 1h\nmtbf: 1h":                  "w.yaml:2: mtbf: is here twice",
		"base: hadop-1.2":                     `w.yaml:1: base: hadop-1.2: unknown world; did you mean "hadoop-1.2"?`,
		"straggler: 5":                        `straggler: unknown parameter`,
		"straggler: {speed: 5}":               "straggler.speed: unknown parameter",
		"mtbf: [1h]":                          "mtbf: should be a single value",
		"crashes: 5":                          "crashes: should be a list",
		"crashes: [5]":                        "crashes: each entry should be a mapping",
		"crashes: [{node: 0}]":                `crashes: node: "0" must be a whole number from 1`,
		"crashes: [{nod: 1}]":                 `nod: unknown key; did you mean "node"?`,
		"stops: [{node: 1, at: soon}]":        `stops: at: "soon" is no time`,
		"background: [{at: 1s, share: 1}]":    `share: "1" must be a number from 0 to 0.99`,
		"background: [{at: 1s, node: 0}]":     `node: "0" must be a whole number from 1`,
		"slow: [{node: 1, factor: 0}]":        `factor: "0" must be a number`,
		"heartbeat: often":                    `unknown heartbeat "often"`,
		"aligned: perhaps":                    `aligned: "perhaps" is not one of its values`,
		"# " + strings.Repeat("x", maxFile+1): "has more than",
	} {
		if _, err := Read("w.yaml", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if err := Set(&sim.ModelConfig{}, "crashes", "1"); err == nil || !strings.Contains(err.Error(), "only a world file") {
		t.Errorf("a list by itself: %v", err)
	}
}

// A parameter that is set to its shown value does not change the world, and one that is
// set shows its value.
func TestKeys(t *testing.T) {
	for _, w := range Worlds() {
		for _, k := range Keys() {
			m := w.Model()
			before := k.Show(m)
			if err := Set(&m, k.Name, before); err != nil {
				t.Errorf("%s: %s: the shown value %q: %v", w.Name, k.Name, before, err)
			} else if after := k.Show(m); after != before {
				t.Errorf("%s: %s: set to %q, shows %q", w.Name, k.Name, before, after)
			}
		}
	}
	for name, value := range map[string]string{"shuffle-share": "0", "replicas": "0", "overheads.kill-beats": "3", "straggler.factor": "2", "mtbf": "1h0m0s", "sort-memory": "5000"} {
		m := sim.ModelConfig{}
		if err := Set(&m, name, value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, k := range Keys() {
			if got := k.Show(m); k.Name == name && got != value {
				t.Errorf("%s: set to %s, shows %s", name, value, got)
			}
		}
	}
}

// The page describes every parameter and every world. SLOTWISE_REWRITE=1 writes it.
func TestPage(t *testing.T) {
	const page, begin, end = "../../../docs/formats/world.md", "<!-- generated: parameters -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks its marks", page)
	}
	var out strings.Builder
	out.WriteString("| parameter | values | default | what |\n|---|---|---|---|\n")
	for _, k := range Keys() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", k.Name, k.Values, k.Show(slotwise()), k.Help)
	}
	out.WriteString("\n| world | what |\n|---|---|\n")
	for _, w := range Worlds() {
		fmt.Fprintf(&out, "| `%s` | %s |\n", w.Name, w.Help)
	}
	want := head + begin + out.String() + end + tail
	if want == string(b) {
		return
	}
	if os.Getenv("SLOTWISE_REWRITE") == "" {
		t.Fatalf("%s differs from the table of keys; SLOTWISE_REWRITE=1 go test ./internal/virtual/world writes it", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Whatever the file holds, Read returns an error or a world.
func FuzzRead(f *testing.F) {
	f.Add("base: ideal\nmtbf: 1h\ncrashes: [{node: 1, at: 5s}]\n")
	f.Add("&a a: *a")
	f.Add("overheads: {setup: 1s, <<: {cleanup: 2s}}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Read("w.yaml", strings.NewReader(text))
		if err == nil {
			for _, k := range Keys() {
				k.Show(m)
			}
		}
	})
}
