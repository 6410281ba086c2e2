package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/study/search"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// mostBudget bounds the simulations of a search.
const mostBudget = 1_000_000

// mostPast bounds the jobs of the history that --since simulates.
const mostPast = 1000

// pastCluster is a cluster whose past is simulated. The command asks its master; the console, which is
// part of the master, has no calls to make.
type pastCluster interface {
	// succeeded passes the jobs that have succeeded since a time to put, at most mostPast, each whole.
	succeeded(ctx context.Context, since time.Time, put func(*slotwisev1.HistoryJob) error) error
	nodes(ctx context.Context) ([]*slotwisev1.NodeStatus, error)
	policy(ctx context.Context) (name string, set map[string]string, err error)
}

// askPast simulates the jobs that the cluster has run under its policy and others, and recommends
// one. All is computed by this command: the simulations would take the master's processors for
// minutes.
func (f *whatIfFlags) askPast(ctx context.Context, u *userCommand, change *slotwisev1.WhatIfRequest) error {
	// The jobs have ended, so none can be changed.
	if len(change.Priorities)+len(change.Kill) > 0 || f.submit != "" {
		return misuse("--since simulates the past: it goes with --policy and --nodes only")
	}
	q := &source.PastQuestion{Since: f.since, Policy: f.policy, Set: change.Set, Nodes: int(change.Nodes), Minimise: f.minimise, Budget: f.budget}
	show := newSimProgress(u.cmd.ErrOrStderr(), true)
	defer show.close()
	all, s, err := f.setup.simulatePast(ctx, q, f.seed, ofMaster{u.cl}, show)
	if err != nil {
		return err
	}
	s.json = u.json()
	return f.printPast(ctx, u, s, all)
}

