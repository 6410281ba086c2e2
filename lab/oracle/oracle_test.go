package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/policies"
)

// Every recorded scenario is decided as Hadoop 1.2.1 decided it: the same
// assignments, preemptions and ends, and shares to six digits.
func TestRecordedScenarios(t *testing.T) {
	scripts, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(scripts) != 34 {
		t.Fatalf("%d scenarios, want 34: %v", len(scripts), err)
	}
	known := policies.Names()
	for _, path := range scripts {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "c") && !slices.Contains(known, "capacity") {
				t.Skip("there is no policy capacity")
			}
			want, err := os.ReadFile(filepath.Join("testdata", "golden", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := replayFile(&got, path); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
				t.Errorf("decided differently (- Hadoop, + here):\n%s", d)
			}
		})
	}
}

// Some scripts contain assertions of Hadoop's own tests beside the heartbeats. The
// recordings must agree with them, so that a wrong recording is noticed.
func TestRecordingsAgreeWithHadoopsTests(t *testing.T) {
	scripts, _ := filepath.Glob("testdata/scenarios/h*.txt")
	checked := 0
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := replayFile(&out, path); err != nil {
			t.Fatal(err)
		}
		beats := beatsOf(out.String())
		beat := -1
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "heartbeat") {
				beat++
			}
			if want, ok := strings.CutPrefix(line, "#expect "); ok {
				checked++
				if beats[beat] != want {
					t.Errorf("%s: heartbeat %d gave %q, Hadoop's test wants %q", path, beat, beats[beat], want)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d assertions found", checked)
	}
}

// beatsOf returns the assignments of each heartbeat without levels.
func beatsOf(out string) (beats []string) {
	for _, line := range strings.Split(out, "\n") {
		if _, given, ok := strings.Cut(line, " : "); ok && strings.HasPrefix(line, "hb ") {
			words := strings.Fields(given)
			for i, w := range words {
				words[i], _, _ = strings.Cut(w, "/")
			}
			beats = append(beats, strings.Join(words, " "))
		}
	}
	return beats
}

func TestBadScripts(t *testing.T) {
	start := "scheduler fifo\ntracker t maps=1\nstart\n"
	for name, c := range map[string][2]string{
		"no scheduler":       {"start", "unknown scheduler"},
		"unknown scheduler":  {"scheduler best\nstart", "unknown scheduler"},
		"early command":      {"heartbeat t", "before start"},
		"late command":       {start + "tracker t2", "after start"},
		"no argument":        {start + "heartbeat", "missing"},
		"bad number":         {start + "job j maps=x", "invalid syntax"},
		"bad priority":       {start + "job j maps=1 priority=URGENT", "bad priority"},
		"no such job":        {start + "finish t j9_m_0", "bad task"},
		"bad advance":        {start + "advance x", "invalid syntax"},
		"rejected job":       {start + "job j maps=1 slowstart=2", "slow-start"},
		"bad property":       {"scheduler fair\nset mapred.fairscheduler.update.interval x\nstart", "milliseconds"},
		"line is named":      {start + "nonsense x", "line 4"},
		"bad pool":           {"scheduler fair\npool p weight=0\nstart", "above 0"},
		"bad change":         {start + "priority j", "bad priority"},
		"a word is missing":  {start + "finish t", "a tracker and a task are required"},
		"word before start":  {"scheduler", "missing"},
		"scheduler too late": {start + "scheduler fair", "after start"},
	} {
		var out bytes.Buffer
		if err := replay(&out, strings.NewReader(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: error %v, want %q", name, err, c[1])
		}
	}
}
