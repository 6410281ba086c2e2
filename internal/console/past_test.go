package console

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/pages"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// untried is a fake in which only the first job has attempts.
type untried struct{ *fake }

func (u untried) Attempts(ctx context.Context, id string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	if id != "j1" {
		return nil, nil, nil
	}
	return u.fake.Attempts(ctx, id)
}

// TestCompareWithoutAttempts compares a job that succeeded with one that never began. The
// page must not show the missing times as 0 ms or their absence as an improvement.
func TestCompareWithoutAttempts(t *testing.T) {
	f := newFake(2, "sort")
	f.jobs[0].EndedMs = 9000
	f.jobs[1].StartedMs = 0
	s := New(t.Context(), untried{f}, f, pages.Visitor, "test")
	w := ask(s, "GET", "/ui/compare?a=j1&b=j2&format=csv", "ann")
	lines := strings.Split(strings.ReplaceAll(w.Body.String(), "\r\n", "\n"), "\n")
	for _, want := range []string{
		"time from submission to end,8000,none,",
		"time until the first attempt,1000,none,",
		"maps that succeeded,20,0,-1",
		"median time of maps,1000,none,",
		"median time of reduces,none,none,",
		"stragglers,1,none,",
		"failed attempts,0,0,0",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, w.Body)
		}
	}
	body := ask(s, "GET", "/ui/compare?a=j1&b=j2", "ann").Body.String()
	if strings.Contains(body, `class="less"`) || strings.Contains(body, `class="more"`) {
		t.Errorf("a change without a direction has a color:\n%s", body)
	}
}

// TestHistoryColumns checks that the list of ended jobs has no forecasts, and shows each
// job's message under its own heading.
func TestHistoryColumns(t *testing.T) {
	f := newFake(1, "sort")
	f.jobs[0].EndedMs, f.jobs[0].Message = 9000, "too many failures"
	lines := strings.Split(ask(newConsole(t, f), "GET", "/ui/history?format=csv", "ann").Body.String(), "\n")
	if want := "job,name,user,pool,priority,state,maps,reduces,submitted,took_ms,message"; strings.TrimSpace(lines[0]) != want {
		t.Errorf("the columns are %s, want %s", lines[0], want)
	}
	if !strings.HasSuffix(strings.TrimSpace(lines[1]), ",8000,too many failures") {
		t.Errorf("the job is %s", lines[1])
	}
}

// TestDay selects whole days, also the long one on which the clocks are set back.
func TestDay(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for text, hours := range map[string]int64{"2026-10-24": 24, "2026-10-25": 25, "2026-03-29": 23} {
		if first, last, err := day(url.Values{"to": {text}}, "to", loc); err != nil || last+1-first != hours*time.Hour.Milliseconds() {
			t.Errorf("%s: from %d to %d, %v, want %d hours", text, first, last, err, hours)
		}
	}
}

// TestSmallChanges compares two jobs whose times differ by less than they vary, and by more
// from 0. Only the second difference has a color.
func TestSmallChanges(t *testing.T) {
	f := newFake(2, "sort")
	f.jobs[0].EndedMs, f.jobs[1].EndedMs = 9000, 9001
	f.jobs[0].StartedMs, f.jobs[1].StartedMs = 1000, 2000
	body := ask(newConsole(t, f), "GET", "/ui/compare?a=j1&b=j2", "ann").Body.String()
	if strings.Count(body, `class="more"`) != 1 || !strings.Contains(body, `<span class="more">+1.0 s</span>`) {
		t.Errorf("%s", body)
	}
	ended := ask(newConsole(t, f), "GET", "/ui/jobs/j1", "ann").Body.String()
	if strings.Contains(ended, "pending") || !strings.Contains(ended, "5 of 10 done") {
		t.Errorf("a job that has ended: %s", ended)
	}
}

// TestDrainForm checks that a node's page offers an admin the one action that has an effect,
// and other users none.
func TestDrainForm(t *testing.T) {
	f := newFake(1, "w1")
	s := newConsole(t, f)
	for state, want := range map[string]string{"alive": "/ui/nodes/w1/drain\"", "lost": "/ui/nodes/w1/drain\"", "draining": "/ui/nodes/w1/drain?undo=1\"", "drained": "/ui/nodes/w1/drain?undo=1\"", "graylisted": "/ui/nodes/w1/drain?undo=1\""} {
		f.nodes[0].State = state
		body := ask(s, "GET", "/ui/nodes/w1", "root").Body.String()
		if strings.Count(body, "/ui/nodes/w1/drain") != 1 || !strings.Contains(body, want) {
			t.Errorf("%s: %s", state, body)
		}
		if body := ask(s, "GET", "/ui/nodes/w1", "ann").Body.String(); strings.Contains(body, "/drain") {
			t.Errorf("%s, for ann: %s", state, body)
		}
	}
}
