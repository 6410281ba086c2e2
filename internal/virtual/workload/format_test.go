package workload

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	texts := map[string]string{"mix": twoClasses, "swim": swimRows, "rumen": rumenJobs, "synth": synthText,
		"hadoop": historyLog, "spark": sparkLog, "google": googleRows, "alibaba": alibabaTasks[strings.Index(alibabaTasks, "task_"):], "sls": `{"job.tasks": [{"container.type": "map", "duration.ms": 1}]}`}
	for _, f := range Formats() {
		if f[0] == PastFormat {
			continue // another package opens it, and its test reads one
		}
		s, err := Read(f[0], "f", strings.NewReader(texts[f[0]]), Options{Trace: TraceOptions{Limit: 1}})
		if err != nil {
			t.Errorf("%s: %v", f[0], err)
			continue
		}
		jobs := jobsOf(t, s, 1)
		if _, trace := s.(*Trace); len(jobs) == 0 || trace && len(jobs) != 1 {
			t.Errorf("%s: %d jobs", f[0], len(jobs))
		}
		if s, err := Read(f[0], "f", strings.NewReader("{"), Options{}); err == nil || s != nil {
			t.Errorf("%s: %v, %v of nonsense", f[0], s, err)
		}
	}
	_, err := Read("csv", "f", strings.NewReader(""), Options{})
	wantError(t, err, `f: unknown format "csv"`)
}

func TestSplitSpec(t *testing.T) {
	for spec, want := range map[string][2]string{
		"mix.yaml":          {"mix", "mix.yaml"},
		"swim:a/day.tsv":    {"swim", "a/day.tsv"},
		"rumen:a:b.json":    {"rumen", "a:b.json"},
		"mix:sls:odd.yaml":  {"mix", "sls:odd.yaml"},
		`C:\jobs\mix.yaml`:  {"mix", `C:\jobs\mix.yaml`},
		"unknown:file.yaml": {"mix", "unknown:file.yaml"},
	} {
		if f, file := SplitSpec(spec); f != want[0] || file != want[1] {
			t.Errorf("%s is %s of format %s", spec, file, f)
		}
	}
}
