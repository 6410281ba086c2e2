package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// mostPreview bounds the jobs that a preview lists.
const mostPreview = 100

// policyChange returns the form that asks what another policy would change and, when it has been
// asked, the answer with the form that installs the policy.
func (s *Server) policyChange(r *http.Request, pol *source.Policy, now time.Time) (ask, preview *section) {
	name, given := r.URL.Query().Get("name"), r.URL.Query().Get("set")
	choose := form{Method: "get", Action: "/ui/policy", Button: "Show what it would change", Open: true,
		Note:   "The next page has a forecast of each job's end under that policy. It installs nothing.",
		Fields: []field{{Name: "name", Label: "Policy", Value: cmp.Or(name, pol.Name), Options: pol.Known}, {Name: "set", Label: "Parameters, as name=value with spaces between", Value: given}}}
	ask = &section{ID: "actions", Title: "Install another policy", Half: true, Forms: []form{choose}}
	// No policy was chosen yet. Without this, each view of the page would cost a forecast.
	if name == "" {
		return ask, nil
	}
	answer := &section{ID: "preview", Title: "Preview: " + cut(name, 80)}
	install := installForm(name, given, nil)
	set, err := assignments(given)
	var resp *slotwisev1.WhatIfResponse
	if err == nil {
		resp, err = s.actor.WhatIf(r.Context(), &slotwisev1.WhatIfRequest{Policy: name, Set: set})
	}
	switch {
	// The policy or a parameter does not exist, so there is nothing to install.
	case connect.CodeOf(err) == connect.CodeInvalidArgument:
		answer.Alerts = []string{errorText(err)}
	// The forecast failed, for lack of time or of measurements. That must not keep an operator
	// from changing the policy.
	case err != nil:
		answer.Alerts, answer.Forms = []string{"What the policy would change is unknown: " + errorText(err)}, []form{install}
	default:
		answer.preview(resp, now)
		answer.Forms = []form{install}
	}
	return ask, answer
}

// installForm installs a policy with the parameters that a user has given as text, and with set.
func installForm(name, given string, set map[string]string) form {
	// The name and the parameters go along as hidden fields, so that the installed policy is the previewed
	// one.
	f := form{Action: "/ui/policy", Button: "Install " + cut(name, 80), Danger: true, Open: true,
		Note:   "Running attempts continue. From the next heartbeat on, the new policy assigns tasks.",
		Fields: []field{{Name: "name", Value: name, Type: "hidden"}, {Name: "set", Value: given, Type: "hidden"}}}
	// A field for each, because a value may have spaces.
	for _, key := range slices.Sorted(maps.Keys(set)) {
		f.Fields = append(f.Fields, field{Name: "setting", Value: key + "=" + set[key], Type: "hidden"})
	}
	return f
}

