package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestExpectedEnd asks in every place that shows when a job is expected to end: jobs, job, explain,
// top, submit --wait, JSON, and the console.
func TestExpectedEnd(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1", "--map-slots", "2")
	waiting := c.Start("submit --wait", "submit", "--wait", "--master", c.URL, "sleep", "--param", "maps=5000x200ms", "--output", "out")
	shown := map[string]*regexp.Regexp{}
	for command, pattern := range map[string]string{
		"jobs":               `j1 +sleep .* running .* \d.* \(.* to .*\)`,
		"top":                `j1 +sleep .* running .* \d.* \(.* to .*\)`,
		"job j1":             `expected end:? +in .*, 8 of 10 times between \d\d:\d\d:\d\d and \d\d:\d\d:\d\d`,
		"explain j1":         `expected end: in .*, 8 of 10 times between \d\d:\d\d:\d\d and \d\d:\d\d:\d\d`,
		"jobs -o json":       `"end_ms":[1-9]\d+`,
		"job j1 -o json":     `"end_ms":[1-9]\d+`,
		"explain j1 -o json": `"end_ms":[1-9]\d+`,
		"top -o json":        `"end_ms":[1-9]\d+`,
	} {
		shown[command] = regexp.MustCompile(pattern)
	}
	for command, want := range shown {
		var out string
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: %.2000s", command, out)
			}
		})
		clustertest.Eventually(t, "the expected end in "+command, func() bool {
			_, out = c.Run(append(strings.Fields(command), "--master", c.URL)...)
			return want.MatchString(out)
		})
	}
	waiting.Says("ends in ")
	for path, pattern := range map[string]string{"/ui/": `in \d.* \(.* to .*\)`, "/ui/jobs": `in \d.* \(.* to .*\)`, "/ui/jobs/j1": `(?s)Expected end \(8 of 10 chances\).{0,80}in \d.*Basis of the forecast`, "/ui/jobs?format=json": `"end": [1-9]\d+`} {
		want := regexp.MustCompile(pattern)
		clustertest.Eventually(t, "the expected end in "+path, func() bool {
			_, body := c.visit().get(path)
			return want.MatchString(body)
		})
	}
	if status, out := c.Run("kill", "j1", "--master", c.URL); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	waiting.Ends()
}
