package jobmix

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// large matches numbers from which a mix could make a large number of jobs or tasks.
var large = regexp.MustCompile(`[0-9]{4}|[0-9][eE]|[TGPM]i?B|h`)

// FuzzPrograms makes the programs of any jobs file. It must not panic, and makes a job
// for each drawn one, or an error that names the file.
func FuzzPrograms(f *testing.F) {
	for _, text := range []string{
		"jobs:\n  - {name: words, app: wordcount, input: in, output: out, reduces: 3, split-size: 64MB, user: ann}\n",
		"jobs:\n  - {mapper: cat, reducer: sort, input: in, output: o, repeat: 2, every: 3s}\n  - {name: nap, maps: 2, map-time: 5s, reduces: [{time: 1s}]}\n",
		"jobs: [{app: terasort, input: a, output: b, params: {k: v}}]\nswap: [{at: 1s, policy: fair}]\n", "", "jobs:", "\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if large.MatchString(text) {
			return
		}
		m, err := workload.ReadMix("f", strings.NewReader(text))
		if err != nil {
			return
		}
		jobs, _, err := Programs(m, 1, apps.Lookup, io.Discard)
		if err != nil {
			return
		}
		PlaceOutputs(jobs, "out")
		CheckSubmit(jobs, true)
		if drawn, err := m.Draw(1); err != nil || len(drawn) != len(jobs) {
			t.Errorf("%d jobs of %d: %v", len(jobs), len(drawn), err)
		}
	})
}