// preview lists the forecasts of a what-if answer, the largest differences first.
func (sec *section) preview(resp *slotwisev1.WhatIfResponse, now time.Time) {
	size := func(w *slotwisev1.WhatIfRow) time.Duration {
		median, _, _, known := source.Difference(w)
		// Unknown differences come last: the operator must see the largest known ones.
		if !known {
			return -1
		}
		return median.Abs()
	}
	// A copy, because the answer of an Actor must not be changed.
	rows := slices.Clone(resp.Jobs)
	slices.SortStableFunc(rows, func(a, b *slotwisev1.WhatIfRow) int { return cmp.Compare(size(b), size(a)) })
	t := &table{ID: "preview", Caption: "Forecast of each job's end", Empty: "No job has tasks left to run, so nothing would change.", Columns: []column{{Key: "job", Name: "Job"}, {Key: "name", Name: "Name"},
		{Key: "now", Name: "Ends"}, {Key: "then", Name: "Would end"}, {Key: "difference_ms", Name: "Difference (8 of 10 futures)"}, {Key: "low_ms", DataOnly: true}, {Key: "high_ms", DataOnly: true}, {Key: "deadline", Name: "Deadline"}}}
	t.Columns[7].DataOnly = !slices.ContainsFunc(rows, func(w *slotwisev1.WhatIfRow) bool { return w.DeadlineMs > 0 })
	earlier, later := 0, 0
	for _, w := range rows {
		median, low, high, known := source.Difference(w)
		words := cell{Text: "unknown", Value: int64(0)}
		if known {
			words = cell{Text: terminal.LaterWithin(median, low, high), Value: median.Milliseconds()}
			// Less than a second either way is noise of the futures and counts as no change.
			if median <= -time.Second {
				earlier++
			} else if median >= time.Second {
				later++
			}
		}
		if w.Then == nil {
			words.Text = "killed"
		}
		name := linked(w.Job, jobPath(w.Job))
		// A job of the question has no id, so there is no page to lead to.
		if w.Job == "" {
			name = plain("new")
		}
		// The loop goes through all rows for the sums, and lists the first only.
		if len(t.Rows) < mostPreview {
			t.Rows = append(t.Rows, []cell{name, {Text: cut(w.Name, 60), Value: w.Name}, expectedEnd(&slotwisev1.JobStatus{Forecast: w.Now}, now), expectedEnd(&slotwisev1.JobStatus{Forecast: w.Then}, now), words,
				{Value: w.Gain.GetLowMs()}, {Value: w.Gain.GetHighMs()}, plain(source.KeepsDeadline(w))})
		}
	}
	sec.Table = t
	sec.Notes = notes(fmt.Sprintf("%s would end earlier, %s later.", terminal.Plural(earlier, "job"), terminal.Count(int64(later))))
	if len(rows) > len(t.Rows) {
		sec.Notes = append(sec.Notes, fmt.Sprintf("The %d jobs with the largest differences, of %d.", len(t.Rows), len(rows)))
	}
	// All rows and not only the listed ones: an operator looks for deadlines that could be kept.
	for _, w := range resp.Jobs {
		if len(w.WouldKeep) > 0 {
			sec.Notes = append(sec.Notes, fmt.Sprintf("%s would keep its deadline with %s.", cmp.Or(w.Job, w.Name), strings.Join(w.WouldKeep, " or ")))
		}
	}
	if resp.Futures > 0 {
		sec.Notes = append(sec.Notes, fmt.Sprintf("From %d simulated futures without and with the change. Assumed: %s.", resp.Futures, strings.Join(resp.Assumptions, "; ")))
	}
}

// assignments parses parameters of the form name=value with spaces between.
func assignments(text string) (map[string]string, error) {
	set := map[string]string{}
	for _, word := range strings.Fields(text) {
		// Only the first =: a value may have further ones.
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("parameter %q: write name=value", cut(word, 80)))
		}
		set[name] = value
	}
	return set, nil
}

// whatIf asks for changes of the cluster and shows when the jobs would end with these changes.
func (s *Server) whatIf(r *http.Request) (*page, error) {
	pol, err := s.source.Policy(r.Context())
	if err != nil {
		return nil, err
	}
	v := r.URL.Query()
	p := &page{Title: "What if"}
	forms := s.whatIfForms(r.Context(), pol, v, false)
	changes, err := parseChanges(v)
	if err != nil {
		forms[0].Alerts = []string{errorText(err)}
	}
	// The address has no question, so the page has the empty forms only.
	if changes == nil {
		p.add(forms...)
		return p, nil
	}
	answer := &section{ID: "preview", Title: "What would change"}
	resp, err := s.actor.WhatIf(r.Context(), changes)
	if err != nil {
		answer.Alerts = []string{errorText(err)}
	} else {
		answer.preview(resp, time.Now())
	}
	// The answer comes first: the forms were filled in to get it.
	p.add(answer)
	p.add(forms...)
	return p, nil
}