// simulatePast answers a question about the past of a cluster. It returns the flags of the
// simulation with the answer, for their print. It writes what the cluster has into a temporary
// directory and then works like sim with such files, so an answer can be repeated by hand.
//
// The steps: the jobs of the time become a history, and the live workers a cluster; the installed
// policy and the others are simulated on both; a search of compositions follows, unless one policy
// was named; and recommend compares. Each needs the whole result of the one before, so an error
// ends the answer.
func (setup *setup) simulatePast(ctx context.Context, q *source.PastQuestion, seed uint64, on pastCluster, show *simProgress) (*pastAnswer, *simFlags, error) {
	objective, err := search.ParseObjective(q.Minimise)
	switch {
	case err != nil:
		return nil, nil, misuse("--minimise %w", err)
	case q.Budget != 0 && (q.Budget < search.LeastBudget || q.Budget > mostBudget):
		return nil, nil, misuse("--budget %d: must be from %d to %d, or 0", q.Budget, search.LeastBudget, mostBudget)
	}
	dir, err := os.MkdirTemp("", "slotwise-whatif-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	n, err := keepPast(ctx, on, dir, time.Now().Add(-q.Since))
	switch {
	case err != nil:
		return nil, nil, err
	case n == 0:
		return nil, nil, fmt.Errorf("no job has succeeded in the last %v", q.Since)
	case n == mostPast:
		show.warn(fmt.Sprintf("only the latest %d jobs are simulated", n))
	}
	if err := writeNodes(ctx, on, filepath.Join(dir, "nodes.json"), q.Nodes); err != nil {
		return nil, nil, err
	}
	all := &pastAnswer{}
	if all.installed, all.set, err = on.policy(ctx); err != nil {
		return nil, nil, err
	}
	s := &simFlags{setup: setup, workload: workload.PastFormat + ":" + dir, cluster: filepath.Join(dir, "nodes.json"), world: world.Default,
		policies: []string{all.installed}, seed: seed, seeds: 1, timeScale: 1, dataScale: 1, reference: references[1], quiet: true, workers: q.Workers}
	// With a named policy the comparison has two sides; otherwise all that need no further
	// settings are tried.
	if q.Policy != "" {
		s.policies = append(s.policies, q.Policy)
	} else {
		s.policies = append(s.policies, otherPolicies(all.installed)...)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Set)) {
		s.policySet = append(s.policySet, name+"="+q.Set[name])
	}
	// The installed policy is simulated with its parameters, such as pools, which others share.
	for name, value := range all.set {
		if _, given := q.Set[name]; !given {
			s.policySet = append(s.policySet, name+"="+value)
		}
	}
	st, err := s.study(ctx, show, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := st.Run(ctx); err != nil {
		return nil, nil, err
	}
	// A recommendation from a part of the runs would be worth nothing.
	if err := failedRuns(st.Failed()); err != nil {
		return nil, nil, err
	}
	all.Comparison = st.Comparison()
	if q.Policy == "" && q.Budget > 0 {
		if err := all.search(ctx, s, q, objective, show); err != nil {
			return nil, nil, err
		}
	}
	all.recommend(objective, setup.policies(), q.Set)
	return all, s, nil
}

// pastAnswer is the answer about the past. JSON has it as sim -o json prints a comparison,
// with the search beside it.
type pastAnswer struct {
	study.Comparison
	Search *search.Tuning `json:"search,omitempty"`
	// Recommended names a policy that is better than the installed one beyond doubt, and Applied
	// says that it has been installed.
	Recommended *search.Candidate `json:"recommended,omitempty"`
	Applied     bool              `json:"applied,omitempty"`
	verdict     string            // why, in words

	installed string // the installed policy, and the parameters that it was given
	set       map[string]string
}

// search searches compositions that suit the past jobs. With too few jobs it only warns.
func (a *pastAnswer) search(ctx context.Context, s *simFlags, q *source.PastQuestion, o search.Objective, show *simProgress) error {
	model, cluster, w, err := s.inputs(ctx, show)
	if err != nil {
		return err
	}
	p := &search.Problem{Cluster: cluster, Workload: w, Model: model, Policy: a.installed, Set: a.set, Registry: s.setup.policies(),
		Seed: s.seed, Ideal: true, Workers: s.workers}
	a.Search, err = search.Tune(ctx, p, search.TuneOptions{Objective: o, Parts: search.PartNames, Budget: q.Budget, HeldOut: 1. / 3, Progress: show.note})
	if errors.Is(err, search.ErrTooShort) {
		show.warn(fmt.Sprintf("compositions are not searched: %v", err))
		return nil
	}
	return err
}

// recommend chooses the composition that the search has found, or else the best of the other
// policies, if it is better than the installed one beyond doubt by a measure of the objective and
// worse by none. The search goes first: it was compared on jobs that it had not seen, while the
// named policies are compared on all jobs.
func (a *pastAnswer) recommend(o search.Objective, g *sched.Registry, given map[string]string) {
	a.verdict = fmt.Sprintf("keep %s; nothing else is better beyond doubt", a.installed)
	if t := a.Search; t != nil {
		// Over all measures of the held-out comparison and not only the objective's, as in bestPair.
		better, worse := 0, 0
		for _, p := range t.HeldOut {
			better, worse = better+beyondDoubt(&p, true), worse+beyondDoubt(&p, false)
		}
		if better > 0 && worse == 0 {
			a.verdict, a.Recommended = t.Best.String(), &t.Best
			return
		}
	}
	if p := bestPair(a.Pairs, o); p != nil {
		a.verdict = fmt.Sprintf("%s: %s", p.Policy, p.Verdict)
		a.Recommended = &search.Candidate{Policy: p.Policy, Set: settingsOf(g, p.Policy, a.set, given)}
	}
}

// settingsOf returns the settings that a policy has, the later ones with priority. The others
// belong to policies that it was compared with, and installing it with them would be refused.
func settingsOf(g *sched.Registry, policy string, all ...map[string]string) map[string]string {
	set := make(map[string]string)
	info, err := g.Describe(policy)
	if err != nil { // it has just been simulated
		return set
	}
	for _, settings := range all {
		for _, part := range info.Parts {
			for _, p := range part.Params {
				if v, given := settings[p.Name]; given {
					set[p.Name] = v
				}
			}
		}
	}
	return set
}

// installCommand returns the command line that installs a candidate. It is printed for a shell, so
// values are quoted always: a composition or a list of queues has semicolons.
func installCommand(c *search.Candidate) string {
	words := []string{"slotwise policy", c.Policy}
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		words = append(words, "--set '"+name+"="+strings.ReplaceAll(c.Set[name], "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// printPast prints the answer, and installs the recommended policy if the user wants that. The
// comparison is printed before the change, so that the reason of the change is on the screen if it
// fails. JSON is one object and comes after it, to say whether it was applied.
func (f *whatIfFlags) printPast(ctx context.Context, u *userCommand, s *simFlags, all *pastAnswer) error {
	best := all.Recommended
	if !u.json() {
		if err := s.print(u.out(), all.Comparison); err != nil {
			return err
		}
		if all.Search != nil {
			terminal.Fprintf(u.out(), "\nsearch: from ")
			if err := printTuning(u.out(), all.Search); err != nil {
				return err
			}
		}
		terminal.Fprintf(u.out(), "\nrecommended: %s\n", all.verdict)
	}
	if best != nil && f.apply {
		if _, err := client.Call(ctx, u.cl, u.cl.RPC().SetPolicy, &slotwisev1.SetPolicyRequest{Name: best.Policy, Set: best.Set}); err != nil {
			return err
		}
		if all.Applied = true; !u.json() {
			terminal.Fprintf(u.out(), "installed: %s → %s\n", all.installed, best)
		}
	}
	if u.json() {
		return encode(u.out(), all)
	}
	// Only as text: a program has the policy and its parameters as fields.
	if best != nil && !f.apply {
		terminal.Fprintf(u.out(), "to install it: %s\n", installCommand(best))
	}
	return nil
}

// otherPolicies are the policies that --since compares with the installed one unless --policy
// names one. Others need parameters, or data about jobs that a history does not have.
func otherPolicies(installed string) (list []string) {
	for _, p := range []string{"fifo", "fair", "flex", "htumm", "dynamicmr-pi", "dynamictags"} {
		if p != installed {
			list = append(list, p)
		}
	}
	return list
}

// keepPast writes the jobs that have succeeded since a time into a directory. It returns
// their number.
func keepPast(ctx context.Context, on pastCluster, dir string, since time.Time) (n int, err error) {
	// A store and not a list in memory: the simulator reads histories, and converts them by the same
	// rules.
	store, err := history.Open(dir, history.Limits{Entries: mostPast, Bytes: 1 << 40}, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return n, on.succeeded(ctx, since, func(j *slotwisev1.HistoryJob) error {
		n++
		return store.Put(j)
	})
}

// ofMaster is a cluster whose master a client asks.
type ofMaster struct{ cl *client.Client }

func (m ofMaster) succeeded(ctx context.Context, since time.Time, put func(*slotwisev1.HistoryJob) error) error {
	list, _, err := m.cl.History(ctx, &slotwisev1.HistoryRequest{Limit: mostPast, State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, EndedFromMs: max(1, since.UnixMilli())})
	// The list has no tasks, so each job is fetched by itself. With an error of the list the jobs
	// before it are used, and the error is returned in the end.
	for _, h := range list {
		whole, _, err := m.cl.History(ctx, &slotwisev1.HistoryRequest{Job: h.Job.Id})
		if err != nil {
			return err
		}
		for _, j := range whole {
			if err := put(j); err != nil {
				return err
			}
		}
	}
	return err
}

func (m ofMaster) nodes(ctx context.Context) ([]*slotwisev1.NodeStatus, error) {
	resp, err := client.Call(ctx, m.cl, m.cl.RPC().Nodes, &slotwisev1.NodesRequest{})
	return resp.GetNodes(), err
}

func (m ofMaster) policy(ctx context.Context) (string, map[string]string, error) {
	resp, err := client.Call(ctx, m.cl, m.cl.RPC().Policy, &slotwisev1.PolicyRequest{})
	return resp.GetName(), resp.GetSet(), err
}

// writeNodes writes the live workers of a cluster in the form in which slotwise nodes prints
// them, with more or fewer workers if more is not 0.
func writeNodes(ctx context.Context, on pastCluster, file string, more int) error {
	all, err := on.nodes(ctx)
	if err != nil {
		return err
	}
	var live []*slotwisev1.NodeStatus
	for _, n := range all {
		// A lost worker does no work in the future, and a drained one neither.
		if n.State == "alive" {
			live = append(live, n)
		}
	}
	// At least one worker must stay.
	if len(live) == 0 || -more >= len(live) {
		return misuse("--nodes: the cluster has %d live workers", len(live))
	}
	for i := range more {
		// Like the first worker: the rules of whatif without --since are the same.
		live = append(live, &slotwisev1.NodeStatus{Name: fmt.Sprintf("what-if-%d", i+1), Host: fmt.Sprintf("what-if-%d", i+1), Rack: live[0].Rack, State: "alive",
			MapSlots: live[0].MapSlots, ReduceSlots: live[0].ReduceSlots, SlotMemory: live[0].SlotMemory, Cpus: live[0].Cpus})
	}
	if more < 0 {
		live = live[:len(live)+more]
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return printMessages(out, live)
}

// bestPair returns the comparison that speaks for a policy most: the smallest ratio by a measure
// of the objective of a policy that is better by it beyond doubt, and worse by none of its measures.
func bestPair(pairs []collect.Pair, o search.Objective) (best *collect.Pair) {
	// Also by measures outside the objective: a user who installs a policy for its makespan
	// does not expect that small jobs wait twice as long.
	worse := map[string]bool{}
	for i := range pairs {
		if beyondDoubt(&pairs[i], false) > 0 {
			worse[pairs[i].Policy] = true
		}
	}
	for i := range pairs {
		p := &pairs[i]
		wanted := slices.ContainsFunc(o, func(t search.Term) bool { return t.Measure.Name == p.Measure })
		if wanted && !worse[p.Policy] && beyondDoubt(p, true) > 0 && (best == nil || p.Ratio.Ratio < best.Ratio.Ratio) {
			best = p
		}
	}
	return best
}

// beyondDoubt returns 1 if the policy of a pair is better than its baseline, or worse, beyond
// doubt: the interval excludes equality, also after the correction for all comparisons. A measure
// that the table does not know decides nothing.
func beyondDoubt(p *collect.Pair, better bool) int {
	m, err := collect.FindMeasure(p.Measure)
	// Holm's correction, because with 20 comparisons one would be significant by chance.
	if err != nil || !p.Known || p.Holm > 1-collect.Level {
		return 0
	}
	below, above := p.High < 1, p.Low > 1
	if m.Better == collect.Larger {
		below, above = above, below
	}
	if better && below || !better && above {
		return 1
	}
	return 0
}
