package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// rows returns the first column of a page's table as CSV.
func rows(s *Server, path string) (out []string) {
	for i, line := range strings.Split(strings.TrimSpace(ask(s, http.MethodGet, path, "ann").Body.String()), "\n") {
		if name, _, _ := strings.Cut(line, ","); i > 0 {
			out = append(out, name)
		}
	}
	return out
}

// TestSort orders the jobs and the nodes of a list by columns, over all pages of the list.
func TestSort(t *testing.T) {
	f := newFake(50, "x")
	f.jobs[20].Pool, f.jobs[30].Forecast = "a", &slotwisev1.JobForecast{Known: true, EndMs: 5}
	s := newConsole(t, f)
	for path, want := range map[string]string{"?sort=pool": "j21 j1 j2", "?sort=-job": "j50 j49 j48", "?sort=-end": "j31 j1 j2", "?sort=nosuch": "j1 j2 j3"} {
		if got := rows(s, "/ui/jobs"+path+"&format=csv"); len(got) != pageSize || strings.Join(got[:3], " ") != want {
			t.Errorf("%s: %q, want %s", path, got, want)
		}
	}
	if got := rows(s, "/ui/jobs?sort=-job&offset=40&format=csv"); len(got) != 10 || got[9] != "j1" {
		t.Errorf("the second page: %q", got)
	}
	body := ask(s, http.MethodGet, "/ui/jobs?sort=pool&offset=40", "ann").Body.String()
	for _, want := range []string{`aria-sort="ascending"><a href="/ui/jobs?sort=-pool">Pool`, `href="/ui/jobs?sort=end">End and reason`, "Showing 41 to 50 of 50"} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %.4000s", want, body)
		}
	}
	// More jobs than a list sorts: it says so.
	if body := ask(newConsole(t, newFake(sortedJobs+1, "x")), http.MethodGet, "/ui/jobs?sort=pool", "ann").Body.String(); !strings.Contains(body, "The first 400 of 401 jobs are sorted.") {
		t.Errorf("%.4000s", body)
	}
}

// TestNodeOrder lists nodes that need attention first, on the page of nodes and in the overview,
// with the same numbers.
func TestNodeOrder(t *testing.T) {
	f := newFake(1, "x")
	f.nodes = nil
	for i := range 12 {
		f.nodes = append(f.nodes, &slotwisev1.NodeStatus{Name: fmt.Sprint("w", i+1), State: "alive", MapSlots: 2, Maps: 1})
	}
	f.nodes[10].State, f.nodes[10].Reason = "draining", "drained by request"
	f.nodes[4].State, f.nodes[4].Reason = "graylisted", "5 attempts failed"
	f.nodes[8].State, f.nodes[9].State = "lost", "new state"
	s := newConsole(t, f)
	if got := strings.Join(rows(s, "/ui/nodes?format=csv"), " "); got != "w10 w9 w5 w11 w1 w2 w3 w4 w6 w7 w8 w12" {
		t.Errorf("%s", got)
	}
	if got := strings.Join(rows(s, "/ui/?format=csv&table=attention"), " "); got != "w10 w9 w5 w11" {
		t.Errorf("attention: %s", got)
	}
	for _, path := range []string{"/ui/", "/ui/nodes"} {
		body := ask(s, http.MethodGet, path, "ann").Body.String()
		for _, want := range []string{"1 new state, 1 lost, 1 graylisted, 1 draining, 8 alive", "5 attempts failed"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q", path, want)
			}
		}
	}
	if body := ask(s, http.MethodGet, "/ui/", "ann").Body.String(); !strings.Contains(body, `<a class="lost b0" href="/ui/nodes/w9" title="w9: lost, 1 of 2 slots in use"><span aria-hidden="true"><bdi>! w9</bdi>`) && !strings.Contains(body, `<a class="lost b2" href="/ui/nodes/w9" title="w9: lost, 1 of 2 slots in use"><span aria-hidden="true"><bdi>! w9</bdi>`) {
		t.Errorf("no square of w9: %s", body[strings.Index(body, "squares"):])
	}
}

// TestJobCounts counts the queue that the page lists, or trusts the source for a longer one.
func TestJobCounts(t *testing.T) {
	use := &source.Use{Started: 7, Waiting: 8, Closing: 9}
	queue := &source.Jobs{Total: 2, List: []*slotwisev1.JobStatus{{State: slotwisev1.JobState_JOB_STATE_WAITING}, {State: slotwisev1.JobState_JOB_STATE_RUNNING}}}
	if got := jobCounts(use, queue); got != "1 running, 1 waiting" {
		t.Error(got)
	}
	queue.Total = 3
	if got := jobCounts(use, queue); got != "7 running, 8 waiting, 9 committing" {
		t.Error(got)
	}
}

