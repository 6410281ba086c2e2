package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// whatIfFlags are the changes that whatif asks about, in the words of the command line. request
// translates them for the master; --submit and --since are answered with further calls.
type whatIfFlags struct {
	setup  *setup
	policy string
	set    []string
	// A text, because the sign matters: +10 or -10.
	nodes      string
	priorities []string
	kill       []string
	machine    string
	submit     string
	// 0 asks about the future.
	since    time.Duration
	seed     uint64
	minimise string
	// 0 searches nothing.
	budget int
	apply  bool
}

// newWhatIf returns the command that forecasts the effect of changes.
func newWhatIf(s *setup) *cobra.Command {
	f := &whatIfFlags{setup: s}
	c := &cobra.Command{
		Use:   "whatif",
		Short: "Show when jobs would end under another policy, on more workers, or with other jobs",
		Long: `Forecasts when each job of a cluster ends as the cluster is, and when it would end
with the changes that the flags describe. It changes nothing. The master simulates the
future of both from its present state, with the code that schedules real tasks.

Times are the time from now to a job's end: the median of the simulated futures, and
the interval in which 8 of 10 of them are.

With --submit the jobs of a mix are submitted all at once. Tasks whose times the mix does
not state take as long as those of earlier jobs of the same name, or of all jobs.

With --since it simulates the past instead: the jobs of the history that ended since
then, on the present workers, under the installed policy and others. It then searches
compositions of parts with their parameters, as slotwise tune --parts all does, and
compares the best with the installed policy on the last third of the jobs, which had no
part in the search. It recommends what is better beyond doubt; --apply installs that.`,
		Example: `  slotwise whatif --policy fair
  slotwise whatif --nodes +10
  slotwise whatif --priority j12=high --kill j7
  slotwise whatif --submit mix.yaml -o json
  slotwise whatif --since 24h
  slotwise whatif --since 24h --minimise slowdown.p95+makespan --apply`,
		Args: noArgs,
	}
	newUserCommand(c, true, f.ask)
	// --policy-set and not --set, as for run: --set of slotwise policy is for a policy that is named
	// there.
	fl := c.Flags()
	fl.StringVar(&f.policy, "policy", "", "another scheduling `policy` (slotwise policies lists them)")
	fl.StringArrayVar(&f.set, "policy-set", nil, "one parameter of that policy, `name=value` (repeatable)")
	fl.StringVar(&f.nodes, "nodes", "", "`number` of workers to add, as in +10, each like the first; -10 removes the ten that joined last")
	fl.StringVar(&f.machine, "machine", "", "`machine` of the workers to add: present, that of the first, whose processors they share, or new, one for each (default present if all workers share one)")
	fl.StringArrayVar(&f.priorities, "priority", nil, "another priority of a job, `job=level` (repeatable)")
	fl.StringArrayVar(&f.kill, "kill", nil, "`job` that is killed (repeatable)")
	fl.StringVar(&f.submit, "submit", "", "`file` with a job mix that is submitted (slotwise formats jobmix)")
	fl.DurationVar(&f.since, "since", 0, "simulate the jobs that have ended in this `time` up to now under the installed policy and others (with --policy: that one)")
	fl.StringVar(&f.minimise, "minimise", "response.mean", "with --since: `objective` of the search, a measure or a sum such as makespan+2*response.mean")
	fl.IntVar(&f.budget, "budget", 100, "with --since: `number` of simulations of the search; 0 searches nothing")
	fl.BoolVar(&f.apply, "apply", false, "with --since: install the policy that is recommended")
	fl.Uint64Var(&f.seed, "seed", 1, "`seed` of what the mix draws at random")
	completeWith(c, "policy", s.completePolicies)
	completeWords(c, "machine", newWorkersOn)
	return c
}

