package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// severities are the states of nodes, the least severe first.
// The list of nodes shows the last ones first. "drained" is next to "alive", because an operator has wanted
// it.
var severities = []string{"alive", "drained", "draining", "absent", "graylisted", "disk full", "disk gone", "lost"}

// inOrder returns the nodes whose state needs attention, and then the others, each by name.
func inOrder(list []*slotwisev1.NodeStatus) []*slotwisev1.NodeStatus {
	return slices.SortedFunc(slices.Values(list), func(a, b *slotwisev1.NodeStatus) int {
		rank := func(n *slotwisev1.NodeStatus) int {
			if i := slices.Index(severities, n.State); i >= 0 {
				return -i
			}
			return -len(severities) // a state of another version of the master must be seen
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.State, b.State), natural(a.Name, b.Name))
	})
}

// nodes lists all nodes.
func (s *Server) nodes(r *http.Request) (*page, error) {
	all, _, err := s.source.Nodes(r.Context(), "")
	if err != nil {
		return nil, err
	}
	all = inOrder(all)
	q, wanted := strings.ToLower(r.URL.Query().Get("q")), r.URL.Query().Get("state")
	// The choices come from the whole list, before the filter: else choosing one state would
	// remove the others.
	states := []string{""}
	for _, n := range all {
		if !slices.Contains(states, n.State) {
			states = append(states, n.State)
		}
	}
	t := &table{ID: "nodes", Caption: "Nodes", Empty: "No node matches.", Columns: []column{{Key: "node", Name: "Node"}, {Key: "state", Name: "State"}, {Key: "reason", Name: "Because"}, {Key: "host", Name: "Host", Minor: true}, {Key: "rack", Name: "Rack", Minor: true},
		{Key: "maps", Name: "Map slots"}, {Key: "reduces", Name: "Reduce slots"}, {Key: "cpu", Name: "Processors", Number: true}, {Key: "memory", Name: "Memory", Number: true},
		{Key: "failures", Name: "Failures", Number: true}, {Key: "seen_ms", Name: "Last heartbeat", Number: true}, {Key: "version", Name: "Version", Minor: true}}}
	for _, n := range all {
		if wanted != "" && n.State != wanted || q != "" && !strings.Contains(strings.ToLower(n.Name+" "+n.Host+" "+n.Rack), q) {
			continue
		}
		t.Rows = append(t.Rows, []cell{linked(n.Name, nodePath(n.Name)), nodeState(n), plain(n.Reason), plain(n.Host), plain(n.Rack),
			bar(part(int(n.Maps), int(n.MapSlots)), fmt.Sprintf("%d of %d", n.Maps, n.MapSlots)), bar(part(int(n.Reduces), int(n.ReduceSlots)), fmt.Sprintf("%d of %d", n.Reduces, n.ReduceSlots)),
			percent(n.Cpu), percent(n.Memory), number(int64(n.Failures)), milliseconds(n.SeenMs), plain(n.Version)})
	}
	// The reasons of a healthy cluster would be an empty column.
	t.Columns[2].DataOnly = !slices.ContainsFunc(t.Rows, func(row []cell) bool { return row[2].Text != "" })
	t.sortBy(r.URL)
	from, total := offset(r.URL), len(t.Rows)
	t.Rows = t.Rows[min(from, total):min(from+pageSize, total)]
	t.paged(r.URL, from, total)
	return &page{Title: "Nodes", Live: true, Sections: []*section{
		{ID: "filter", Filter: &filter{Fields: []field{{Name: "q", Label: "Node, host or rack", Value: r.URL.Query().Get("q"), Type: "search"}, {Name: "state", Label: "State", Value: wanted, Options: states}}}},
		{ID: "nodes", Title: terminal.Plural(total, "node"), Notes: notes(nodeCounts(all) + "."), Table: t},
	}}, nil
}

// nodeState is a node's state with the class of its colour.
func nodeState(n *slotwisev1.NodeStatus) cell {
	return classed(n.State, "state "+strings.ReplaceAll(n.State, " ", "-"))
}

