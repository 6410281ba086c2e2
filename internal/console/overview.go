package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

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
	// A page shows the head of the queue. A program gets as much as from the list of jobs.
	from, limit := 0, queueShown
	if r.URL.Query().Get("format") != "" {
		from, limit = offset(r.URL), pageSize
	}
	// All calls come first: a page with half of the numbers would look like an idle
	// cluster.
	queue, err := s.source.Jobs(ctx, source.Query{Live: true, Offset: from, Limit: limit})
	if err != nil {
		return nil, err
	}
	// One more than the list shows, to know whether a link to the others is needed.
	failed, err := s.source.Jobs(ctx, source.Query{State: source.StateName(slotwisev1.JobState_JOB_STATE_FAILED), Limit: mostFailed + 1})
	if err != nil {
		return nil, err
	}
	nodes = inOrder(nodes)
	maps, reduces := 0, 0
	for _, p := range use.Pools {
		maps, reduces = maps+p.Maps, reduces+p.Reduce
	}
	p := &page{Title: "Overview", Live: true, Lead: &section{ID: "now", Facts: []fact{
		// A policy that lends slots runs more maps than there are map slots, so this is no share.
		{"Maps running", bar(part(maps, use.Map), fmt.Sprintf("%d on %s", maps, terminal.Plural(use.Map, "slot")))},
		{"Reduces running", bar(part(reduces, use.Reduce), fmt.Sprintf("%d on %s", reduces, terminal.Plural(use.Reduce, "slot")))},
		{"Jobs", linked(jobCounts(&use, &queue), "/ui/jobs")},
		{"Nodes", linked(nodeCounts(nodes), "/ui/nodes")},
		{"Policy", linked(policy.Name, "/ui/policy")},
	}}}
	p.add(attention(nodes, queue.List, failed.List, now))
	t := jobTable("queue", "Queue: jobs that have not ended", queue.List, filterLink{"/ui/jobs"}, now)
	t.Empty = "No job runs or waits. slotwise submit sends one."
	sec := &section{ID: "queue", Title: "Queue", Table: t}
	if queue.Total > len(queue.List) {
		sec.Links = []link{{Text: fmt.Sprintf("All %d jobs that have not ended", queue.Total), Href: "/ui/jobs"}}
	}
	if queue.Total > 0 && s.actor != nil {
		sec.Links = append(sec.Links, link{Text: "What would two more nodes change?", Href: "/ui/whatif?nodes=2"})
	}
	if limit == pageSize {
		t.paged(r.URL, from, queue.Total)
	}
	p.add(sec)
	p.add(s.useSections(r.URL, now)...)
	p.add(nodesAtAGlance(nodes))
	return p, nil
}

// queueShown is the number of jobs at the head of the queue that the overview shows.
const queueShown = 10

// jobCounts counts the jobs by state. If the page lists the whole queue, the list is counted: the
// use of slots was read a moment earlier and knows no chains, so its numbers could contradict it.
func jobCounts(use *source.Use, queue *source.Jobs) string {
	running, waiting, committing := use.Started, use.Waiting, use.Closing
	if queue.Total == len(queue.List) {
		running, waiting, committing = 0, 0, 0
		for _, j := range queue.List {
			switch j.State {
			case slotwisev1.JobState_JOB_STATE_WAITING:
				waiting++
			case slotwisev1.JobState_JOB_STATE_COMMITTING:
				committing++
			default:
				running++
			}
		}
	}
	var parts []string
	for i, n := range []int{running, waiting, committing} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, []string{"running", "waiting", "committing"}[i]))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// nodeCounts counts the nodes by state, the states that need attention first.
