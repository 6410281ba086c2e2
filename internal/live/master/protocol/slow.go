package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/terminal"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// row is an attempt of a job, live or of the history. Times are milliseconds since the
// Unix epoch.
type row struct {
	id             job.AttemptID
	state          string
	node, level    string
	started, ended int64 // ended is the present time while the attempt runs
	bytes          int64 // of the split of a map; 0 is unknown
	err            string
}

// SlowPast says why an ended job took as long as it did.
func SlowPast(h *slotwisev1.HistoryJob) []*slotwisev1.Finding {
	var rows []row
	for _, t := range h.Tasks {
		for _, a := range t.Attempts {
			id, err := job.ParseAttempt(a.Id)
			if err != nil {
				continue
			}
			// What ran at the end of its job was stopped then.
			rows = append(rows, row{id: id, state: a.State, node: a.Node, level: a.Level, started: a.StartedMs, ended: cmp.Or(a.EndedMs, h.Job.EndedMs),
				bytes: t.InputBytes, err: a.Error})
		}
	}
	return findings(h.Job, rows)
}

// Attempts is a copy of what Findings needs of a job in memory.
type Attempts struct {
	status *slotwisev1.JobStatus
	rows   []row
}

// mostCopied is the number of tasks up to which the attempts of a job in memory are copied.
// The copy is made in the master's loop.
const mostCopied = 30_000

// Attempts copies the attempts of a job. It is nil if the job is not in memory or has more
// than mostCopied tasks.
func (c *Core) Attempts(id job.ID, now time.Duration) *Attempts {
	j := c.jobs[id]
	// Above the bound the copy would hold the loop too long. The history answers the question when
	// the job has ended.
	if j == nil || j.core == nil || j.core.Total(job.Map)+j.core.Total(job.Reduce) > mostCopied {
		return nil
	}
	in := &Attempts{status: proto.CloneOf(c.status(j))}
	for k := range job.Kind(job.Kinds) {
		for i := range j.core.Total(k) {
			task := j.core.Task(k, int32(i))
			for a := range task.Tries() {
				in.rows = append(in.rows, c.rowOf(a, now))
			}
		}
	}
	return in
}

func (c *Core) rowOf(a *job.Attempt, now time.Duration) row {
	r := row{id: a.ID(), state: a.State().String(), node: c.nodeOf(a), started: c.millis(max(1, a.Started())), ended: c.millis(max(1, a.Ended())),
		bytes: a.Task().Split().Bytes, err: a.Error()}
	// A running attempt counts with its time so far, as Ended is 0.
	if a.State() == job.AttemptRunning {
		r.ended = c.millis(now)
	}
	if a.Level() != 0 {
		r.level = a.Level().String()
	}
	return r
}

// Findings returns the reasons why the job has been slow so far. It may be called in any
// goroutine.
func (in *Attempts) Findings() []*slotwisev1.Finding {
	if in == nil {
		return nil
	}
	return findings(in.status, in.rows)
}

// findings collects what the attempts of a job say about its speed.
func findings(s *slotwisev1.JobStatus, rows []row) []*slotwisev1.Finding {
	f := &finder{status: s, rows: rows, mapsDone: lastMap(rows)}
	// In the order in which a user should read them: the failure, the whole time, single attempts, then sums.
	f.firstCause()
	f.path()
	for k := range job.Kind(job.Kinds) {
		f.stragglers(k)
	}
	f.skew()
	f.spills()
	f.lost()
	return f.list
}

type finder struct {
	status   *slotwisev1.JobStatus
	rows     []row
	mapsDone int64 // when the last map ended; 0 if the job has no maps
	list     []*slotwisev1.Finding
}

func lastMap(rows []row) (at int64) {
	for i := range rows {
		if rows[i].id.Kind == job.Map {
			at = max(at, rows[i].ended)
		}
	}
	return at
}

func (f *finder) add(code string, r *row, factor float64, lost int64, format string, args ...any) {
	x := &slotwisev1.Finding{Code: code, Words: fmt.Sprintf(format, args...), Factor: factor, LostMs: lost}
	if r != nil {
		x.Attempt, x.Node = r.id.String(), r.node
	}
	f.list = append(f.list, x)
}

// took returns the time of an attempt. A reduce that started early counts from the end of the
// last map, because it waited until then.
func (f *finder) took(r *row) int64 {
	// A reduce that ended before the last map, such as one that failed, did not wait until that
	// moment.
	from := r.started
	if r.id.Kind == job.Reduce && r.ended > f.mapsDone {
		from = max(from, f.mapsDone)
	}
	return max(0, r.ended-from)
}

// counts reports whether the time of an attempt says something about its task.
func (r *row) counts(k job.Kind) bool {
	return r.id.Kind == k && (r.state == job.AttemptSucceeded.String() || r.state == job.AttemptRunning.String())
}

