package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// manyAttempts returns attempts that fill some nodes of ten slots.
func manyAttempts(n, nodes int) []source.Attempt {
	list := make([]source.Attempt, n)
	for i := range list {
		slot := i % (nodes * 10)
		begin := int64(1_000_000 + 1000*(i/(nodes*10)))
		list[i] = source.Attempt{ID: fmt.Sprintf("j1_m_%d_0", i), Kind: 'm', Task: int32(i), State: "succeeded", Node: fmt.Sprintf("node%03d", slot/10), Level: "NODE", Progress: 1,
			Started: begin, Ended: begin + 900 + int64(i%90), OutputBytes: int64(i)}
	}
	return list
}

// TestLargeJob shows a job of 100,000 attempts. The page stays small, says that it draws
// groups, and shows single attempts again in a part of the time.
func TestLargeJob(t *testing.T) {
	f := newFake(1, "large")
	f.attempts = manyAttempts(100_000, 100)
	s := newConsole(t, f)
	start := time.Now()
	w := ask(s, http.MethodGet, "/ui/jobs/j1", "ann")
	first := time.Since(start)
	start = time.Now()
	again := ask(s, http.MethodGet, "/ui/jobs/j1", "ann")
	t.Logf("100,000 attempts: first view %v, second %v, %d bytes", first, time.Since(start), w.Body.Len())
	if body := w.Body.String(); w.Body.Len() > 200<<10 || !strings.Contains(body, "100000 attempts in 1000 lanes are too many to draw each") {
		t.Errorf("%d bytes: %.1000s", w.Body.Len(), body)
	}
	if f.copies != 1 || again.Code != http.StatusOK {
		t.Errorf("%d copies for two views", f.copies)
	}
	f.attempts = manyAttempts(20_000, 10)
	s = newConsole(t, f)
	x, err := s.cache.get(t.Context(), f, "j1", false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.lanes) != 100 {
		t.Errorf("%d lanes, want one for each slot", len(x.lanes))
	}
	path := fmt.Sprintf("/ui/jobs/j1?from=%d&to=%d", x.first+3000, x.first+5000)
	if part := ask(s, http.MethodGet, path, "ann").Body.String(); strings.Contains(part, "too many") || !strings.Contains(part, `class="map"`) {
		t.Errorf("a part of the time is not drawn attempt by attempt: %.1500s", part)
	}
	if w := ask(s, http.MethodGet, "/ui/jobs/j1/attempts?sort=time&offset=19965", "ann"); !strings.Contains(w.Body.String(), "19966 to 20000 of 20000") {
		t.Errorf("the last page: %.1500s", w.Body)
	}
}

// TestLanes checks that no two attempts overlap in a lane.
func TestLanes(t *testing.T) {
	list := manyAttempts(3000, 7)
	for i := range list {
		list[i].Started += int64(i * 7919 % 5000)
		list[i].Ended = list[i].Started + int64(i*104729%4000)
		if i%50 == 0 {
			list[i].Ended = 0
		}
	}
	x := analyse(list, 10_000_000)
	type span struct{ from, to int64 }
	spans := make([][]span, len(x.lanes))
	for i := range x.list {
		a, lane := &x.list[i], x.laneOf[i]
		if x.lanes[lane].node != a.Node {
			t.Fatalf("%s of %s is in a lane of %s", a.ID, a.Node, x.lanes[lane].node)
		}
		to := a.Ended
		if to == 0 {
			to = x.now
		}
		for _, s := range spans[lane] {
			if a.Started < s.to && s.from < to {
				t.Fatalf("%s overlaps another attempt in lane %d", a.ID, lane)
			}
		}
		spans[lane] = append(spans[lane], span{a.Started, to})
	}
}

// TestStragglers names the attempts that are much slower than the median.
func TestStragglers(t *testing.T) {
	list := manyAttempts(40, 4)
	list[3].Ended = list[3].Started + 5000
	list[9].Ended, list[9].State = 0, "running"
	list[11].Ended, list[11].State = list[11].Started+60_000, "failed"
	x := analyse(list, list[9].Started+3000)
	var got []string
	for _, i := range x.slow {
		got = append(got, x.list[i].ID)
	}
	if fmt.Sprint(got) != "[j1_m_3_0 j1_m_9_0]" {
		t.Errorf("%v", got)
	}
}