func nodeCounts(nodes []*slotwisev1.NodeStatus) string {
	var parts []string
	// inOrder has put equal states side by side, unknown ones too, so each state is counted once.
	for i := 0; i < len(nodes); {
		from, state := i, nodes[i].State
		for i < len(nodes) && nodes[i].State == state {
			i++
		}
		parts = append(parts, fmt.Sprintf("%d %s", i-from, state))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

const (
	// mostAttention bounds the nodes, and the jobs that never end, in the list of what needs attention.
	mostAttention = 8
	// mostFailed jobs that failed in the last failedFor are in the list, too.
	mostFailed = 3
	failedFor  = time.Hour
)

// attention lists the nodes and jobs that somebody should look at, or returns nil. failed are the jobs
// that failed last, the latest first.
func attention(nodes []*slotwisev1.NodeStatus, jobs, failed []*slotwisev1.JobStatus, now time.Time) *section {
	t := &table{ID: "attention", Caption: "What needs attention", Columns: []column{{Key: "what", Name: "Node or job"}, {Key: "state", Name: "State"}, {Key: "reason", Name: "Because"}, {Key: "since_ms", Name: "For", Number: true, Minor: true}}}
	for _, n := range nodes {
		if n.State != "alive" {
			t.Rows = append(t.Rows, []cell{linked(n.Name, nodePath(n.Name)), nodeState(n), plain(n.Reason), milliseconds(n.SinceMs)})
		}
	}
	for _, j := range jobs {
		if j.Forecast.GetNever() {
			t.Rows = append(t.Rows, []cell{linked(j.Id, jobPath(j.Id)), classed("never ends", "state lost"), plain(cmp.Or(j.Waiting, "the job cannot end on the cluster as it is")), milliseconds(0)})
		}
	}
	sec := &section{ID: "attention", Title: "Needs attention", Table: t}
	// Before the failed jobs are added: a rack that is lost must not push them off the page.
	if len(t.Rows) > mostAttention {
		sec.Notes = []string{fmt.Sprintf("The first %d of %d. The list of nodes has the others.", mostAttention, len(t.Rows))}
		t.Rows = t.Rows[:mostAttention]
	}
	for i, j := range failed {
		if ago := now.UnixMilli() - j.EndedMs; j.EndedMs > 0 && ago < failedFor.Milliseconds() {
			if i == mostFailed {
				sec.Links = []link{{Text: "All jobs that failed", Href: "/ui/jobs?state=failed"}}
				break
			}
			t.Rows = append(t.Rows, []cell{linked(j.Id+" "+cut(jobName(j), 40), jobPath(j.Id)), state(j.State), plain(cut(cmp.Or(j.LastError, j.Message), 200)), milliseconds(ago)})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return sec
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
	// A master without workers has nothing to draw.
	if !slices.ContainsFunc(list, func(x sample) bool { return x.use.Map+x.use.Reduce > 0 }) {
		return nil
	}
	kind := useChart(list, byKind(list), "Slots in use by kind", true, now, span)
	// Kind is the first chart and the only one with a table: its two layers add up to the numbers that
	// programs want.
	pool := useChart(list, byPool(list), "Slots in use by pool", true, now, span)
	kind.Desc = "The table below it has the numbers."
	out := []*section{
		{ID: "use", Title: "Slots in use by kind", Half: true, Links: links, Chart: kind, Table: useTable(list)},
		{ID: "pools", Title: "Slots in use by pool", Half: true, Chart: pool},
	}
	pools, users := func(u *source.Use) []source.Share { return u.Pools }, func(u *source.Use) []source.Share { return u.Users }
	// Folded: by user and waiting are looked at when the first two charts have shown that something is odd.
	for _, x := range []struct {
		id, title string
		slots     bool
		layers    []series
	}{
		{"users", "Slots in use by user", true, byShare(list, users, inUse)},
		{"waiting-pools", "Waiting tasks by pool", false, byShare(list, pools, waitingTasks)},
		{"waiting-users", "Waiting tasks by user", false, byShare(list, users, waitingTasks)},
	} {
		out = append(out, &section{ID: x.id, Title: x.title, Folded: true, Chart: useChart(list, x.layers, x.title, x.slots, now, span)})
	}
	return out
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

// state is a job's state with the class of its colour.
func state(s slotwisev1.JobState) cell {
	return classed(source.StateName(s), "state "+source.StateName(s))
}

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

// whole is as to, with a text that is cut later.
func (f filterLink) whole(parameter, value, text string) cell {
	c := f.to(parameter, value, text)
	c.Text = cut(text, mostHeading)
	return c
}

// phase is the progress of the tasks of a kind.
func phase(t *slotwisev1.TaskCounts) cell {
	if t.GetTotal() == 0 {
		return cell{Text: "none", Value: 0.0}
	}
	return bar(t.GetProgress(), fmt.Sprintf("%d/%d", t.GetDone(), t.GetTotal()))
}

// jobTable lists jobs. links leads to the jobs of a list with the same user, pool or name.
func jobTable(id, caption string, jobs []*slotwisev1.JobStatus, links filterLink, now time.Time) *table {
	t := &table{ID: id, Caption: caption, Empty: "No job matches.", Columns: []column{
		{Key: "job", Name: "Job"}, {Key: "name", Name: "Name"}, {Key: "user", Name: "User", Minor: true}, {Key: "pool", Name: "Pool"}, {Key: "priority", Name: "Priority", DataOnly: true},
		{Key: "state", Name: "State"}, {Key: "maps", Name: "Maps"}, {Key: "reduces", Name: "Reduces"}, {Key: "submitted", Name: "Submitted", Minor: true},
		{Key: "took_ms", Name: "Time", Number: true}, {Key: "position", Name: "Place", DataOnly: true}, {Key: "end", Name: "Expected end", DataOnly: true}, {Key: "waiting", Name: "Waits for", DataOnly: true},
		// Programs get the three columns above. A page has one text instead, because three columns of
		// sentences would leave no room for the others.
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
			plain(source.PriorityName(j.Priority)), state(j.State), phase(j.Maps), phase(j.Reduces),
			moment(j.SubmittedMs, now), milliseconds(source.Age(j, now).Milliseconds()), place, expectedEnd(j, now), {Text: cut(why, 160), Value: why}, {Text: outlook(j, now), Value: why},
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
	// "ends unknown" says nothing; the reason follows below instead.
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
	// A moment that has passed shows 0 ms until the master's next forecast.
	return cell{Text: fmt.Sprintf("in %s (%s to %s)", left(f.EndMs, now), left(f.EarlyMs, now), left(f.LateMs, now)), Value: f.EndMs}
}

// left is the time until a moment.
func left(ms int64, now time.Time) string { return shortDuration(max(0, ms-now.UnixMilli())) }

// sortedJobs bounds the jobs that a list sorts by a column. The status of each costs the master
// a walk through the policy's order, and other requests wait meanwhile.
const sortedJobs = 400

// jobs lists the jobs in memory.
func (s *Server) jobs(r *http.Request) (*page, error) {
	v := r.URL.Query()
	from, now := offset(r.URL), time.Now()
	q := source.Query{Text: v.Get("q"), User: v.Get("user"), Pool: v.Get("pool"), State: v.Get("state"), Offset: from, Limit: pageSize}
	sorted := v.Get("sort") != ""
	if sorted {
		// The source orders by age alone, so the jobs are sorted here and the page is cut from the result.
		q.Offset, q.Limit = 0, sortedJobs
	}
	list, err := s.source.Jobs(r.Context(), q)
	if err != nil {
		return nil, err
	}
	t := jobTable("jobs", "Jobs", list.List, filterLink{"/ui/jobs"}, now)
	t.sortJobs(r.URL)
	if sorted {
		if list.Total > sortedJobs {
			list.Note = strings.TrimSpace(fmt.Sprintf("%s The first %d of %d jobs are sorted.", list.Note, sortedJobs, list.Total))
		}
		t.Rows = t.Rows[min(from, len(t.Rows)):min(from+pageSize, len(t.Rows))]
		t.paged(r.URL, from, len(list.List))
	} else {
		t.paged(r.URL, from, list.Total)
	}
	t.Pick = s.picker(r, list.List)
	return &page{Title: "Jobs", Live: true, Sections: []*section{
		{ID: "filter", Filter: jobFilter(&q)},
		{ID: "jobs", Title: terminal.Plural(list.Total, "job"), Notes: notes(list.Note), Table: t, Links: []link{{Text: "Older jobs are in the history", Href: "/ui/history"}}},
	}}, nil
}

// sortJobs orders a table of jobs. The column that says when a job ends is sorted by that moment.
func (t *table) sortJobs(u *url.URL) {
	t.sortBy(u)
	last := &t.Columns[len(t.Columns)-1]
	for _, c := range t.Columns {
		if c.Key == "end" {
			last.Sort, last.Order = c.Sort, c.Order
		}
	}
}

// picker offers to compare jobs of a list, and to change them if the viewer may change some.
func (s *Server) picker(r *http.Request, jobs []*slotwisev1.JobStatus) *picker {
	return &picker{Action: "/ui/jobs", Change: s.actor != nil && slices.ContainsFunc(jobs, func(j *slotwisev1.JobStatus) bool {
		return j.EndedMs == 0 && s.actor.MayChange(r.Context(), j.User, j.Pool)
	})}
}

// changeJobs kills the jobs that were checked, or changes their priority.
func (s *Server) changeJobs(r *http.Request) (string, error) {
	ids, do := r.PostForm["job"], r.PostForm.Get("do")
	// No page has more boxes, and each job costs the master a journal record.
	if len(ids) == 0 || len(ids) > pageSize {
		return "", connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%d jobs are checked: check 1 to %d", len(ids), pageSize))
	}
	var refused []string
	var first error
	for _, id := range ids {
		var err error
		switch do {
		case "kill":
			err = s.actor.Kill(r.Context(), id, cut(r.PostForm.Get("reason"), 500))
		case "priority":
			err = s.actor.SetPriority(r.Context(), id, r.PostForm.Get("priority"))
		default:
			err = connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("action %q is unknown", cut(do, 40)))
		}
		// The others are still tried: one job that has just ended must not keep the rest alive.
		if err != nil {
			if first == nil {
				first = err
			}
			refused = append(refused, cut(id, 40)+": "+errorText(err))
		}
	}
	if first != nil {
		// The code of the first refusal decides the status: usually all are refused for one reason.
		return "", connect.NewError(connect.CodeOf(first), fmt.Errorf("%d of %d jobs were changed; %s", len(ids)-len(refused), len(ids), strings.Join(refused, "; ")))
	}
	return "/ui/jobs?done=" + do, nil
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

// Bounds of the nodes at a glance.
const (
	maxTiles = 2000
	named    = 60 // the most nodes whose squares have names
)

// nodesAtAGlance shows a square for each node. nodes are in order.
func nodesAtAGlance(nodes []*slotwisev1.NodeStatus) *section {
	sec := &section{ID: "nodes", Title: "Nodes", Notes: []string{"The fuller a square, the more of the node's slots are in use. A mark ! shows a node that needs attention."}, Links: []link{{Text: "All nodes as a table", Href: "/ui/nodes"}}}
	for i, n := range nodes {
		if i == maxTiles {
			sec.Notes = append(sec.Notes, fmt.Sprintf("The first %d of %d nodes.", maxTiles, len(nodes)))
			break
		}
		// b0 to b4 are shades of the style sheet, cut and not rounded: a full square means that no slot is
		// free.
		busy, slots := int(n.Maps+n.Reduces), int(n.MapSlots+n.ReduceSlots)
		t := tile{Href: nodePath(n.Name), State: n.State, Class: strings.ReplaceAll(n.State, " ", "-") + " b" + strconv.Itoa(min(4, int(4*part(busy, slots)))),
			Words: fmt.Sprintf("%s: %s, %d of %d slots in use", cmp.Or(cut(n.Name, 80), "(no name)"), n.State, busy, slots)}
		if len(nodes) <= named {
			t.Short = cmp.Or(cut(n.Name, 14), "(no name)")
		}
		sec.Tiles = append(sec.Tiles, t)
	}
	if len(nodes) == 0 {
		sec.Notes, sec.Links = []string{"No worker has registered. On each machine, slotwise worker --dir DIR --master ADDRESS starts one; without workers all jobs wait."}, nil
	}
	return sec
}

// tile shows one node. Short is its name, if there is room.
type tile struct {
	Href, State, Class string
	Short, Words       string
}

// nodePath is the URL of a node's page.
func nodePath(name string) string { return "/ui/nodes/" + url.PathEscape(name) }

// percent formats a share.
func percent(f float64) cell {
	return cell{Text: strconv.FormatFloat(100*f, 'f', 0, 64) + " %", Value: f}
}
