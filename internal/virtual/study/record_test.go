package study

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Each part of a job that a run reads changes the digest of the jobs; a copy does not.
func TestDigestJobs(t *testing.T) {
	jobs := func() []workload.Job {
		return []workload.Job{{Name: "a", Request: job.Request{Pool: "p", SlowStart: 0.5}, Maps: []workload.Task{{Duration: time.Second}, {Input: 7, Hosts: []string{"h"}}}}}
	}
	digest := DigestJobs(jobs())
	if again := DigestJobs(jobs()); again != digest {
		t.Errorf("equal jobs have the digests %s and %s", digest, again)
	}
	for what, change := range map[string]func(j *workload.Job){
		"name":     func(j *workload.Job) { j.Name = "b" },
		"pool":     func(j *workload.Job) { j.Pool = "q" },
		"resident": func(j *workload.Job) { j.Resident = 1 << 30 },
		"cpus":     func(j *workload.Job) { j.TaskCPUs = 2 },
		"submit":   func(j *workload.Job) { j.Submit = 1 },
		"duration": func(j *workload.Job) { j.Maps[0].Duration++ },
		"host":     func(j *workload.Job) { j.Maps[1].Hosts = []string{"i"} },
		"a task":   func(j *workload.Job) { j.Maps = j.Maps[:1] },
	} {
		other := jobs()
		change(&other[0])
		if DigestJobs(other) == digest {
			t.Errorf("another %s has the same digest", what)
		}
	}
}

// The digest of a world depends on its parameters only, and lists them all.
func TestWorldOf(t *testing.T) {
	a, b := WorldOf("x", sim.ModelConfig{FailureRate: 0.1}), WorldOf("y", sim.ModelConfig{FailureRate: 0.1})
	if a.Digest.Digest != b.Digest.Digest || len(a.Values) < 30 {
		t.Errorf("%s and %s, %d values", a.Digest.Digest, b.Digest.Digest, len(a.Values))
	}
	if c := WorldOf("x", sim.ModelConfig{FailureRate: 0.2}); c.Digest.Digest == a.Digest.Digest {
		t.Error("another failure rate has the same digest")
	}
	if WorldOf("x", sim.ModelConfig{Phase: 1<<53 + 1}).Digest == WorldOf("x", sim.ModelConfig{Phase: 1 << 53}).Digest {
		t.Error("two large seeds have the same digest")
	}
}

// A folder counts with the names and contents of its files; a large or binary file has no text.
func TestFileOf(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	small, err := FileOf("study", put("a", "abc"))
	// The SHA-256 of abc, from FIPS 180-2.
	if err != nil || small.Digest != "ba7816bf8f01cfea" || small.Bytes != 3 || small.Text != "abc" || small.Use != "study" {
		t.Errorf("%+v, %v", small, err)
	}
	for name, text := range map[string]string{"large": string(make([]byte, mostText+1)), "binary": "a\xff", "zero": "a\x00"} {
		if f, err := FileOf("workload", put(name, text)); err != nil || f.Text != "" || f.Digest == "" {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	one, err := FileOf("workload", dir)
	if err != nil {
		t.Fatal(err)
	}
	put("a", "abd")
	if two, err := FileOf("workload", dir); err != nil || two.Digest == one.Digest || two.Bytes != one.Bytes {
		t.Errorf("%+v after %+v, %v", two, one, err)
	}
	if _, err := FileOf("workload", filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}
