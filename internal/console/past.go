package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// history lists ended jobs.
func (s *Server) history(r *http.Request) (*page, error) {
	v, now := r.URL.Query(), time.Now()
	from := offset(r.URL)
	q := source.Query{Text: v.Get("q"), User: v.Get("user"), Pool: v.Get("pool"), State: v.Get("state"), Offset: from, Limit: pageSize}
	var err error
	if q.From, _, err = day(v, "from", now.Location()); err != nil {
		return nil, err
	}
	// The user names a day, and the whole day belongs to the range.
	if _, q.To, err = day(v, "to", now.Location()); err != nil {
		return nil, err
	}
	list, err := s.source.History(r.Context(), q)
	if err != nil {
		return nil, err
	}
	t := endedTable(list.List, now)
	t.paged(r.URL, from, list.Total)
	t.Pick = &picker{Action: "/ui/compare"}
	f := jobFilter(&q)
	// Jobs that have not ended are not in the history.
	f.Fields[3].Options = []string{"", "succeeded", "failed", "killed"}
	f.Fields = append(f.Fields, field{Name: "from", Label: "Submitted from", Value: v.Get("from"), Type: "date"}, field{Name: "to", Label: "until", Value: v.Get("to"), Type: "date"})
	p := &page{Title: "History"}
	p.add(&section{ID: "filter", Filter: f}, &section{ID: "history", Title: "Ended jobs", Notes: notes(list.Note), Table: t})
	// Runs of one name in simulations differ by policy and not by time, so they have no trend.
	if !s.results {
		q.Offset, q.Limit = 0, trendJobs
		recent, err := s.source.History(r.Context(), q)
		if err != nil {
			return nil, err
		}
		p.add(trends(recent.List, r.URL.Path))
	}
	p.add(&section{ID: "compare", Title: "Compare two runs", Folded: true, Filter: &filter{Action: "/ui/compare", Button: "Compare", Fields: []field{{Name: "a", Label: "Job", Value: "", Required: true}, {Name: "b", Label: "with job", Value: "", Required: true}}}})
	return p, nil
}

// trendJobs is the number of the latest jobs from which the trends of a list are worked out.
const trendJobs = 200

