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

// mostPreview bounds the jobs that a preview lists.
const mostPreview = 100

// policyChange returns the form that asks what another policy would change and, when it has been
// asked, the answer with the form that installs the policy.
func (s *Server) policyChange(r *http.Request, pol *source.Policy, now time.Time) (ask, preview *section) {
	name, given := r.URL.Query().Get("name"), r.URL.Query().Get("set")
	choose := form{Summary: "Install another policy", Method: "get", Action: "/ui/policy", Button: "Show what it would change", Open: true,
		Note:   "The next page has a forecast of each job's end under that policy. It installs nothing.",
		Fields: []field{{Name: "name", Label: "Policy", Value: cmp.Or(name, pol.Name), Options: pol.Known}, {Name: "set", Label: "Parameters, as name=value with spaces between", Value: given}}}
	ask = &section{ID: "actions", Title: "Change", Half: true, Forms: []form{choose}}
	if name == "" {
		return ask, nil
	}
	answer := &section{ID: "preview", Title: "Preview: " + cut(name, 80)}
	install := form{Summary: "Install " + cut(name, 80), Action: "/ui/policy", Button: "Install", Danger: true, Open: true,
		Note:   "Running attempts continue. From the next heartbeat on, the new policy assigns tasks.",
		Fields: []field{{Name: "name", Value: name, Type: "hidden"}, {Name: "set", Value: given, Type: "hidden"}}}
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

// preview lists the forecasts of a what-if answer, the largest differences first.
func (sec *section) preview(resp *slotwisev1.WhatIfResponse, now time.Time) {
	difference := func(w *slotwisev1.WhatIfRow) (ms int64, known bool) {
		return w.Then.GetEndMs() - w.Now.GetEndMs(), w.Now.GetKnown() && w.Then.GetKnown()
	}
	size := func(w *slotwisev1.WhatIfRow) int64 {
		ms, known := difference(w)
		// Unknown differences come last: the operator must see the largest known ones.
		if !known {
			return -1
		}
		return max(ms, -ms)
	}
	rows := slices.Clone(resp.Jobs)
	slices.SortStableFunc(rows, func(a, b *slotwisev1.WhatIfRow) int { return cmp.Compare(size(b), size(a)) })
	t := &table{ID: "preview", Caption: "Forecast of each job's end", Empty: "No job has tasks left to run, so nothing would change.", Columns: []column{{Key: "job", Name: "Job"}, {Key: "name", Name: "Name"},
		{Key: "now", Name: "Ends"}, {Key: "then", Name: "Would end"}, {Key: "difference_ms", Name: "Difference", Number: true}}}
	earlier, later := 0, 0
	for _, w := range rows {
		ms, known := difference(w)
		words := cell{Text: "unknown", Value: int64(0)}
		switch {
		case !known:
		// Below a second, forecasts differ by chance.
		case ms <= -1000:
			earlier++
			words = cell{Text: terminal.About(time.Duration(-ms)*time.Millisecond) + " earlier", Value: ms}
		case ms >= 1000:
			later++
			words = cell{Text: terminal.About(time.Duration(ms)*time.Millisecond) + " later", Value: ms}
		default:
			words = cell{Text: "same", Value: ms}
		}
		// The loop goes through all rows for the sums, and lists the first only.
		if len(t.Rows) < mostPreview {
			t.Rows = append(t.Rows, []cell{linked(w.Job, jobPath(w.Job)), {Text: cut(w.Name, 60), Value: w.Name}, expectedEnd(&slotwisev1.JobStatus{Forecast: w.Now}, now), expectedEnd(&slotwisev1.JobStatus{Forecast: w.Then}, now), words})
		}
	}
	sec.Table = t
	sec.Notes = notes(fmt.Sprintf("%s would end earlier, %s later.", terminal.Plural(earlier, "job"), terminal.Count(int64(later))))
	if len(rows) > len(t.Rows) {
		sec.Notes = append(sec.Notes, fmt.Sprintf("The %d jobs with the largest differences, of %d.", len(t.Rows), len(rows)))
	}
	if resp.Futures > 0 {
		sec.Notes = append(sec.Notes, fmt.Sprintf("From %d simulated futures without and with the change. Assumed: %s.", resp.Futures, strings.Join(resp.Assumptions, "; ")))
	}
}

// assignments parses parameters of the form name=value with spaces between.
func assignments(text string) (map[string]string, error) {
	set := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("parameter %q: write name=value", cut(word, 80)))
		}
		set[name] = value
	}
	return set, nil
}

