package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// ranges are the spans of time that the overview can show.
var ranges = []struct {
	key, name string
	span      time.Duration
}{{"10m", "10 minutes", 10 * time.Minute}, {"30m", "30 minutes", 30 * time.Minute}, {"6h", "6 hours", 6 * time.Hour}, {"24h", "24 hours", 24 * time.Hour}}

// overview shows the use of slots, the queue, and all nodes.
func (s *Server) overview(r *http.Request) (*page, error) {
	ctx, now := r.Context(), time.Now()
	use, err := s.source.Use(ctx)
	if err != nil {
		return nil, err
	}
	nodes, _, err := s.source.Nodes(ctx, "")
	if err != nil {
		return nil, err
	}
	policy, err := s.source.Policy(ctx)
	if err != nil {
		return nil, err
	}
	from := offset(r.URL)
	// All four calls come first: a page with half of the numbers would look like an idle
	// cluster.
	queue, err := s.source.Jobs(ctx, source.Query{Live: true, Offset: from, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	maps, reduces := 0, 0
	for _, p := range use.Running {
		maps, reduces = maps+p.Maps, reduces+p.Reduce
	}
	p := &page{Title: "Overview", Live: true, Sections: []*section{{
		ID: "now", Title: "Now", Facts: []fact{
			{"Map slots in use", bar(part(maps, use.Map), fmt.Sprintf("%d of %d", maps, use.Map))},
			{"Reduce slots in use", bar(part(reduces, use.Reduce), fmt.Sprintf("%d of %d", reduces, use.Reduce))},
			{"Jobs", plain(fmt.Sprintf("%d running, %d waiting, %d committing", use.Started, use.Waiting, use.Closing))},
			{"Nodes alive", plain(fmt.Sprintf("%d of %d", use.Alive, use.Nodes))},
			{"Policy", linked(policy.Name, "/ui/policy")},
		},
	}}}
	p.Sections = append(p.Sections, s.useSections(r.URL, now)...)
	t := jobTable("queue", "Queue: jobs that have not ended", queue.List, filterLink{"/ui/jobs"}, now)
	t.Empty = "No job runs or waits."
	t.paged(r.URL, from, queue.Total)
	p.Sections = append(p.Sections, &section{ID: "queue", Title: "Queue", Table: t}, nodesAtAGlance(nodes))
	return p, nil
}

// useSections draws the slots in use, by kind and by pool.
func (s *Server) useSections(u *url.URL, now time.Time) []*section {
	span, links := ranges[0].span, []link{}
	for i, x := range ranges {
		current := u.Query().Get("range") == x.key || i == 0 && u.Query().Get("range") == ""
		if current {
			span = x.span
		}
		links = append(links, link{Text: "last " + x.name, Href: with(u, "range", x.key) + "#use", Current: current})
	}
	list := s.samples.since(now, span)
	if len(list) == 0 {
		return nil
	}
	kind := useChart(list, byKind(list), "Slots in use by kind", now, span)
	pool := useChart(list, byPool(list), "Slots in use by pool", now, span)
	kind.Desc = "The table below it has the numbers."
	return []*section{
		{ID: "use", Title: "Slots in use by kind", Links: links, Chart: kind, Table: useTable(list)},
		{ID: "pools", Title: "Slots in use by pool", Chart: pool},
	}
}

// useTable lists the newest samples, for readers of tables and for programs.
func useTable(list []sample) *table {
	t := &table{ID: "use", Caption: "Slots in use", Folded: true, Columns: []column{{Key: "time", Name: "Time"}, {Key: "maps", Name: "Maps", Number: true}, {Key: "reduces", Name: "Reduces", Number: true}, {Key: "slots", Name: "Slots", Number: true}}}
	kinds := byKind(list)
	for i := len(list) - 1; i >= 0 && len(t.Rows) < pageSize; i-- {
		t.Rows = append(t.Rows, []cell{{Text: list[i].at.Format(time.TimeOnly), Value: list[i].at.UnixMilli()},
			number(int64(kinds[0].values[i])), number(int64(kinds[1].values[i])), number(int64(list[i].use.Map + list[i].use.Reduce))})
	}
	return t
}

// part returns n/of, or 0 if of is not positive.
func part(n, of int) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// stateName is a job's state for people.
func stateName(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// state is a job's state with the class of its colour.
func state(s slotwisev1.JobState) cell { return classed(stateName(s), "state "+stateName(s)) }

// priorityName is a priority as flags have it.
func priorityName(p string) string { return strings.ToLower(strings.ReplaceAll(p, "_", "-")) }

// jobName is the name of a job, shortened. Names come from users.
func jobName(j *slotwisev1.JobStatus) string {
	if j.Name == "" {
		return "(no name)"
	}
	return cut(j.Name, 60)
}

// jobPath is the URL of a job's page.
func jobPath(id string) string { return "/ui/jobs/" + url.PathEscape(id) }

// filterLink makes cells that lead to the jobs of a list, at a path, which share a value.
type filterLink struct{ path string }

// to is a cell with a text that leads to the jobs whose parameter has the value.
func (f filterLink) to(parameter, value, text string) cell {
	c := cell{Text: cut(text, 30), Value: text}
	// An empty value selects all jobs, and a list takes no longer text.
	if value != "" && len(value) <= 200 {
		c.Href = f.path + "?" + url.Values{parameter: {value}}.Encode()
	}
	return c
}

// phase is the progress of the tasks of a kind.
func phase(t *slotwisev1.TaskCounts) cell {
	if t.GetTotal() == 0 {
		return cell{Text: "none", Value: 0.0}
	}
	return bar(t.GetProgress(), fmt.Sprintf("%d/%d", t.GetDone(), t.GetTotal()))
}

// jobAge returns the time from a job's submission to its end or to now, in ms.
func jobAge(j *slotwisev1.JobStatus, now time.Time) int64 {
	end := j.EndedMs
	if end == 0 {
		end = now.UnixMilli()
	}
	return max(0, end-j.SubmittedMs)
}

// jobTable lists jobs. links leads to the jobs of a list with the same user, pool or name.
func jobTable(id, caption string, jobs []*slotwisev1.JobStatus, links filterLink, now time.Time) *table {
	t := &table{ID: id, Caption: caption, Empty: "No job matches.", Columns: []column{
		{Key: "job", Name: "Job"}, {Key: "name", Name: "Name"}, {Key: "user", Name: "User", Minor: true}, {Key: "pool", Name: "Pool"}, {Key: "priority", Name: "Priority", DataOnly: true},
		{Key: "state", Name: "State"}, {Key: "maps", Name: "Maps"}, {Key: "reduces", Name: "Reduces"}, {Key: "submitted", Name: "Submitted", Minor: true},
		{Key: "took_ms", Name: "Time", Number: true}, {Key: "position", Name: "Place", DataOnly: true}, {Key: "end", Name: "Expected end", DataOnly: true}, {Key: "waiting", Name: "Waits for", DataOnly: true},
		{Key: "outlook", Name: "End and reason", PageOnly: true},
	}}
	for _, j := range jobs {
		// A column of the usual priority would only take room.
		if p := j.Priority; p != "" && p != "NORMAL" {
			t.Columns[4].DataOnly = false
		}
		why := j.Waiting
		if j.EndedMs > 0 {
			why = j.Message
		}
		place := cell{Text: "–", Value: 0}
		if n := j.Forecast.GetPosition(); n > 0 {
			place = number(int64(n))
		}
		t.Rows = append(t.Rows, []cell{
			linked(j.Id, jobPath(j.Id)), links.to("q", j.Name, jobName(j)), links.to("user", j.User, j.User), links.to("pool", j.Pool, poolName(j.Pool)),
			plain(priorityName(j.Priority)), state(j.State), phase(j.Maps), phase(j.Reduces),
			moment(j.SubmittedMs, now), milliseconds(jobAge(j, now)), place, expectedEnd(j, now), {Text: cut(why, 160), Value: why}, {Text: outlook(j, now), Value: why},
		})
	}
	return t
}

// outlook says in one text when a job is expected to end, its place among the waiting jobs and
// why it waits, or how it has ended.
func outlook(j *slotwisev1.JobStatus, now time.Time) string {
	if j.EndedMs > 0 {
		return cut(j.Message, 400)
	}
	var parts []string
	if n := j.Forecast.GetPosition(); n > 0 {
		parts = append(parts, fmt.Sprintf("number %d of the waiting jobs", n))
	}
	if f := j.Forecast; f.GetKnown() || f.GetNever() {
		parts = append(parts, "ends "+expectedEnd(j, now).Text)
	}
	if why := cmp.Or(j.Waiting, j.Forecast.GetUnknown()); why != "" {
		parts = append(parts, cut(why, 400))
	}
	return strings.Join(parts, "; ")
}

// expectedEnd is the forecast of a job's end, short. Programs get the median in ms since
// the Unix epoch, or 0.
func expectedEnd(j *slotwisev1.JobStatus, now time.Time) cell {
	f := j.Forecast
	switch {
	case j.EndedMs > 0:
		return cell{Text: "–", Value: int64(0)}
	case f.GetNever():
		return cell{Text: "never, as the cluster is", Value: int64(0)}
	case !f.GetKnown():
		return cell{Text: "unknown", Value: int64(0)}
	}
	return cell{Text: fmt.Sprintf("in %s (%s to %s)", left(f.EndMs, now), left(f.EarlyMs, now), left(f.LateMs, now)), Value: f.EndMs}
}

// left is the time until a moment.
func left(ms int64, now time.Time) string { return shortDuration(max(0, ms-now.UnixMilli())) }

// jobs lists the jobs in memory.
func (s *Server) jobs(r *http.Request) (*page, error) {
	v := r.URL.Query()
	from := offset(r.URL)
	q := source.Query{Text: v.Get("q"), User: v.Get("user"), Pool: v.Get("pool"), State: v.Get("state"), Offset: from, Limit: pageSize}
	list, err := s.source.Jobs(r.Context(), q)
	if err != nil {
		return nil, err
	}
	t := jobTable("jobs", "Jobs", list.List, filterLink{"/ui/jobs"}, time.Now())
	t.paged(r.URL, from, list.Total)
	return &page{Title: "Jobs", Live: true, Sections: []*section{
		{ID: "filter", Filter: jobFilter(&q)},
		{ID: "jobs", Title: terminal.Plural(list.Total, "job"), Notes: notes(list.Note), Table: t, Links: []link{{Text: "Older jobs are in the history", Href: "/ui/history"}}},
	}}, nil
}

// notes returns the texts that are not empty.
func notes(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

// jobStates are the states that lists can be filtered by.
var jobStates = []string{"", "waiting", "running", "committing", "succeeded", "failed", "killed"}

// jobFilter is the form of a list of jobs.
func jobFilter(q *source.Query) *filter {
	return &filter{Fields: []field{
		{Name: "q", Label: "Job or name", Value: q.Text, Type: "search"}, {Name: "user", Label: "User", Value: q.User},
		{Name: "pool", Label: "Pool", Value: q.Pool}, {Name: "state", Label: "State", Value: q.State, Options: jobStates},
	}}
}

// maxTiles bounds the nodes at a glance.
const maxTiles = 400

// nodesAtAGlance shows a tile for each node.
func nodesAtAGlance(nodes []*slotwisev1.NodeStatus) *section {
	sec := &section{ID: "nodes", Title: "Nodes", Links: []link{{Text: "All nodes as a table", Href: "/ui/nodes"}}}
	for i, n := range nodes {
		if i == maxTiles {
			sec.Notes = []string{fmt.Sprintf("The first %d of %d nodes.", maxTiles, len(nodes))}
			break
		}
		busy := int(n.Maps + n.Reduces)
		slots := int(n.MapSlots + n.ReduceSlots)
		sec.Tiles = append(sec.Tiles, tile{Name: cmp.Or(cut(n.Name, 24), "(no name)"), Href: nodePath(n.Name), State: n.State, Busy: fmt.Sprintf("%d of %d", busy, slots),
			Bar: part(busy, slots), Class: strings.ReplaceAll(n.State, " ", "-")})
	}
	if len(nodes) == 0 {
		sec.Notes = []string{"No worker has registered."}
	}
	return sec
}

// tile shows one node.
type tile struct {
	Name, Href, State, Busy, Class string
	Bar                            float64
}

// nodePath is the URL of a node's page.
func nodePath(name string) string { return "/ui/nodes/" + url.PathEscape(name) }

// percent formats a share.
func percent(f float64) cell {
	return cell{Text: strconv.FormatFloat(100*f, 'f', 0, 64) + " %", Value: f}
}