// whatIfForms are the forms of the page, about the future and about the past. v has the fields of the
// one that was sent.
func (s *Server) whatIfForms(ctx context.Context, pol *source.Policy, v url.Values, past bool) []*section {
	policies := append([]string{""}, pol.Known...)
	old := v
	if past {
		v = url.Values{}
	} else {
		old = url.Values{}
	}
	future := form{Action: "/ui/whatif", Upload: true, Button: "Show what would change", Open: true,
		Note: "The master simulates the future of the cluster as it is, and with the changes. Fields that are left empty change nothing. The answer takes a few seconds, and nothing is changed.",
		Fields: []field{
			{Name: "nodes", Label: "Nodes more, or fewer as in -2", Value: v.Get("nodes"), Group: "Cluster"},
			{Name: "machine", Label: "Machine of added nodes", Value: v.Get("machine"), Options: []string{"", "present", "new"}, All: s.machinesNow(ctx)},
			{Name: "policy", Label: "Policy", Value: v.Get("policy"), Options: policies, All: "the installed one"},
			{Name: "set", Label: "Its parameters, as name=value", Value: v.Get("set")},
			{Name: "priority", Label: "Another priority", Value: v.Get("priority"), Options: append([]string{""}, priorities...), All: "as it is", Group: "Jobs that are there"},
			{Name: "of", Label: "of the jobs, as in j3 j7", Value: v.Get("of")},
			{Name: "kill", Label: "Kill, as in j3 j7", Value: v.Get("kill")},
			{Name: "maps", Label: "Maps", Value: v.Get("maps"), Group: "One more job"}, {Name: "map_seconds", Label: "Seconds of a map", Value: v.Get("map_seconds")},
			{Name: "reduces", Label: "Reduces", Value: v.Get("reduces")}, {Name: "reduce_seconds", Label: "Seconds of a reduce", Value: v.Get("reduce_seconds")},
			{Name: "name", Label: "Name", Value: v.Get("name")}, {Name: "pool", Label: "Pool", Value: v.Get("pool")},
		}}
	list := []*section{{ID: "changes", Title: "The future", Forms: []form{future}}}
	if s.Simulator == nil {
		// Without files the form may be an ordinary one, and its answer an address that can be passed on
		// (askLater).
		list[0].Forms[0].Upload = false
		return list
	}
	list[0].Forms[0].Fields = append(future.Fields, field{Name: "file", Label: "A file, as slotwise formats jobmix has it", Type: "file", Group: "More jobs"},
		field{Name: "mix", Label: "or its text, as in jobs: [{name: a, maps: 8, map-time: 2s}]", Type: "area"})
	return append(list, &section{ID: "since", Title: "The past", Forms: []form{{Action: "/ui/whatif?past=1", Button: "Simulate the past", Open: true,
		Note: "The jobs of the last hours are simulated on the present workers, under the installed policy and others. A search then tries compositions of parts. This may take minutes.",
		Fields: []field{
			{Name: "since", Label: "The last, as in 30m or 24h", Value: cmp.Or(old.Get("since"), "24h")},
			{Name: "policy", Label: "Policy", Value: old.Get("policy"), Options: policies, All: "several, and a search"},
			{Name: "set", Label: "Its parameters, as name=value", Value: old.Get("set")},
			{Name: "nodes", Label: "Nodes more, or fewer as in -2", Value: old.Get("nodes")},
			{Name: "minimise", Label: "Minimise, as in makespan+2*response.mean", Value: cmp.Or(old.Get("minimise"), "response.mean")},
			{Name: "budget", Label: "Simulations of the search; 0 searches nothing", Value: cmp.Or(old.Get("budget"), "40")},
		}}}})
}

// machinesNow says which machines a question assumes for added nodes unless it names them, as the master does.
func (s *Server) machinesNow(ctx context.Context) string {
	nodes, _, err := s.source.Nodes(ctx, "")
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *slotwisev1.NodeStatus) bool {
		return n.State == "left" || n.State == "lost" || n.State == "absent"
	})
	if err != nil || len(nodes) < 2 || slices.ContainsFunc(nodes, func(n *slotwisev1.NodeStatus) bool { return n.Host != nodes[0].Host }) {
		return "as now (new)"
	}
	return "as now (" + cut(nodes[0].Host, 20) + ")"
}

