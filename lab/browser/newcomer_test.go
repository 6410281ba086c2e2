package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNewcomer answers five questions from the overview of a running cluster, by links alone. Each takes two
// clicks at most and less than a minute.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--heartbeat", "200ms") // fifo: jobs wait for others
	for _, w := range []string{"w1", "w2"} {
		c.StartWorker(w, "--map-slots", "2")
	}
	c.Words("in/a.txt", 2_000)
	fails := c.Write("fails.sh", "#!/bin/sh\necho this job always fails >&2\nexit 3\n")
	c.Submit("--mapper", "./fails.sh", "--reducer", "cat", "--file", fails, "--input", "in", "--output", "none", "--reduces", "1")
	if status, out := c.Submit("sleep", "--name", "naps", "--param", "maps=8x1s", "--output", "naps"); status != 0 { // the forecasts know its times
		t.Fatalf("status %d: %s", status, out)
	}
	for i := range 6 { // j3 to j8
		if status, out := c.Run("submit", "--master", c.URL, "sleep", "--name", fmt.Sprint("naps-", i), "--param", "maps=200x1s", "--output", fmt.Sprint("naps", i)); status != 0 {
			t.Fatalf("status %d: %s", status, out)
		}
	}
	if status, out := c.Run("nodes", "drain", "w2", "--master", c.URL); status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	b := newChrome(t, c.URL)
	text := func(selector, want string) string {
		return fmt.Sprintf(`document.body.dataset.ready === "1" && [...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && /%s/.test(e.textContent))`, selector, want)
	}
	for _, q := range []struct {
		question string
		clicks   []string
		answer   string
	}{
		{"why does j7 wait", []string{`#queue a[href="/ui/jobs/j7"]`}, text("#summary .sentence", "^Waits because: ")},
		{"what failed", []string{`#attention a[href="/ui/jobs/j1"]`}, text("#failure pre", "this job always fails")},
		{"when is it done", nil, text("#queue td", "ends in [0-9]")},
		{"which node is ill", nil, text("#attention tr", "w2.*drain")},
		{"what would more nodes bring", []string{`#queue a[href="/ui/whatif?nodes=2"]`}, text("#preview td", " earlier")},
	} {
		if len(q.clicks) > 2 {
			t.Errorf("%s: %d clicks", q.question, len(q.clicks))
		}
		start := time.Now()
		b.open("/ui/")
		for _, link := range q.clicks {
			// In one step, because the page replaces its parts every second, and with them the link.
			b.until(q.question+": the link "+link, fmt.Sprintf(`((e) => e !== null && e.checkVisibility() && (e.click(), true))(document.querySelector(%q))`, link))
		}
		b.until(q.question, q.answer)
		t.Logf("%s: %d clicks, %v, at %s", q.question, len(q.clicks), time.Since(start).Round(10*time.Millisecond), strings.TrimPrefix(eval[string](b, "location.href"), c.URL))
	}
}