// ask sends the question and prints the answer. policy --preview calls it with a policy alone.
func (f *whatIfFlags) ask(ctx context.Context, u *userCommand, _ []string) error {
	r, err := f.request()
	if err != nil {
		return err
	}
	if f.since == 0 && f.apply {
		return misuse("--apply needs --since: it installs what the past recommends")
	}
	if f.since != 0 {
		return f.askPast(ctx, u, r)
	}
	if f.submit != "" {
		if err := f.addMix(ctx, u, r); err != nil {
			return err
		}
	}
	resp, err := client.Call(ctx, u.cl, u.cl.RPC().WhatIf, r)
	if err != nil {
		return err
	}
	if u.json() {
		return printMessage(u.out(), resp)
	}
	return printWhatIf(u.out(), resp)
}

// request translates the flags but --submit.
func (f *whatIfFlags) request() (*slotwisev1.WhatIfRequest, error) {
	r := &slotwisev1.WhatIfRequest{Policy: f.policy, Kill: f.kill}
	var err error
	if r.Set, err = parseAssignments("policy-set", f.set); err != nil {
		return nil, err
	}
	if f.policy == "" && len(r.Set) > 0 {
		return nil, misuse("--policy-set needs --policy")
	}
	// A text and not a number, because +10 is the usual form and an absolute number would mean
	// something else.
	if f.nodes != "" {
		n, err := strconv.ParseInt(f.nodes, 10, 32)
		if err != nil || n == 0 {
			return nil, misuse("--nodes %q: want a number of workers such as +10 or -2", f.nodes)
		}
		r.Nodes = int32(n)
	}
	if r.Machine = f.machine; r.Machine != "" {
		if r.Nodes <= 0 || f.since != 0 {
			return nil, misuse("--machine needs --nodes +N without --since: it says where these workers run")
		}
		if err := oneOf("machine", r.Machine, newWorkersOn); err != nil {
			return nil, err
		}
	}
	for _, p := range f.priorities {
		id, level, found := strings.Cut(p, "=")
		if !found {
			return nil, misuse("--priority %q: want job=level, such as j12=high", p)
		}
		if err := oneOf("priority", level, feature.Priorities); err != nil {
			return nil, err
		}
		r.Priorities = append(r.Priorities, &slotwisev1.SetPriorityRequest{Job: id, Priority: wirePriority(level)})
	}
	if f.since < 0 {
		return nil, misuse("--since %v: must be positive", f.since)
	}
	// Both columns of the answer would be the same.
	if f.since == 0 && f.policy == "" && f.nodes == "" && f.submit == "" && len(f.priorities)+len(f.kill) == 0 {
		return nil, misuse("whatif: what would change? (--policy, --nodes, --priority, --kill or --submit)")
	}
	return r, nil
}

// newWorkersOn are the values of --machine. The difference matters for clusters that were started
// on one machine for a trial: ten more workers there do not make it faster.
var newWorkersOn = []string{"present", "new"}

// addMix adds the jobs of --submit to a request. Their tasks are planned for the slots of the
// cluster, here and not on the master: the files of the mix are this user's.
func (f *whatIfFlags) addMix(ctx context.Context, u *userCommand, r *slotwisev1.WhatIfRequest) error {
	on, err := client.Call(ctx, u.cl, u.cl.RPC().Cluster, &slotwisev1.ClusterRequest{})
	if err != nil {
		return err
	}
	// One node with all slots: only their number decides how an input is divided.
	virtual := &workload.Cluster{Groups: []workload.NodeGroup{{Count: 1, MapSlots: int(on.MapSlots), ReduceSlots: int(on.ReduceSlots)}}}
	w, err := study.ReadWorkload(ctx, f.submit, virtual, study.WorkloadOptions{Inputs: studyInputs()})
	if err != nil {
		return misuse("--submit %w", pathLast(f.submit, err))
	}
	jobs, err := w.Source.Jobs(f.seed)
	if err != nil {
		return misuse("--submit %w", pathLast(f.submit, err))
	}
	for i := range jobs {
		r.Submit = append(r.Submit, whatIfJob(&jobs[i]))
	}
	return nil
}