// parsePast returns the question that the fields of the second form ask.
func parsePast(v url.Values) (q *source.PastQuestion, err error) {
	bad := func(name, want string) error {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s %q: write %s", name, cut(v.Get(name), 40), want))
	}
	q = &source.PastQuestion{Policy: v.Get("policy"), Minimise: cmp.Or(v.Get("minimise"), "response.mean")}
	if q.Since, err = time.ParseDuration(v.Get("since")); err != nil || q.Since <= 0 {
		return nil, bad("since", "a time such as 30m or 24h")
	}
	if q.Nodes, err = strconv.Atoi(strings.TrimPrefix(cmp.Or(strings.TrimSpace(v.Get("nodes")), "0"), "+")); err != nil || q.Nodes > 100_000 {
		return nil, bad("nodes", "a whole number")
	}
	if q.Budget, err = strconv.Atoi(cmp.Or(strings.TrimSpace(v.Get("budget")), "0")); err != nil {
		return nil, bad("budget", "a whole number")
	}
	q.Set, err = assignments(v.Get("set"))
	return q, err
}

// parseChanges returns the changes that the fields of the form describe, or nil if all are empty.
func parseChanges(v url.Values) (*slotwisev1.WhatIfRequest, error) {
	bad := func(name, want string) error {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s %q: write %s", name, cut(v.Get(name), 40), want))
	}
	c := &slotwisev1.WhatIfRequest{Policy: v.Get("policy"), Kill: strings.Fields(v.Get("kill"))}
	var err error
	if c.Set, err = assignments(v.Get("set")); err != nil {
		return nil, err
	}
	if c.Policy == "" && len(c.Set) > 0 {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("choose the policy whose parameters are %s", cut(v.Get("set"), 80)))
	}
	var wrong []error
	// whole reads a whole number from low on, and number a number of seconds; both take nothing as 0.
	whole := func(name string, low int64) int32 {
		// The field says "more", so people write +2.
		text := strings.TrimPrefix(strings.TrimSpace(v.Get(name)), "+")
		n, e := strconv.ParseInt(cmp.Or(text, "0"), 10, 32)
		if e != nil || n < low {
			wrong = append(wrong, bad(name, "a whole number"))
		}
		return int32(n)
	}
	number := func(name string) float64 {
		x, e := strconv.ParseFloat(cmp.Or(strings.TrimSpace(v.Get(name)), "0"), 64)
		// The comparison also refuses NaN, which ParseFloat reads.
		if e != nil || !(x >= 0 && x < 1e9) {
			wrong = append(wrong, bad(name, "a number of seconds"))
		}
		return x
	}
	// The machine alone is no change: added nodes run on it.
	if c.Nodes = whole("nodes", -1<<31); c.Nodes > 0 {
		c.Machine = v.Get("machine")
	}
	job := &slotwisev1.WhatIfJob{Maps: whole("maps", 0), Reduces: whole("reduces", 0), MapSeconds: number("map_seconds"), ReduceSeconds: number("reduce_seconds"),
		Job: &slotwisev1.JobSpec{Name: v.Get("name"), Pool: v.Get("pool")}}
	// The first is enough: the form shows the user's values again, with one thing to repair.
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	switch {
	case job.Maps > 0:
		c.Submit = []*slotwisev1.WhatIfJob{job}
	case job.Reduces > 0 || job.MapSeconds > 0 || job.ReduceSeconds > 0:
		return nil, bad("maps", "the number of maps of the job to submit")
	}
	if level := v.Get("priority"); slices.Contains(priorities, level) {
		for _, id := range strings.Fields(v.Get("of")) {
			c.Priorities = append(c.Priorities, &slotwisev1.SetPriorityRequest{Job: id, Priority: level})
		}
	}
	// The link to this page has no question. The master would simulate the same futures twice to answer it.
	if c.Policy == "" && c.Nodes == 0 && len(c.Priorities)+len(c.Kill)+len(c.Submit) == 0 {
		return nil, nil
	}
	return c, nil
}