// TestSamples fills the rings beyond their lengths.
func TestSamples(t *testing.T) {
	var s samples
	begin := time.Unix(1_000_000, 0)
	at := begin
	for range coarseLength + 10 {
		at = at.Add(coarseStep)
		s.add(at, source.Use{Map: 1})
	}
	for range fineLength + 10 {
		at = at.Add(fineStep)
		s.add(at, source.Use{Map: 1})
	}
	if n := len(s.mu.fine.list); n != fineLength {
		t.Errorf("%d fine samples", n)
	}
	if n := len(s.mu.coarse.list); n != coarseLength {
		t.Errorf("%d coarse samples", n)
	}
	if n := len(s.since(at, 10*time.Minute)); n < 299 || n > 301 {
		t.Errorf("%d samples of ten minutes", n)
	}
}

// TestCacheBounds asks for more jobs than the cache keeps.
func TestCacheBounds(t *testing.T) {
	f := newFake(1, "x")
	var c attemptCache
	for i := range 3 * cachedJobs {
		if _, err := c.get(context.Background(), f, fmt.Sprint("j", i), true, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.mu.list) != cachedJobs || f.copies != 3*cachedJobs {
		t.Errorf("%d entries, %d copies", len(c.mu.list), f.copies)
	}
}

// TestCacheAtTheEnd reads the attempts of a job again after its end, although none ran when they were copied
// last, and then keeps them.
func TestCacheAtTheEnd(t *testing.T) {
	f := newFake(1, "x")
	var c attemptCache
	for i, want := range []struct {
		ended  bool
		copies int
	}{{false, 1}, {true, 2}, {true, 2}} {
		if _, err := c.get(t.Context(), f, "j1", want.ended, time.Minute); err != nil || f.copies != want.copies {
			t.Errorf("call %d: %d copies, %v, want %d", i, f.copies, err, want.copies)
		}
		c.mu.list[0].mu.until = time.Now()
	}
}

// slowSource is a source whose attempts can be read once the test allows it.
type slowSource struct {
	*fake
	allowed chan struct{}
}

func (s slowSource) Attempts(ctx context.Context, id string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	<-s.allowed
	return s.fake.Attempts(ctx, id)
}

// panicSource is a source that panics when its attempts are read.
type panicSource struct{ *fake }

func (panicSource) Attempts(context.Context, string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	panic("no attempts")
}

// TestCopyPanics reads attempts that make the source panic. The panic reaches each request, and not
// the goroutine that copies, where it would end the process.
func TestCopyPanics(t *testing.T) {
	var c attemptCache
	for range 3 {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.HasPrefix(p, "no attempts\n") || !strings.Contains(p, "panicSource") {
					t.Errorf("recovered %q", p)
				}
			}()
			x, err := c.get(t.Context(), panicSource{newFake(1, "x")}, "j1", true, time.Minute)
			t.Errorf("got %v, %v", x, err)
		}()
	}
	if n := c.copying.Load(); n != 0 {
		t.Errorf("%d copies are being made", n)
	}
}

// TestSlowAttempts opens the pages of an ended job whose attempts take long to read. The pages
// show the rest at once, and the attempts later. Data is complete.
func TestSlowAttempts(t *testing.T) {
	f := slowSource{newFake(1, "x"), make(chan struct{})}
	f.jobs[0].Maps.Total, f.jobs[0].EndedMs = largeJob, 90_000
	s := newConsole(t, f.fake)
	s.source = f
	for _, path := range []string{"/ui/jobs/j1", "/ui/jobs/j1/attempts"} {
		body := ask(s, http.MethodGet, path, "ann").Body.String()
		for _, want := range []string{beingRead, "data-live", `http-equiv="refresh"`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s is missing in %s", path, want, body)
			}
		}
	}
	data := make(chan string)
	go func() { data <- ask(s, http.MethodGet, "/ui/jobs/j1/attempts?format=csv", "ann").Body.String() }()
	close(f.allowed)
	if got := <-data; strings.Count(got, "\n") != 21 {
		t.Errorf("the attempts as CSV: %s", got)
	}
	body := ask(s, http.MethodGet, "/ui/jobs/j1", "ann").Body.String()
	if strings.Contains(body, beingRead) || strings.Contains(body, "refresh") || strings.Contains(body, "data-live") || !strings.Contains(body, "Attempts over time") {
		t.Errorf("with the attempts: %s", body)
	}
	if f.copies != 1 {
		t.Errorf("%d copies", f.copies)
	}
}