// whatIfJob describes a job of a workload.
func whatIfJob(j *workload.Job) *slotwisev1.WhatIfJob {
	tasks := j.Tasks()
	maps, reduces := tasks[job.Map], tasks[job.Reduce]
	w := &slotwisev1.WhatIfJob{Job: &slotwisev1.JobSpec{Name: cmp.Or(j.Name, j.App)},
		Maps: int32(len(maps)), Reduces: int32(len(reduces)), MapSeconds: meanSeconds(maps), ReduceSeconds: meanSeconds(reduces)}
	for _, t := range maps {
		w.SplitBytes += t.Input / int64(len(maps))
	}
	wire.EncodeRequest(w.Job, &j.Request)
	return w
}

// meanSeconds returns the mean stated time of tasks; 0 if one states none, for which the master
// takes the times of earlier jobs. One number for all tasks keeps the request small.
func meanSeconds(tasks []workload.Task) float64 {
	sum := time.Duration(0)
	for _, t := range tasks {
		if t.Duration <= 0 {
			return 0
		}
		sum += t.Duration / time.Duration(len(tasks))
	}
	return sum.Seconds()
}

// printWhatIf prints a line for each job.
func printWhatIf(w io.Writer, resp *slotwisev1.WhatIfResponse) error {
	if len(resp.Jobs) == 0 {
		_, err := fmt.Fprintln(w, "no job has tasks left to run")
		return err
	}
	t := table(w)
	// A column that is empty for all jobs would only make the lines longer than the terminal.
	due := slices.ContainsFunc(resp.Jobs, func(r *slotwisev1.WhatIfRow) bool { return r.DeadlineMs > 0 })
	fmt.Fprint(t, "JOB\tNAME\tENDS IN\tWOULD END IN\tDIFFERENCE")
	if due {
		fmt.Fprint(t, "\tDEADLINE")
	}
	fmt.Fprintln(t)
	for _, row := range resp.Jobs {
		difference := ""
		if median, low, high, known := source.Difference(row); known {
			difference = terminal.LaterWithin(median, low, high)
		}
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s", cmp.Or(row.Job, "(new)"), row.Name, cell(row.Now, "-"), cell(row.Then, "killed"), difference)
		if due {
			terminal.Fprintf(t, "\t%s", source.KeepsDeadline(row))
		}
		terminal.Fprintf(t, "\n")
	}
	// The table first, then its conditions: the times answer the question, and the assumptions are long.
	err := t.Flush()
	terminal.Fprintf(w, "\n%d futures of each under policy %s, in %s; assumed: %s\n", resp.Futures, resp.Policy,
		terminal.Duration(time.Duration(resp.TookMs)*time.Millisecond), strings.Join(resp.Assumptions, "; "))
	for _, row := range resp.Jobs {
		if len(row.WouldKeep) > 0 {
			terminal.Fprintf(w, "%s would keep its deadline with %s\n", cmp.Or(row.Job, row.Name), strings.Join(row.WouldKeep, " or "))
		}
	}
	return errors.Join(err, because(w, resp))
}

// cell formats a forecast, or returns absent for none: a new job has no end at present, and a
// killed one none in the variant.
func cell(f *slotwisev1.JobForecast, absent string) string {
	if f == nil {
		return absent
	}
	return endsIn(&slotwisev1.JobStatus{Forecast: f})
}

// because prints why ends are unknown, once for each job, since both variants mostly lack the same.
func because(w io.Writer, resp *slotwisev1.WhatIfResponse) error {
	for _, row := range resp.Jobs {
		for _, f := range []*slotwisev1.JobForecast{row.Now, row.Then} {
			if f != nil && !f.Known {
				if _, err := terminal.Fprintf(w, "%s: %s\n", cmp.Or(row.Job, row.Name), f.Unknown); err != nil {
					return err
				}
				// One line for a job, although both of its forecasts may be unknown.
				break
			}
		}
	}
	return nil
}