// whatIf asks for changes of the cluster and shows what they would do to the ends of the jobs.
func (s *Server) whatIf(r *http.Request) (*page, error) {
	pol, err := s.source.Policy(r.Context())
	if err != nil {
		return nil, err
	}
	v := r.URL.Query()
	f := form{Summary: "Changes", Method: "get", Action: "/ui/whatif", Button: "Show what would change", Open: true,
		Note: "Fields that are left empty change nothing. The answer takes a few seconds, and nothing is changed.",
		Fields: []field{
			{Name: "nodes", Label: "Nodes more, or fewer as in -2", Value: v.Get("nodes")},
			{Name: "policy", Label: "Policy", Value: v.Get("policy"), Options: append([]string{""}, pol.Known...), All: "the installed one"},
			{Name: "set", Label: "Its parameters, as name=value", Value: v.Get("set")},
			{Name: "priority", Label: "Priority", Value: v.Get("priority"), Options: append([]string{""}, priorities...), All: "as it is"},
			{Name: "of", Label: "of the jobs, as in j3 j7", Value: v.Get("of")},
			{Name: "kill", Label: "Kill the jobs, as in j3 j7", Value: v.Get("kill")},
			{Name: "maps", Label: "Submit a job: its maps", Value: v.Get("maps")}, {Name: "map_seconds", Label: "seconds of a map", Value: v.Get("map_seconds")},
			{Name: "reduces", Label: "its reduces", Value: v.Get("reduces")}, {Name: "reduce_seconds", Label: "seconds of a reduce", Value: v.Get("reduce_seconds")},
			{Name: "name", Label: "its name", Value: v.Get("name")}, {Name: "pool", Label: "its pool", Value: v.Get("pool")},
		}}
	p := &page{Title: "What if", Sections: []*section{{ID: "changes", Forms: []form{f}}}}
	changes, err := parseChanges(v)
	if err != nil {
		p.Sections[0].Alerts = []string{errorText(err)}
		return p, nil
	}
	if changes == nil {
		p.Sections[0].Notes = []string{"The master simulates the future of the cluster as it is, and with the changes. slotwise whatif --since searches the past for a better policy."}
		return p, nil
	}
	answer := &section{ID: "preview", Title: "What would change"}
	resp, err := s.actor.WhatIf(r.Context(), changes)
	if err != nil {
		answer.Alerts = []string{errorText(err)}
	} else {
		answer.preview(resp, time.Now())
	}
	p.add(answer)
	return p, nil
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
		text := strings.TrimPrefix(strings.TrimSpace(v.Get(name)), "+")
		n, e := strconv.ParseInt(cmp.Or(text, "0"), 10, 32)
		if e != nil || n < low {
			wrong = append(wrong, bad(name, "a whole number"))
		}
		return int32(n)
	}
	number := func(name string) float64 {
		x, e := strconv.ParseFloat(cmp.Or(strings.TrimSpace(v.Get(name)), "0"), 64)
		if e != nil || !(x >= 0 && x < 1e9) {
			wrong = append(wrong, bad(name, "a number of seconds"))
		}
		return x
	}
	c.Nodes = whole("nodes", -1<<31)
	job := &slotwisev1.WhatIfJob{Maps: whole("maps", 0), Reduces: whole("reduces", 0), MapSeconds: number("map_seconds"), ReduceSeconds: number("reduce_seconds"),
		Job: &slotwisev1.JobSpec{Name: v.Get("name"), Pool: v.Get("pool")}}
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
	if c.Policy == "" && c.Nodes == 0 && len(c.Priorities)+len(c.Kill)+len(c.Submit) == 0 {
		return nil, nil
	}
	return c, nil
}