// Rules for stragglers.
const (
	leastSiblings   = 4    // succeeded attempts of the kind
	slowFactor      = 1.5  // of the median
	slowLeast       = 1000 // milliseconds above the median
	mostStragglers  = 3    // of a kind
	slowNode        = 1.3  // median of a node's attempts against the median of all
	leastOnNode     = 3
	skewFactor      = 2
	leastSpills     = 2 // of each map on average
	leastForSkew    = 3
	longInput       = 1.3
	longErrorInWhat = 200
)

// stragglers names the slowest attempts of a kind, and what distinguishes them.
func (f *finder) stragglers(k job.Kind) {
	var times, sizes []int64
	local := 0
	for i := range f.rows {
		if r := &f.rows[i]; r.id.Kind == k && r.state == job.AttemptSucceeded.String() {
			times, sizes = append(times, f.took(r)), append(sizes, r.bytes)
			if r.level == job.LevelNode.String() {
				local++
			}
		}
	}
	// The median of two or three attempts is no measure of the usual time.
	if len(times) < leastSiblings {
		return
	}
	middle := medianOf(times)
	var slow []*row
	for i := range f.rows {
		// Both a factor and a second: half a second above a median of one is noise, and a percent
		// of an hour is not a straggler. Attempts that still run count by their time so far, which
		// can only grow.
		if r := &f.rows[i]; r.counts(k) && float64(f.took(r)) >= slowFactor*float64(middle) && f.took(r) >= middle+slowLeast {
			slow = append(slow, r)
		}
	}
	// Stable: equal times stay in the order of the tasks, so the answer does not change from call to call.
	slices.SortStableFunc(slow, func(a, b *row) int { return cmp.Compare(f.took(b), f.took(a)) })
	for _, r := range slow[:min(mostStragglers, len(slow))] {
		factor := float64(f.took(r)) / float64(max(1, middle))
		verb := "took"
		if r.state == job.AttemptRunning.String() {
			verb = "has run for"
		}
		f.add("straggler", r, factor, f.took(r)-middle, "%v on %s %s %s, %.1f times the median of its %d siblings: %s",
			r.id, r.node, verb, span(f.took(r)), factor, len(times), f.why(r, middle, medianOf(sizes), 2*local > len(times)))
	}
}

// why names the differences between a slow attempt and its siblings.
func (f *finder) why(r *row, middle, size int64, mostLocal bool) string {
	var reasons []string
	// The size is unknown, 0, for reduces and for synthetic maps.
	if size > 0 && float64(r.bytes) >= longInput*float64(size) {
		reasons = append(reasons, fmt.Sprintf("its input is %.1f times the median", float64(r.bytes)/float64(size)))
	}
	if mostLocal && r.level != "" && r.level != job.LevelNode.String() {
		reasons = append(reasons, "it read its input from another machine, and most of the others did not")
	}
	// The attempt itself is left out: it would make its node look slow by its own time.
	var here []int64
	for i := range f.rows {
		if x := &f.rows[i]; x.node == r.node && x != r && x.counts(r.id.Kind) {
			here = append(here, f.took(x))
		}
	}
	if len(here) >= leastOnNode && float64(medianOf(here)) >= slowNode*float64(middle) {
		reasons = append(reasons, fmt.Sprintf("its node is slow: the median of its %d other attempts there is %.1f times that of the job", len(here), float64(medianOf(here))/float64(max(1, middle))))
	}
	if len(reasons) == 0 {
		return "neither input, locality nor node distinguishes it"
	}
	return strings.Join(reasons, ", and ")
}

// skew compares the longest reduce with the median one.
func (f *finder) skew() {
	var times []int64
	var longest *row
	for i := range f.rows {
		if r := &f.rows[i]; r.id.Kind == job.Reduce && r.state == job.AttemptSucceeded.String() {
			times = append(times, f.took(r))
			if longest == nil || f.took(r) > f.took(longest) {
				longest = r
			}
		}
	}
	if len(times) < leastForSkew {
		return
	}
	middle := medianOf(times)
	// A straggler by its data and not by its node: a copy on another machine would take as long.
	if factor := float64(f.took(longest)) / float64(max(1, middle)); factor >= skewFactor && f.took(longest) >= middle+slowLeast {
		f.add("skew", longest, factor, f.took(longest)-middle, "the longest reduce, %v, took %s, %.1f times the median of %d: its partition may hold more keys or larger groups",
			longest.id, span(f.took(longest)), factor, len(times))
	}
}

// spills reports maps that wrote more than one sorted run each, because their sort buffers were
// smaller than their output.
func (f *finder) spills() {
	done := 0
	for i := range f.rows {
		if r := &f.rows[i]; r.id.Kind == job.Map && r.state == job.AttemptSucceeded.String() {
			done++
		}
	}
	c := f.status.MapCounters
	// One spill is the output itself, which every map writes that does not keep it in memory.
	if each := float64(c.GetSpills()) / float64(max(1, done)); done > 0 && each >= leastSpills {
		f.add("spills", nil, each, 0, "the maps filled their sort buffers and wrote them to disk %d times, %.1f times each on average, %.1f MB in all", c.GetSpills(), each, float64(c.GetSpilledBytes())/1e6)
	}
}

