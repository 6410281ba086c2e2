package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoisyMix measures a few jobs, and checks that most have an answer.
func TestNoisyMix(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-only", "noisy mix fifo", "-jobs", "6", "-futures", "5"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "| noisy mix | fifo | 6 |") || strings.Contains(text, "NaN") {
		t.Errorf("table:\n%s", text)
	}
	for _, bad := range [][]string{{"-jobs", "0"}, {"-live", "1m", "-workers", "0"}, {"-live", "1m", "-every", "0s"}} {
		if err := run(t.Context(), bad, &out, io.Discard); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// TestSleeping measures jobs of the mix of -live in simulation, and checks that each answer is written.
func TestSleeping(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.csv")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-only", "seed 101", "-jobs", "8", "-futures", "3", "-answers", file}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	answers, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(answers); !strings.HasPrefix(text, detailHead+"\n") || strings.Count(text, "\n") < 4 || strings.Contains(text, "%!") {
		t.Errorf("answers:\n%s", text)
	}
}
