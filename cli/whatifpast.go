package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// mostPast bounds the jobs of the history that --since simulates.
const mostPast = 1000

// askPast simulates the jobs that the cluster has run under its policy and others, and
// recommends one.
func (f *whatIfFlags) askPast(ctx context.Context, u *userCommand, change *slotwisev1.WhatIfRequest) error {
	// The jobs have ended, so none can be changed.
	if len(change.Priorities)+len(change.Kill) > 0 || f.submit != "" {
		return misuse("--since simulates the past: it goes with --policy and --nodes only")
	}
	dir, err := os.MkdirTemp("", "slotwise-whatif-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n, err := fetchHistory(ctx, u.cl, dir, time.Now().Add(-f.since))
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("no job has succeeded in the last %v", f.since)
	case n == mostPast:
		terminal.Fprintf(u.cmd.ErrOrStderr(), "warning: only the latest %d jobs are simulated\n", n)
	}
	if err := writeNodes(ctx, u.cl, filepath.Join(dir, "nodes.json"), int(change.Nodes)); err != nil {
		return err
	}
	installed, err := client.Call(ctx, u.cl, u.cl.RPC().Policy, &slotwisev1.PolicyRequest{})
	if err != nil {
		return err
	}
	s := &simFlags{setup: f.setup, workload: workload.PastFormat + ":" + dir, cluster: filepath.Join(dir, "nodes.json"), world: world.Default,
		policies: []string{installed.Name}, seed: f.seed, seeds: 1, timeScale: 1, dataScale: 1, reference: references[1], json: u.json(), quiet: true}
	// With a named policy the comparison has two sides; otherwise all that need no further
	// settings are tried.
	if f.policy != "" {
		s.policies = append(s.policies, f.policy)
	} else {
		s.policies = append(s.policies, otherPolicies(installed.Name)...)
	}
	s.policySet = f.set
	show := newSimProgress(u.cmd.ErrOrStderr(), true)
	defer show.close()
	st, err := s.study(ctx, show)
	if err != nil {
		return err
	}
	if err := st.Run(ctx); err != nil {
		return err
	}
	// A recommendation from a part of the runs would be worth nothing.
	if err := failedRuns(st.Failed()); err != nil {
		return err
	}
	all := st.Comparison()
	if err := s.print(u.out(), all); err != nil || u.json() {
		return err
	}
	_, err = terminal.Fprintf(u.out(), "\n%s\n", recommend(all.Pairs, installed.Name))
	return err
}

// otherPolicies are the policies that --since compares with the installed one unless --policy
// names one. Others need parameters, or data about jobs that a history does not have.
func otherPolicies(installed string) (list []string) {
	for _, p := range []string{"fifo", "fair", "htumm", "dynamicmr-pi", "dynamictags"} {
		if p != installed {
			list = append(list, p)
		}
	}
	return list
}

// fetchHistory writes the jobs that have succeeded since a time into a directory. It returns
// their number.
func fetchHistory(ctx context.Context, cl *client.Client, dir string, since time.Time) (n int, err error) {
	store, err := history.Open(dir, history.Limits{Entries: mostPast, Bytes: 1 << 40}, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	list, err := cl.History(ctx, &slotwisev1.HistoryRequest{Limit: mostPast, State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, EndedFromMs: max(1, since.UnixMilli())})
	if err != nil {
		return 0, err
	}
	for _, h := range list {
		whole, err := cl.History(ctx, &slotwisev1.HistoryRequest{Job: h.Job.Id})
		if err != nil {
			return 0, err
		}
		if err := store.Put(whole...); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

// writeNodes writes the live workers of a cluster in the form in which slotwise nodes prints
// them, with more or fewer workers if more is not 0.
func writeNodes(ctx context.Context, cl *client.Client, file string, more int) error {
	resp, err := client.Call(ctx, cl, cl.RPC().Nodes, &slotwisev1.NodesRequest{})
	if err != nil {
		return err
	}
	var live []*slotwisev1.NodeStatus
	for _, n := range resp.Nodes {
		if n.State == "alive" {
			live = append(live, n)
		}
	}
	if len(live) == 0 || -more >= len(live) {
		return misuse("--nodes: the cluster has %d live workers", len(live))
	}
	for i := range more {
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

// recommend names the policy with the shortest mean response time, if its interval excludes
// that it is no better than the installed one.
func recommend(pairs []collect.Pair, installed string) string {
	var best *collect.Pair
	for i := range pairs {
		p := &pairs[i]
		if p.Measure == "response.mean" && p.Known && p.High < 1 && (best == nil || p.Ratio.Ratio < best.Ratio.Ratio) {
			best = p
		}
	}
	if best == nil {
		return fmt.Sprintf("recommended: keep %s; no other policy is better beyond doubt", installed)
	}
	return fmt.Sprintf("recommended: %s (slotwise policy %[1]s): %s", best.Policy, best.Verdict)
}