// TestCheckedJobs acts on the jobs whose boxes are checked.
func TestCheckedJobs(t *testing.T) {
	f := newFake(3, "x")
	s := newConsole(t, f)
	for form, want := range map[string]string{"job=j1&job=j3&do=kill&reason=old": "[kill j1 old kill j3 old] 303", "job=j2&do=priority&priority=HIGH": "[priority j2 HIGH] 303",
		"do=kill": "[] 400", "job=j1&do=dance": "[] 400", "do=kill" + strings.Repeat("&job=j1", pageSize+1): "[] 400"} {
		f.acted = nil
		w := ask(s, http.MethodPost, "/ui/jobs|"+form, "ann")
		if got := fmt.Sprint(f.acted, " ", w.Code); got != want {
			t.Errorf("%.60s: %s, want %s: %.500s", form, got, want, w.Body)
		}
	}
	if w := ask(s, http.MethodPost, "/ui/jobs|job=j1&job=j2&do=kill", "eve"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "0 of 2 jobs were changed; j1: only ann may; j2: only ann may") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	const kill = "Kill the checked jobs"
	if owner, other := ask(s, http.MethodGet, "/ui/jobs", "ann").Body.String(), ask(s, http.MethodGet, "/ui/jobs", "eve").Body.String(); !strings.Contains(owner, kill) || strings.Contains(other, kill) || !strings.Contains(other, "Compare two") {
		t.Error("the actions do not follow the viewer's rights")
	}
	for path, status := range map[string]int{"?job=j1&job=j2": 200, "?job=j1": 400, "?job=j1&job=j2&job=j3": 400, "?a=j1&b=j2": 200} {
		if w := ask(s, http.MethodGet, "/ui/compare"+path, "ann"); w.Code != status {
			t.Errorf("%s: %d, want %d: %.500s", path, w.Code, status, w.Body)
		}
	}
}

// TestOutlook describes the expected course of a job in one text.
func TestOutlook(t *testing.T) {
	now := time.UnixMilli(0)
	for want, j := range map[string]*slotwisev1.JobStatus{
		"number 2 of the waiting jobs; ends in 3.0 s (2.0 s to 4.0 s); two jobs come first": {Waiting: "two jobs come first", Forecast: &slotwisev1.JobForecast{Known: true, Position: 2, EndMs: 3000, EarlyMs: 2000, LateMs: 4000}},
		"no task has ended yet":         {Forecast: &slotwisev1.JobForecast{Unknown: "no task has ended yet"}},
		"ends never, as the cluster is": {Forecast: &slotwisev1.JobForecast{Never: true}},
		"a task failed":                 {EndedMs: 9, Message: "a task failed", Waiting: "not shown"},
		strings.Repeat("x", 399) + "…":  {Waiting: strings.Repeat("x", 900)},
	} {
		if got := outlook(j, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTally counts the jobs of many users. The largest shares keep their names, and no task is lost.
func TestTally(t *testing.T) {
	tally := source.Tally{}
	for i := range 500 {
		tally.Add(fmt.Sprint("u", i), i%7, 1, i)
		tally.Add(fmt.Sprint("u", i), 1, 0, 0)
	}
	list := tally.List()
	waiting, maps := 0, 0
	for _, s := range list {
		waiting, maps = waiting+s.Waiting, maps+s.Maps
	}
	if len(list) != 64 || waiting != 500*499/2 || maps != 500+71*21+0+1+2 || list[0].Name != "(others)" || list[63].Name != "u499" {
		t.Errorf("%d shares, %d waiting, %d maps, from %v to %v", len(list), waiting, maps, list[0], list[len(list)-1])
	}
}

// TestShares draws slots and waiting tasks by user. Waiting tasks need no slots, so their chart has
// no line of all slots.
func TestShares(t *testing.T) {
	s := newConsole(t, newFake(1, "x"))
	body := ask(s, http.MethodGet, "/ui/", "ann").Body.String()
	for id, want := range map[string]struct {
		title string
		limit bool
	}{"users": {"Slots in use by user", true}, "waiting-users": {"Waiting tasks by user", false}, "waiting-pools": {"Waiting tasks by pool", false}} {
		_, sec, found := strings.Cut(body, `<section id="`+id+`"`)
		sec, _, _ = strings.Cut(sec, "</section>")
		if !found || !strings.Contains(sec, want.title) || strings.Contains(sec, "all slots") != want.limit {
			t.Errorf("%s: %.2000s", id, sec)
		}
		if strings.HasSuffix(id, "users") && (!strings.Contains(sec, "ann") || !strings.Contains(sec, "bob")) {
			t.Errorf("%s names no users: %.2000s", id, sec)
		}
	}
}