// lost sums up attempts that did not succeed.
func (f *finder) lost() {
	type sum struct {
		n    int
		time int64
	}
	var failed, lost, copies, preempted sum
	fetches, latest := 0, (*row)(nil) // latest is the attempt that was preempted last
	nodes := map[string]bool{}
	for i := range f.rows {
		r := &f.rows[i]
		into := &failed
		switch r.state {
		case job.AttemptFailed.String():
		case job.AttemptLost.String():
			into = &lost
			nodes[r.node] = true
		case job.AttemptKilled.String():
			into = &copies
			// The tracker's words. A job that lost its slots has another remedy than one with many copies.
			if strings.HasPrefix(r.err, "its slot goes to ") {
				into = &preempted
				if latest == nil || r.ended > latest.ended {
					latest = r
				}
			}
		// The attempt succeeded. If reduces could not read its output later, its error says so.
		// Its time is not counted as lost: the map's next attempt is in the list, too.
		default:
			if strings.Contains(r.err, "could not be fetched") {
				fetches++
			}
			continue
		}
		into.n++
		into.time += r.ended - r.started
		if strings.Contains(r.err, "could not be fetched") {
			fetches++
		}
	}
	if failed.n > 0 {
		f.add("retries", nil, 0, failed.time, "%s failed, after %s of work in all", terminal.Plural(failed.n, "attempt"), span(failed.time))
	}
	if lost.n > 0 {
		f.add("lost", nil, 0, lost.time, "%s lost because the master no longer heard from %s, after %s of work in all", were(lost.n), strings.Join(slices.Sorted(maps.Keys(nodes)), ", "), span(lost.time))
	}
	if preempted.n > 0 {
		f.add("preempted", latest, 0, preempted.time, "%s preempted, after %s of work in all; the last was %v on %s: %s", were(preempted.n), span(preempted.time), latest.id, latest.node, cut(latest.err))
	}
	if copies.n > 0 {
		f.add("killed", nil, 0, copies.time, "%s killed, copies of tasks that another attempt had finished among them, after %s of work in all", were(copies.n), span(copies.time))
	}
	if fetches > 0 {
		f.add("fetches", nil, 0, 0, "the output of %d maps could not be fetched, and they ran again", fetches)
	}
}

// firstCause names the failure that began the end of a failed job.
func (f *finder) firstCause() {
	if f.status.State != slotwisev1.JobState_JOB_STATE_FAILED {
		return
	}
	var first *row
	for i := range f.rows {
		// The first in time: later failures are often its consequences.
		if r := &f.rows[i]; r.state == job.AttemptFailed.String() && (first == nil || r.ended < first.ended) {
			first = r
		}
	}
	if first != nil {
		f.add("first cause", first, 0, 0, "the first failure was %v on %s: %s", first.id, first.node, cut(strings.Join(strings.Fields(first.err), " ")))
	}
}

// path says where the time of a job that has succeeded went.
func (f *finder) path() {
	// Only for success: in a failed or killed job the last attempts are the ones that the end
	// has cut off.
	s := f.status
	if s.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || s.StartedMs == 0 {
		return
	}
	parts := []string{fmt.Sprintf("%s until the first attempt", span(s.StartedMs-s.SubmittedMs))}
	end := s.StartedMs
	for k, what := range [job.Kinds]string{"maps", "reduces after them"} {
		last := f.last(job.Kind(k))
		if last == nil {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s for %s, of which %v on %s ended last after %s", span(last.ended-end), what, last.id, last.node, span(f.took(last))))
		// A reduce can end before the last map only in a job whose map ran again.
		end = max(end, last.ended)
	}
	parts = append(parts, fmt.Sprintf("%s to publish the output", span(s.EndedMs-end)))
	f.add("path", nil, 0, s.EndedMs-s.SubmittedMs, "%s in all: %s", span(s.EndedMs-s.SubmittedMs), strings.Join(parts, "; "))
}

// last returns the attempt of a kind that succeeded last, or nil.
func (f *finder) last(k job.Kind) (last *row) {
	for i := range f.rows {
		if r := &f.rows[i]; r.id.Kind == k && r.state == job.AttemptSucceeded.String() && (last == nil || r.ended > last.ended) {
			last = r
		}
	}
	return last
}

// medianOf returns the median of numbers; 0 of none.
func medianOf(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// span formats milliseconds.
func span(ms int64) string {
	d := time.Duration(max(0, ms)) * time.Millisecond
	if d < 100*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}

func were(n int) string {
	if n == 1 {
		return "1 attempt was"
	}
	return fmt.Sprintf("%d attempts were", n)
}

// cut shortens an error for a sentence.
func cut(text string) string {
	if len(text) > longErrorInWhat {
		return strings.ToValidUTF8(text[:longErrorInWhat], "") + "…"
	}
	return text
}
