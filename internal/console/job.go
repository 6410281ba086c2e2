package console

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// job shows one job or chain: facts that users ask about most often come first, and the rest is
// folded.
func (s *Server) job(r *http.Request) (*page, error) {
	ctx, now := r.Context(), time.Now()
	j, err := s.source.Job(ctx, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	st := j.Status
	// Live until the end: the page of an ended job cannot change, and the script stops asking.
	p := &page{Title: st.Id + " " + cmp.Or(cut(st.Name, mostHeading), "(no name)"), Live: st.EndedMs == 0, Crumbs: []link{{Text: "Jobs", Href: "/ui/jobs"}}, Lead: jobLead(j, now), Actions: s.jobForms(j)}
	p.add(failure(j))
	// A chain runs no attempts itself: its steps are jobs with their own pages.
	if len(j.Steps) > 0 || strings.HasPrefix(st.Id, "chain-") {
		p.add(chainSection(j.Steps, now))
	} else if err := s.addAttempts(r, p, j); err != nil {
		return nil, err
	}
	p.add(whySection(j), countersSection(st), settings(j.Spec), jobDetails(st, now))
	return p, nil
}

// mostHeading is the length from which on a text is cut on the page of its job. Lists cut earlier: their rows stay
// comparable, and this page has the whole.
const mostHeading = 160

// add adds the sections that are not nil.
func (p *page) add(list ...*section) {
	for _, sec := range list {
		if sec != nil {
			p.Sections = append(p.Sections, sec)
		}
	}
}

// set returns the facts with a text.
func set(facts ...fact) []fact {
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Text == "" })
}

// jobLead says how a job is and why, in one sentence and a few facts.
func jobLead(j *source.Job, now time.Time) *section {
	st := j.Status
	f := filterLink{"/ui/jobs"}
	end := fact{"Expected end (8 of 10 chances)", expectedEnd(st, now)}
	if st.EndedMs > 0 {
		end = fact{"Took", milliseconds(source.Age(st, now).Milliseconds())}
	}
	return &section{ID: "summary", Lead: jobSentence(j, now), Facts: set(
		fact{"State", state(st.State)}, fact{"Maps", phaseFact(st.Maps, st.EndedMs > 0)}, fact{"Reduces", phaseFact(st.Reduces, st.EndedMs > 0)}, end,
		fact{"Deadline", deadlineCell(st, now)}, fact{"User", f.whole("user", st.User, st.User)}, fact{"Pool", f.whole("pool", st.Pool, poolName(st.Pool))}, fact{"Priority", plain(source.PriorityName(st.Priority))})}
}

// deadlineCell is the moment at which a job should have ended, or an empty cell.
func deadlineCell(st *slotwisev1.JobStatus, now time.Time) cell {
	if st.DeadlineMs == 0 {
		return cell{}
	}
	return moment(st.DeadlineMs, now)
}

// jobSentence says in one sentence why a job waits, why it failed, or how it gets on.
func jobSentence(j *source.Job, now time.Time) string {
	st := j.Status
	because := func(verb, reason string) string {
		if reason == "" {
			return verb + "."
		}
		return verb + " because: " + cut(strings.TrimSuffix(reason, "."), 600) + "."
	}
	switch st.State {
	case slotwisev1.JobState_JOB_STATE_SUCCEEDED:
		return "Succeeded in " + shortDuration(source.Age(st, now).Milliseconds()) + "."
	case slotwisev1.JobState_JOB_STATE_FAILED:
		return because("Failed", cmp.Or(st.Message, st.LastError))
	case slotwisev1.JobState_JOB_STATE_KILLED:
		return because("Killed", st.Message)
	}
	words := "Runs since " + moment(st.StartedMs, now).Text
	if st.StartedMs == 0 || st.Waiting != "" {
		words = because("Waits", cmp.Or(st.Waiting, st.Forecast.GetWaitsFor()))
	} else {
		words += fmt.Sprintf("; %s without a slot.", terminal.Plural(int(st.Maps.GetPending()+st.Reduces.GetPending()), "task"))
	}
	if position := st.Forecast.GetPosition(); position > 0 {
		words += fmt.Sprintf(" It is number %d of the waiting jobs and starts in about %s.", position, left(st.Forecast.StartMs, now))
	}
	return words
}