// trends compares the runs of each name among jobs that have ended, the newest first. It returns
// nil if no name has several runs that succeeded.
func trends(jobs []*slotwisev1.JobStatus, path string) *section {
	runs := map[string][]int64{}
	var names []string
	// Oldest first, so that the line of a name runs forward in time.
	for _, j := range slices.Backward(jobs) {
		if j.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED && j.EndedMs > 0 {
			runs[j.Name] = append(runs[j.Name], j.EndedMs-j.SubmittedMs)
		}
	}
	for _, j := range jobs { // the names of the newest jobs first
		if len(runs[j.Name]) > 1 && !slices.Contains(names, j.Name) {
			// A single run has no trend.
			names = append(names, j.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	t := &table{ID: "trends", Caption: "Times of jobs by name", Columns: []column{{Key: "name", Name: "Name"}, {Key: "runs", Name: "Runs", Number: true}, {Key: "median_ms", Name: "Median before", Number: true, Minor: true},
		{Key: "last_ms", Name: "Last run", Number: true}, {Key: "change", Name: "Change", Number: true}, {Key: "trend", Name: "All runs", PageOnly: true}}}
	for _, name := range names[:min(len(names), pageSize/2)] {
		all := runs[name]
		last, before := all[len(all)-1], summarize(slices.Clone(all[:len(all)-1])).median
		c := change(before, last, milliseconds)
		// Runs of one job vary by a few percent. A colour marks more than a tenth.
		if size := max(last-before, before-last); size > timeNoise && 10*size > before {
			c.Class = map[bool]string{true: "more", false: "less"}[last > before]
		}
		label := filterLink{path}.to("q", name, cmp.Or(name, "(no name)"))
		// A line of 96 pixels can show about forty points.
		t.Rows = append(t.Rows, []cell{label, number(int64(len(all))), milliseconds(before), milliseconds(last), c, {Text: shortDuration(slices.Min(all)) + " to " + shortDuration(slices.Max(all)), Spark: all[max(0, len(all)-40):]}})
	}
	return &section{ID: "trends", Title: "Times by name", Notes: []string{fmt.Sprintf("Of the latest %s of this list, those that succeeded.", terminal.Plural(len(jobs), "job"))}, Table: t}
}

// endedTable lists ended jobs, without the columns that only other jobs can have.
func endedTable(jobs []*slotwisev1.JobStatus, now time.Time) *table {
	t := jobTable("history", "Ended jobs", jobs, filterLink{"/ui/history"}, now)
	const first, after = 10, 13 // the columns of forecasts and of what a job waits for
	t.Columns = slices.Delete(t.Columns, first, after)
	t.Columns[first] = column{Key: "message", Name: "Message"}
	for i, row := range t.Rows {
		t.Rows[i] = slices.Delete(row, first, after)
	}
	return t
}

// day returns the first and the last ms of the day that a parameter names, or zeros without the parameter.
func day(v url.Values, name string, loc *time.Location) (first, last int64, err error) {
	if v.Get(name) == "" {
		return 0, 0, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, v.Get(name), loc)
	if err != nil {
		return 0, 0, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s=%q: write a date as 2026-12-31", name, cut(v.Get(name), 40)))
	}
	// The next day's start: a day on which clocks are set back has 25 hours.
	return t.UnixMilli(), t.AddDate(0, 0, 1).UnixMilli() - 1, nil
}

// compare shows two jobs side by side.
func (s *Server) compare(r *http.Request) (*page, error) {
	v, now := r.URL.Query(), time.Now()
	var jobs [2]*source.Job
	var tried [2]*attempts
	ids := []string{v.Get("a"), v.Get("b")}
	// The boxes of a list send the jobs that are checked.
	if checked := v["job"]; len(checked) > 0 {
		ids = checked
	}
	if len(ids) != 2 {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s checked: check two to compare", terminal.Plural(len(ids), "job")))
	}
	for i, id := range ids {
		var err error
		if jobs[i], err = s.source.Job(r.Context(), id); err != nil {
			return nil, err
		}
		// Waits for the copies: a comparison with one side missing helps less than a slow one.
		if tried[i], err = s.attemptsOf(r, jobs[i].Status, copyTimeout); err != nil {
			return nil, err
		}
	}
	a, b := jobs[0].Status, jobs[1].Status
	t := &table{ID: "compare", Caption: "Two runs side by side", Columns: []column{{Key: "what", Name: "What"}, {Key: "a", Name: a.Id, Number: true}, {Key: "b", Name: b.Id, Number: true}, {Key: "change", Name: "Change", Number: true}}}
	words := func(what string, of func(*slotwisev1.JobStatus) cell) {
		t.Rows = append(t.Rows, []cell{plain(what), of(a), of(b), plain("")})
	}
	numbers := func(what string, x, y int64, show func(int64) cell) {
		t.Rows = append(t.Rows, []cell{plain(what), show(x), show(y), change(x, y, show)})
	}
	// costs adds a row of numbers of which less is better. A job without such a value has a
	// negative number: the time of its maps if none succeeded, for example. Differences of up
	// to noise count as equal.
	costs := func(what string, x, y, noise int64, show func(int64) cell) {
		row := []cell{plain(what), plain("none"), plain("none"), plain("")}
		for i, n := range []int64{x, y} {
			if n >= 0 {
				row[1+i] = show(n)
			}
		}
		if x >= 0 && y >= 0 {
			row[3] = change(x, y, show)
			// Two runs of one job never take exactly the same time. Colour marks differences that mean
			// something.
			if max(y-x, x-y) > noise {
				row[3].Class = map[int]string{1: "more", -1: "less"}[cmp.Compare(y, x)]
			}
		}
		t.Rows = append(t.Rows, row)
	}
	words("name", func(j *slotwisev1.JobStatus) cell { return cell{Text: jobName(j), Value: j.Name, Href: jobPath(j.Id)} })
	words("user", func(j *slotwisev1.JobStatus) cell { return plain(cut(j.User, 40)) })
	words("pool", func(j *slotwisev1.JobStatus) cell { return plain(cut(poolName(j.Pool), 40)) })
	words("state", func(j *slotwisev1.JobStatus) cell { return state(j.State) })
	words("submitted", func(j *slotwisev1.JobStatus) cell { return moment(j.SubmittedMs, now) })
	costs("time from submission to end", timeToEnd(a), timeToEnd(b), timeNoise, milliseconds)
	costs("time until the first attempt", timeToStart(a), timeToStart(b), timeNoise, milliseconds)
	numbers("input", a.InputBytes, b.InputBytes, bytesCell)
	for k, kind := range kindNames {
		x, y := tried[0].stat[k], tried[1].stat[k]
		numbers(kind+" that succeeded", int64(x.n), int64(y.n), number)
		// Without a success there is no median, and 0 would look like the better run.
		if x.n == 0 {
			x.median, x.high = -1, -1
		}
		if y.n == 0 {
			y.median, y.high = -1, -1
		}
		costs("median time of "+kind, x.median, y.median, timeNoise, milliseconds)
		costs("longest time of "+kind, x.high, y.high, timeNoise, milliseconds)
	}
	costs("stragglers", stragglerCount(tried[0]), stragglerCount(tried[1]), 0, number)
	costs("failed attempts", int64(a.Maps.GetFailed()+a.Reduces.GetFailed()), int64(b.Maps.GetFailed()+b.Reduces.GetFailed()), 0, number)
	addCounters(a, b, numbers)
	return &page{Title: "Compare " + a.Id + " and " + b.Id, Crumbs: []link{{Text: "History", Href: "/ui/history"}}, Sections: []*section{{ID: "compare", Title: "Side by side", Table: t}}}, nil
}

// timeToEnd returns the time from a job's submission to its end in ms, -1 before its end.
func timeToEnd(j *slotwisev1.JobStatus) int64 {
	if j.EndedMs == 0 {
		return -1
	}
	return max(0, j.EndedMs-j.SubmittedMs)
}

// timeToStart returns the time from a job's submission to its first attempt in ms, -1 before
// that attempt.
func timeToStart(j *slotwisev1.JobStatus) int64 {
	if j.StartedMs == 0 {
		return -1
	}
	return max(0, j.StartedMs-j.SubmittedMs)
}

// stragglerCount returns the number of a job's stragglers, -1 if no task has succeeded that
// an attempt could be compared with.
func stragglerCount(a *attempts) int64 {
	if a.stat[0].n+a.stat[1].n == 0 {
		return -1
	}
	return int64(len(a.slow))
}

// addCounters compares the sums of counters over both kinds of tasks.
func addCounters(a, b *slotwisev1.JobStatus, add func(string, int64, int64, func(int64) cell)) {
	other := map[string]int64{}
	rows := counterRows(b)
	for _, c := range rows {
		other[c.key] = c.maps + c.reduces
	}
	show := func(key string) func(int64) cell { return func(n int64) cell { return counterCell(key, n) } }
	// Counters that only the second job has come last, below the rows in the order of the first.
	for _, c := range counterRows(a) {
		add(c.label, c.maps+c.reduces, other[c.key], show(c.key))
		delete(other, c.key)
	}
	for _, c := range rows {
		if n, left := other[c.key]; left {
			add(c.label, 0, n, show(c.key))
		}
	}
}

// timeNoise is the difference in ms between two times that says nothing about a job.
const timeNoise = 20

// change is the difference between two numbers in percent, or as a number if the first one is
// 0. It has no color, because more records or bytes can be good or bad.
func change(a, b int64, show func(int64) cell) cell {
	switch {
	case a == b:
		return cell{Text: "same", Value: 0.0}
	// A percentage of nothing is infinite.
	case a == 0:
		return cell{Text: "+" + show(b).Text, Value: "new"}
	}
	f := float64(b-a) / float64(a)
	return cell{Text: fmt.Sprintf("%+.0f %%", 100*f), Value: f}
}