// node shows one node.
func (s *Server) node(r *http.Request) (*page, error) {
	name, now := r.PathValue("name"), time.Now()
	list, running, err := s.source.Nodes(r.Context(), name)
	if err != nil {
		return nil, err
	}
	// A node that the master has forgotten is a dead link of an old page, not an error of the
	// server.
	at := slices.IndexFunc(list, func(n *slotwisev1.NodeStatus) bool { return n.Name == name })
	if at < 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no node %s is known", cut(name, 80)))
	}
	n := list[at]
	sec := &section{ID: "summary"}
	for _, f := range []fact{
		{"State", nodeState(n)}, {"Because", plain(n.Reason)}, {"In this state for", milliseconds(n.SinceMs)}, {"Host", plain(n.Host)}, {"Runs in", plain(cut(n.Machine, 300))}, {"Rack", plain(n.Rack)}, {"Address", plain(n.Address)},
		{"Map slots in use", bar(part(int(n.Maps), int(n.MapSlots)), fmt.Sprintf("%d of %d", n.Maps, n.MapSlots))},
		{"Reduce slots in use", bar(part(int(n.Reduces), int(n.ReduceSlots)), fmt.Sprintf("%d of %d", n.Reduces, n.ReduceSlots))},
		{"Processors in use", percent(n.Cpu)}, {"Memory in use", percent(n.Memory)}, {"Processors", number(int64(n.Cpus))}, {"Memory of a slot", bytesCell(n.SlotMemory)},
		{"Attempts are limited by", plain(n.Limits)}, {"Recent failures", number(int64(n.Failures))}, {"Last heartbeat", plain(shortDuration(n.SeenMs) + " ago")},
		{"Free slots are kept for", plain(strings.Join(n.ReservedFor, ", "))}, {"Version", plain(n.Version)},
	} {
		// Workers of other versions and nodes without a session leave facts out.
		if f.Text != "" {
			sec.Facts = append(sec.Facts, f)
		}
	}
	t := &table{ID: "running", Caption: "Attempts that run here", Empty: "Nothing runs here.", Columns: []column{{Key: "attempt", Name: "Attempt"}, {Key: "job", Name: "Job"}, {Key: "kind", Name: "Kind"}, {Key: "level", Name: "Data"},
		{Key: "progress", Name: "Progress"}, {Key: "started", Name: "Started"}, {Key: "took_ms", Name: "Time", Number: true}}}
	// Sorted, because the order of the source may change from one view to the next, and the
	// script replaces sections that differ. The source may have given others the same list.
	running = slices.SortedFunc(slices.Values(running), func(a, b source.Attempt) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID))
	})
	for i := range running {
		a := &running[i]
		job, _, _ := strings.Cut(a.ID, "_")
		t.Rows = append(t.Rows, []cell{linked(a.ID, attemptPath(a.ID)), linked(job, jobPath(job)), plain(kindWord(a)), plain(strings.ToLower(a.Level)), bar(a.Progress, fmt.Sprintf("%.0f %%", 100*a.Progress)),
			moment(a.Started, now), milliseconds(a.Took(now.UnixMilli()))})
	}
	p := &page{Title: "Node " + name, Live: true, Crumbs: []link{{Text: "Nodes", Href: "/ui/nodes"}}}
	p.Lead = sec
	p.add(s.loads.sections(name, now)...)
	p.add(&section{ID: "running", Title: "Running attempts", Table: t})
	// A form that would be refused is not shown. The actor checks again when it is sent.
	if s.actor != nil && s.actor.MayDrain(r.Context()) {
		f := form{Summary: "Drain", Action: nodePath(name) + "/drain", Button: "Drain " + cut(name, 40), Note: "The node gets no new work; running attempts finish."}
		if n.State == "draining" || n.State == "drained" {
			f = form{Summary: "End the drain", Action: nodePath(name) + "/drain?undo=1", Button: "Give it work again"}
		}
		if n.State == "graylisted" {
			f = form{Summary: "Forget its faults", Action: nodePath(name) + "/drain?undo=1", Button: "Give it work again"}
		}
		p.Actions = &section{ID: "actions", Forms: []form{f}}
	}
	return p, nil
}

func (s *Server) drain(r *http.Request) (string, error) {
	name, undo := r.PathValue("name"), r.URL.Query().Get("undo") != ""
	done := "?done=drain"
	if undo {
		done = "?done=undrain"
	}
	return nodePath(name) + done, s.actor.Drain(r.Context(), name, undo)
}

// policy shows the installed policy.
func (s *Server) policy(r *http.Request) (*page, error) {
	pol, err := s.source.Policy(r.Context())
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Policy", Live: true}
	// Parts come first and parameters last, folded: operators look for which part decides, and rarely for its
	// numbers.
	parts := &table{ID: "parts", Caption: "Parts of the policy", Columns: []column{{Key: "role", Name: "Decides"}, {Key: "part", Name: "Part"}, {Key: "summary", Name: "How"}}}
	params := &table{ID: "params", Caption: "Parameters", Empty: "The policy has no parameters.", Columns: []column{{Key: "part", Name: "Part"}, {Key: "param", Name: "Parameter"}, {Key: "value", Name: "Value"}, {Key: "default", Name: "Default"}, {Key: "doc", Name: "Meaning"}}}
	// A policy that another version of the program has installed has no parts here, and both tables are
	// empty.
	for _, x := range pol.Parts {
		parts.Rows = append(parts.Rows, []cell{plain(x.Role), plain(x.Name), plain(x.Summary)})
		for _, y := range x.Params {
			params.Rows = append(params.Rows, []cell{plain(cmp.Or(x.Name, x.Role)), plain(y.Name), plain(y.Value), plain(y.Default), plain(y.Doc)})
		}
	}
	installed := &section{ID: "installed", Title: "Installed: " + pol.Name, Table: parts}
	p.add(installed)
	now := time.Now()
	if s.actor != nil && pol.MayChange {
		installed.Half = true
		choose, preview := s.policyChange(r, pol, now)
		p.add(choose, preview)
		p.Live = preview == nil // a preview must not be calculated again and again
	}
	// Asked again although follow samples it: the values in words must be as new as the page, and of the policy
	// above.
	_, in, err := s.source.Inspect(r.Context())
	if err != nil {
		return nil, err
	}
	if in.Summary != "" {
		installed.Notes = notes(capitalized(in.Summary) + ".")
	}
	p.Sections = append(p.Sections, s.insightSections(r, in, now)...)
	// useChart needs a sample. A console has none in its first second.
	if list := s.samples.since(now, ranges[0].span); len(list) > 0 {
		kind := useChart(list, byPool(list), "Slots in use by pool", true, now, ranges[0].span)
		p.add(&section{ID: "pools", Title: "Slots in use by pool, last " + ranges[0].name, Half: true, Chart: kind})
	}
	p.add(&section{ID: "params", Title: "Parameters", Folded: true, Table: params})
	return p, nil
}

func (s *Server) setPolicy(r *http.Request) (string, error) {
	set, err := assignments(r.PostForm.Get("set"))
	if err != nil {
		return "", err
	}
	// After the text: a recommended policy comes in a field for each parameter, whose values may have spaces
	// (installForm).
	for _, given := range r.PostForm["setting"] {
		name, value, _ := strings.Cut(given, "=")
		set[name] = value
	}
	return "/ui/policy?done=policy", s.actor.SetPolicy(r.Context(), r.PostForm.Get("name"), set)
}