// attemptID finds the id of an attempt in the text of an error.
var attemptID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bj[0-9]+_[mr]_[0-9]+_[0-9]+\b`) })

// failure shows the error that a job failed with, the end of the attempt's log, and where the
// whole log is.
func failure(j *source.Job) *section {
	st := j.Status
	if st.State != slotwisev1.JobState_JOB_STATE_FAILED && st.LastError == "" {
		return nil
	}
	sec := &section{ID: "failure", Title: "Why it failed", Facts: set(fact{"Last error", plain(cut(st.LastError, 2000))})}
	// Errors of attempts that were retried are no failure of the job.
	if st.State != slotwisev1.JobState_JOB_STATE_FAILED {
		sec.Title = "The last error of an attempt"
	}
	if st.LogTail != "" {
		sec.Text = &text{Body: st.LogTail, Label: "End of the log of the attempt that failed last"}
	}
	// A link to a log that the viewer may not read would lead to an error.
	// The id is searched in the text, because errors of attempts travel as text through worker, tracker and
	// journal.
	if id := attemptID().FindString(st.LastError + " " + st.Message); id != "" && j.MayChange && !j.Past {
		sec.Links = []link{{Text: "The log of " + id, Href: attemptPath(id)}}
	}
	if st.Id != "" && !strings.HasPrefix(st.Id, "chain-") {
		sec.Links = append(sec.Links, link{Text: "All attempts that failed", Href: jobPath(st.Id) + "/attempts?state=failed"})
	}
	return sec
}

// jobDetails lists the facts of a job's status that are rarely asked about.
func jobDetails(st *slotwisev1.JobStatus, now time.Time) *section {
	facts := []fact{{"Name", plain(cut(st.Name, 1000))}, {"Step", plain(st.Step)}, {"Submitted", moment(st.SubmittedMs, now)}, {"Started", moment(st.StartedMs, now)}}
	if st.Chain != "" {
		facts = append(facts, fact{"Chain", linked(st.Chain, jobPath(st.Chain))})
	}
	if st.Driver != "" {
		facts = append(facts, fact{"Driver", linked(fmt.Sprintf("on %s, try %d", st.Driver, st.DriverTries), nodePath(st.Driver))})
	}
	// A forecast is shown only for a job that can still end.
	if st.EndedMs > 0 {
		facts = append(facts, fact{"Ended", moment(st.EndedMs, now)})
	} else {
		facts = append(facts, fact{"Time since submission", milliseconds(source.Age(st, now).Milliseconds())})
		facts = append(facts, forecastFacts(st)...)
	}
	if st.InputBytes > 0 {
		facts = append(facts, fact{"Input", bytesCell(st.InputBytes)})
	}
	facts = append(facts, fact{"Output", plain(st.Output)}, fact{"Locality of maps", plain(source.LocalityText(st.Locality))}, fact{"Message", plain(cut(st.Message, 2000))})
	return &section{ID: "details", Title: "Details", Folded: true, Facts: set(facts...)}
}

// forecastFacts returns the data behind a job's expected end.
func forecastFacts(st *slotwisev1.JobStatus) []fact {
	f := st.Forecast
	if !f.GetKnown() {
		return set(fact{"No expected end because", plain(f.GetUnknown())})
	}
	return []fact{{"Basis of the forecast", plain(fmt.Sprintf("%s of the cluster's state %s ago; task times: %s", terminal.Plural(int(f.Futures), "sampled future"), shortDuration(f.AgeMs), f.Basis))}}
}

// phaseFact describes the tasks of a kind. Nothing runs or waits of a job that has ended.
func phaseFact(t *slotwisev1.TaskCounts, ended bool) cell {
	if t.GetTotal() == 0 {
		return plain("none")
	}
	words := fmt.Sprintf("%d of %d done", t.Done, t.Total)
	if !ended {
		words += fmt.Sprintf(", %d running, %d pending", t.Running, t.Pending)
	}
	if t.Failed > 0 {
		words += fmt.Sprintf(", %s failed", terminal.Plural(int(t.Failed), "attempt"))
	}
	return bar(t.Progress, words)
}

// whySection explains in words what the job waits for or has waited for.
func whySection(j *source.Job) *section {
	sec := &section{ID: "why", Title: "What it waits for", Folded: true, Table: &table{ID: "why", Caption: "What the job waits for, and what it has waited for", Empty: "Nothing has held the job back.",
		Columns: []column{{Key: "kind", Name: "Tasks"}, {Key: "reason", Name: "Reason"}, {Key: "words", Name: "In words"}, {Key: "held_ms", Name: "For", Number: true}, {Key: "advice", Name: "What would help"}}}}
	for _, e := range j.Why {
		kind := "driver"
		if e.Kind != slotwisev1.Kind_KIND_UNSPECIFIED {
			kind = strings.ToLower(strings.TrimPrefix(e.Kind.String(), "KIND_")) + "s"
		}
		sec.Table.Rows = append(sec.Table.Rows, []cell{plain(kind), plain(e.Reason), plain(e.Words), milliseconds(e.HeldMs), plain(e.Advice)})
	}
	return sec
}

// addAttempts adds the sections that are made from a job's attempts.
func (s *Server) addAttempts(r *http.Request, p *page, j *source.Job) error {
	x, err := s.attemptsOf(r, j.Status, patience(r, j.Status))
	if err != nil {
		return err
	}
	// The copy of a large job is still being made. Soon has the script ask again at once
	// instead of after the next change.
	if x == nil {
		p.Live, p.Soon = true, true
		p.add(&section{ID: "timeline", Title: "Attempts over time", Notes: []string{beingRead}})
		return nil
	}
	figure, note := x.timeline(r.URL, j.MayChange && !j.Past, time.Local)
	if figure == nil {
		p.add(&section{ID: "timeline", Title: "Attempts over time", Notes: []string{"No attempt has started."}})
		return nil
	}
	p.add(&section{ID: "timeline", Title: "Attempts over time", Notes: []string{note}, Chart: figure})
	// Findings first: they name causes, and the sections after them are the evidence.
	p.add(x.slowSection(), x.stragglers(), x.distribution(), x.sizesSection())
	// The parameters of the URL select here too, so a link with state=failed works on both pages.
	t := x.table(r.URL, j.MayChange, 10)
	t.Caption = "The first attempts"
	p.add(&section{ID: "attempts", Title: "Attempts", Folded: true, Table: t,
		Links: []link{{Text: fmt.Sprintf("All %s, to search and filter", terminal.Plural(len(x.list), "attempt")), Href: jobPath(j.Status.Id) + "/attempts"}}})
	return nil
}

// A page waits for the attempts of a large job only briefly, so that its first view is fast.
const (
	largeJob = 5000 // tasks
	briefly  = 60 * time.Millisecond
)

// beingRead is shown until the attempts of a large job have been read.
const beingRead = "The attempts of this large job are being read. The page shows them in a moment."

// patience is the time for which a page waits for the attempts of a job. A client that asks
// for data instead of a page waits as long as it takes.
func patience(r *http.Request, st *slotwisev1.JobStatus) time.Duration {
	if st.Maps.GetTotal()+st.Reduces.GetTotal() > largeJob && r.URL.Query().Get("format") == "" {
		return briefly
	}
	return copyTimeout
}

// attemptsOf returns the attempts of a job, or nil if they are still being read after a time
// below copyTimeout.
func (s *Server) attemptsOf(r *http.Request, st *slotwisev1.JobStatus, patience time.Duration) (*attempts, error) {
	x, err := s.cache.get(r.Context(), s.source, st.Id, st.EndedMs > 0, patience)
	if err == nil && x == nil && patience == copyTimeout {
		err = connect.NewError(connect.CodeUnavailable, fmt.Errorf("the attempts of %s cannot be read now: try again", st.Id))
	}
	return x, err
}

// slowSection says in words what made the job slow.
func (x *attempts) slowSection() *section {
	if len(x.findings) == 0 {
		return nil
	}
	t := &table{ID: "slow", Caption: "What made the job slow", Columns: []column{{Key: "what", Name: "What"}, {Key: "words", Name: "In words"}, {Key: "lost_ms", Name: "Time", Number: true}}}
	for _, f := range x.findings {
		t.Rows = append(t.Rows, []cell{plain(f.Code), plain(cut(f.Words, 1000)), milliseconds(f.LostMs)})
	}
	return &section{ID: "slow", Title: "What made it slow", Table: t}
}

// maxStragglers bounds the table of stragglers.
const maxStragglers = 10

// stragglers lists the attempts that are much slower than their siblings.
func (x *attempts) stragglers() *section {
	if len(x.slow) == 0 {
		return nil
	}
	sec := &section{ID: "stragglers", Title: "Stragglers: " + terminal.Count(int64(len(x.slow))), Folded: true, Notes: []string{
		fmt.Sprintf("Attempts that take at least %.1f times the median of their kind.", slowFactor)}}
	if len(x.slow) > maxStragglers {
		sec.Notes = append(sec.Notes, fmt.Sprintf("The slowest %d of %d.", maxStragglers, len(x.slow)))
	}
	t := &table{ID: "stragglers", Caption: "Stragglers", Columns: []column{{Key: "attempt", Name: "Attempt"}, {Key: "node", Name: "Node"}, {Key: "state", Name: "State"},
		{Key: "took_ms", Name: "Time", Number: true}, {Key: "times", Name: "Times the median", Number: true}, {Key: "level", Name: "Data"}}}
	for _, i := range x.slow[:min(len(x.slow), maxStragglers)] {
		a := &x.list[i]
		// Maps without records may have a median of 0 ms.
		times := float64(a.Took(x.now)) / float64(max(1, x.stat[kindOf(a)].median))
		t.Rows = append(t.Rows, []cell{plain(a.ID), linked(a.Node, nodePath(a.Node)), plain(attemptState(a)), milliseconds(a.Took(x.now)),
			{Text: strconv.FormatFloat(times, 'f', 1, 64), Value: times}, plain(strings.ToLower(a.Level))})
	}
	sec.Table = t
	return sec
}

// kindNames are the kinds of tasks in the order of their indexes.
var kindNames = []string{"maps", "reduces"}

// distribution describes the times of attempts that succeeded.
func (x *attempts) distribution() *section {
	if x.stat[0].n+x.stat[1].n == 0 {
		return nil
	}
	sec := &section{ID: "times", Title: "Times of tasks", Folded: true}
	t := &table{ID: "times", Caption: "Times of attempts that succeeded", Columns: []column{{Key: "kind", Name: "Tasks"}, {Key: "count", Name: "Number", Number: true},
		{Key: "min_ms", Name: "Least", Number: true}, {Key: "q1_ms", Name: "1st quartile", Number: true}, {Key: "median_ms", Name: "Median", Number: true},
		{Key: "q3_ms", Name: "3rd quartile", Number: true}, {Key: "p90_ms", Name: "90 %", Number: true}, {Key: "max_ms", Name: "Most", Number: true}, {Key: "skew_ms", Name: "Skew", Number: true}}}
	var names []string
	var values [][]int64
	for k, st := range x.stat {
		if st.n == 0 {
			continue
		}
		names, values = append(names, kindNames[k]), append(values, x.times[k])
		t.Rows = append(t.Rows, []cell{plain(kindNames[k]), number(int64(st.n)), milliseconds(st.low), milliseconds(st.q1), milliseconds(st.median), milliseconds(st.q3), milliseconds(st.p90), milliseconds(st.high), milliseconds(st.high - st.median)})
	}
	sec.Notes = []string{"The skew is the longest time less the median: what the slowest task costs beyond a usual one."}
	sec.Chart = histogram("Number of tasks by their time", names, values, shortDuration)
	sec.Table = t
	return sec
}

// sizesSection describes what each map has produced for the shuffle.
func (x *attempts) sizesSection() *section {
	// summarize has sorted the sizes. Jobs without a shuffle have zeros only.
	if len(x.sizes) == 0 || x.sizes[len(x.sizes)-1] == 0 {
		return nil
	}
	st := x.size
	return &section{ID: "shuffle", Title: "Shuffle", Folded: true, Notes: []string{"Sizes of the map outputs that reduces fetch."},
		Facts: []fact{{"All map outputs", bytesCell(st.sum)}, {"Least", bytesCell(st.low)}, {"Median", bytesCell(st.median)}, {"Most", bytesCell(st.high)}},
		Chart: histogram("Number of maps by the size of their output", []string{"maps"}, [][]int64{x.sizes}, terminal.Bytes)}
}

// table lists the attempts that the URL selects, at most limit attempts if limit is
// positive, else a page.
func (x *attempts) table(u *url.URL, logs bool, limit int) *table {
	q := u.Query()
	t := &table{ID: "attempts", Caption: "Attempts", Empty: "No attempt matches.", Columns: []column{{Key: "attempt", Name: "Attempt"}, {Key: "kind", Name: "Kind"}, {Key: "state", Name: "State"},
		{Key: "node", Name: "Node"}, {Key: "level", Name: "Data"}, {Key: "progress", Name: "Progress"}, {Key: "started", Name: "Started"}, {Key: "took_ms", Name: "Time", Number: true},
		{Key: "output_bytes", Name: "Map output", Number: true}, {Key: "log", Name: "Log"}, {Key: "error", Name: "Error"}}}
	var selected []int
	kind, state, node, id, sorted := q.Get("kind"), q.Get("state"), q.Get("node"), q.Get("q"), q.Get("sort")
	for i := range x.list {
		a := &x.list[i]
		if (kind == "" || kind == kindWord(a)) && (state == "" || state == a.State) && (node == "" || node == a.Node) && strings.Contains(a.ID, id) {
			selected = append(selected, i)
		}
		// Without an order the first matches are the answer. A job of a hundred thousand attempts
		// need not be searched to its end for ten rows.
		if limit > 0 && sorted == "" && len(selected) == limit {
			break
		}
	}
	switch sorted {
	case "time":
		slices.SortStableFunc(selected, func(a, b int) int { return cmp.Compare(x.list[b].Took(x.now), x.list[a].Took(x.now)) })
	case "started":
		slices.SortStableFunc(selected, func(a, b int) int { return cmp.Compare(x.list[b].Started, x.list[a].Started) })
	}
	from, size := 0, limit
	if limit == 0 {
		from, size = offset(u), pageSize
	}
	now := time.UnixMilli(x.now)
	for _, i := range selected[min(from, len(selected)):min(from+size, len(selected))] {
		a := &x.list[i]
		log := cell{Text: "–", Value: ""}
		// Users who may not change the job may not read its logs. A link would lead them to an
		// error.
		if logs {
			log = linked("log", attemptPath(a.ID))
		}
		t.Rows = append(t.Rows, []cell{plain(a.ID), plain(kindWord(a)), {Text: attemptState(a), Value: a.State, Class: "state " + a.State}, linked(a.Node, nodePath(a.Node)), plain(strings.ToLower(a.Level)),
			bar(a.Progress, fmt.Sprintf("%.0f %%", 100*a.Progress)), moment(a.Started, now), milliseconds(a.Took(x.now)), bytesCell(a.OutputBytes), log, {Text: cut(a.Error, 200), Value: a.Error}})
	}
	if limit == 0 {
		t.paged(u, from, len(selected))
	}
	return t
}

// kindWord is the kind of an attempt's task.
func kindWord(a *source.Attempt) string {
	if a.Kind == 'r' {
		return "reduce"
	}
	return "map"
}

// attemptPath is the URL of an attempt's page.
func attemptPath(id string) string { return "/ui/attempts/" + url.PathEscape(id) }

// attemptList lists all attempts of a job.
func (s *Server) attemptList(r *http.Request) (*page, error) {
	j, err := s.source.Job(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	x, err := s.attemptsOf(r, j.Status, patience(r, j.Status))
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Attempts of " + j.Status.Id, Live: j.Status.EndedMs == 0,
		Crumbs: []link{{Text: "Jobs", Href: "/ui/jobs"}, {Text: j.Status.Id + " " + jobName(j.Status), Href: jobPath(j.Status.Id)}}}
	// As on the job's page: the list appears when the copy is ready.
	if x == nil {
		p.Live, p.Soon = true, true
		p.add(&section{ID: "attempts", Title: "Attempts", Notes: []string{beingRead}})
		return p, nil
	}
	v := r.URL.Query()
	states := append([]string{""}, slices.Sorted(maps.Keys(x.counts))...)
	p.Sections = []*section{
		{ID: "filter", Filter: &filter{Fields: []field{{Name: "q", Label: "Attempt", Value: v.Get("q"), Type: "search"}, {Name: "kind", Label: "Kind", Value: v.Get("kind"), Options: []string{"", "map", "reduce"}},
			{Name: "state", Label: "State", Value: v.Get("state"), Options: states}, {Name: "node", Label: "Node", Value: v.Get("node")}, {Name: "sort", Label: "Order", Value: cmp.Or(v.Get("sort"), "task"), Options: []string{"task", "time", "started"}}}}},
		{ID: "attempts", Title: "Attempts", Table: x.table(r.URL, j.MayChange, 0)},
	}
	return p, nil
}

// logShown is the length of the end of a log that a page shows, in bytes.
const logShown = 64 << 10

// tail keeps the last bytes that are written to it.
type tail struct {
	b   []byte
	cut bool
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if over := len(t.b) - logShown; over > 0 {
		// In place: the log of a job may be gigabytes, of which the page keeps 64 KiB.
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
	return len(b), nil
}

var _ io.Writer = (*tail)(nil)

// attemptLog shows the end of an attempt's log. The script follows it.
func (s *Server) attemptLog(r *http.Request) (*page, error) {
	id := r.PathValue("id")
	job, _, _ := strings.Cut(id, "_")
	var end tail
	if err := s.source.Log(r.Context(), id, false, &end); err != nil {
		return nil, err
	}
	path := attemptPath(id) + "/log"
	sec := &section{ID: "log", Title: "Log", Text: &text{Body: string(end.b), Label: "Log of " + id, Follow: path + "?follow"}, Links: []link{{Text: "The whole log as text", Href: path}, {Text: "What it does now, while it runs", Href: attemptPath(id) + "/stack"}}}
	if end.cut {
		sec.Notes = []string{"Only the end of the log is shown."}
	}
	return &page{Title: "Log of " + id, Crumbs: []link{{Text: "Jobs", Href: "/ui/jobs"}, {Text: job, Href: jobPath(job)}}, Sections: []*section{sec}}, nil
}

// countersSection lists the counters of a job.
func countersSection(st *slotwisev1.JobStatus) *section {
	t := &table{ID: "counters", Caption: "Counters", Columns: []column{{Key: "counter", Name: "Counter"}, {Key: "maps", Name: "Maps", Number: true}, {Key: "reduces", Name: "Reduces", Number: true}}}
	for _, c := range counterRows(st) {
		t.Rows = append(t.Rows, []cell{{Text: c.label, Value: c.key}, counterCell(c.key, c.maps), counterCell(c.key, c.reduces)})
	}
	// A job that has not begun has no counters.
	if len(t.Rows) == 0 {
		return nil
	}
	return &section{ID: "counters", Title: "Counters", Folded: true, Table: t}
}

// counterRow is one counter of both kinds of tasks.
type counterRow struct {
	key, label    string
	maps, reduces int64
}

// counterRows returns the counters that are not zero: the built-in ones, then the job's
// own by name.
func counterRows(st *slotwisev1.JobStatus) (rows []counterRow) {
	m, r := st.MapCounters.ProtoReflect(), st.ReduceCounters.ProtoReflect()
	fields := (&slotwisev1.Counters{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// Counters are found by reflection, so that a new one appears without a change here.
		if f.Kind() != protoreflect.Int64Kind || f.IsMap() {
			continue
		}
		if a, b := m.Get(f).Int(), r.Get(f).Int(); a != 0 || b != 0 {
			name := string(f.Name())
			rows = append(rows, counterRow{name, strings.ReplaceAll(strings.TrimSuffix(name, "_ns"), "_", " "), a, b})
		}
	}
	own := map[string][2]int64{}
	for name, n := range st.MapCounters.GetUser() {
		own[name] = [2]int64{n, own[name][1]}
	}
	for name, n := range st.ReduceCounters.GetUser() {
		own[name] = [2]int64{own[name][0], n}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		rows = append(rows, counterRow{name, cmp.Or(cut(name, 80), "(no name)"), own[name][0], own[name][1]})
	}
	return rows
}

// counterCell formats a counter in its unit, which its name ends with.
func counterCell(key string, n int64) cell {
	switch {
	// The names of counters end with their unit, so a new counter is shown in its unit without a change here.
	case strings.HasSuffix(key, "_ns"):
		return cell{Text: terminal.Duration(time.Duration(n)), Value: n}
	case strings.HasSuffix(key, "_bytes") || key == "bytes_read":
		return bytesCell(n)
	}
	return number(n)
}

// settings lists how the job was submitted.
func settings(spec *slotwisev1.JobSpec) *section {
	// The history has no description, and viewers without a right to change the job get none:
	// parameters may hold secrets.
	if spec == nil {
		return nil
	}
	t := &table{ID: "settings", Caption: "Settings", Columns: []column{{Key: "setting", Name: "Setting"}, {Key: "value", Name: "Value"}}}
	add := func(name, value string) {
		// Defaults would fill the table. The values 0 that mean something have cases of their own
		// below.
		if value != "" && value != "0" {
			t.Rows = append(t.Rows, []cell{plain(name), {Text: cut(value, 1000), Value: value}})
		}
	}
	prog := spec.Program
	add("app", prog.GetApp())
	params := prog.GetParams()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		add("param "+name, params[name])
	}
	add("splits", strconv.Itoa(max(len(spec.Splits), int(spec.Synthetic))))
	add("reduces", strconv.Itoa(int(spec.Reduces)))
	add("output format", spec.OutputRows)
	add("output codec", spec.OutputCodec)
	add("shuffle codec", spec.ShuffleCodec)
	add("most attempts of a task", strconv.Itoa(int(spec.MaxAttempts)))
	// 0 is a value here: reduces start at once.
	if spec.SlowStart != nil {
		add("slow start", strconv.FormatFloat(spec.GetSlowStart(), 'g', 4, 64))
	}
	if spec.TaskTimeoutMs > 0 {
		add("task time-out", shortDuration(spec.TaskTimeoutMs))
	}
	if spec.TaskMemory > 0 {
		add("memory of a task", terminal.Bytes(spec.TaskMemory))
	}
	add("processors of a task", strconv.Itoa(int(spec.TaskCpus)))
	if spec.NoSpeculation {
		add("speculation", "off")
	}
	return &section{ID: "settings", Title: "Settings", Folded: true, Table: t}
}

// priorities are the priorities that a job can have.
var priorities = []string{"VERY_LOW", "LOW", "NORMAL", "HIGH", "VERY_HIGH"}

// jobForms offers the actions on a job that has not ended.
func (s *Server) jobForms(j *source.Job) *section {
	if s.actor == nil || !j.MayChange || j.Past || j.Status.EndedMs > 0 {
		return nil
	}
	path := jobPath(j.Status.Id)
	return &section{ID: "actions", Forms: []form{
		{Summary: "Priority", Action: path + "/priority", Button: "Change", Fields: []field{{Name: "priority", Label: "Priority", Value: cmp.Or(j.Status.Priority, "NORMAL"), Options: priorities}}},
		{Summary: "Move", Action: path + "/move", Button: "Move", Fields: []field{{Name: "pool", Label: "Pool", Value: j.Status.Pool, Required: true}}},
		// The button names the job, because a user may have several pages open.
		{Summary: "Kill", Action: path + "/kill", Button: "Kill " + j.Status.Id, Danger: true, Note: "Running attempts end, and the output is removed.", Fields: []field{{Name: "reason", Label: "Reason", Value: ""}}},
	}}
}

func (s *Server) kill(r *http.Request) (string, error) {
	id := r.PathValue("id")
	return jobPath(id) + "?done=kill", s.actor.Kill(r.Context(), id, cut(r.PostForm.Get("reason"), 500))
}

func (s *Server) priority(r *http.Request) (string, error) {
	id := r.PathValue("id")
	return jobPath(id) + "?done=priority", s.actor.SetPriority(r.Context(), id, r.PostForm.Get("priority"))
}

func (s *Server) move(r *http.Request) (string, error) {
	id, pool := r.PathValue("id"), r.PostForm.Get("pool")
	if pool == "" {
		return "", connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("name the pool that %s moves to", id))
	}
	return jobPath(id) + "?done=move", s.actor.Move(r.Context(), id, pool)
}
