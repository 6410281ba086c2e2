package main

import (
	"bytes"
	"io"
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
	if err := run(t.Context(), []string{"-jobs", "0"}, &out, io.Discard); err == nil {
		t.Error("no error for 0 jobs")
	}
}
