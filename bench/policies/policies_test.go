package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/sched"
)

// Every policy is known, has the settings that it is given, and every file of
// jobs is YAML.
func TestMixes(t *testing.T) {
	for _, m := range everyMix(&inputs{dir: "data"}) {
		var file struct{ Jobs []map[string]any }
		if err := yaml.Unmarshal([]byte(m.jobs), &file); err != nil || len(file.Jobs) == 0 {
			t.Errorf("%s: %d jobs, %v", m.name, len(file.Jobs), err)
		}
		if m.workers() == 0 || len(m.ways) < 2 {
			t.Errorf("%s: %d workers, %d ways", m.name, m.workers(), len(m.ways))
		}
		for _, w := range m.ways {
			name, set := "", map[string]string{}
			for i := 0; i+1 < len(w.flags); i += 2 {
				switch w.flags[i] {
				case "--policy":
					name = w.flags[i+1]
				case "--policy-set":
					k, v, _ := strings.Cut(w.flags[i+1], "=")
					set[k] = v
				}
			}
			if _, err := policies.Build(name, sched.Options{Set: set}); err != nil {
				t.Errorf("%s: %s: %v", m.name, w.name, err)
			}
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{nil, 0.5, 0}, {[]float64{3}, 0.95, 3}, {[]float64{4, 1, 2, 3}, 0.5, 2.5}, {[]float64{0, 10}, 0.95, 9.5}, {[]float64{2, 1}, 1, 2}} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

// Each line of the list of pages is one split, whatever the port of the server.
func TestURLsAreOneASplit(t *testing.T) {
	for _, server := range []string{"http://127.0.0.1:8080", "http://127.0.0.1:54321"} {
		name := filepath.Join(t.TempDir(), "urls")
		if err := writeURLs(name, server); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil || len(data) != 40*pageCount {
			t.Errorf("%s: %d bytes, %v", server, len(data), err)
		}
	}
}
