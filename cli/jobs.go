package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// newJobs returns the command that lists jobs. Without --all it lists the live ones, which are few
// and what a user asks about; the history has its own command, with filters and pages.
func newJobs() *cobra.Command {
	var chosen jobFilter
	steps := false
	c := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a cluster",
		Long: `Lists the jobs that have not ended. With --all it includes jobs that ended recently.

A chain of jobs is one row, with its step and the tasks of all steps so far. --steps
lists its jobs below it. JSON has both: the jobs of a chain name it.`,
		Example: `  slotwise jobs
  slotwise jobs --steps
  slotwise jobs --all --user ann
  slotwise jobs --name 'nightly-*'
  slotwise jobs -o json`,
		Args: noArgs,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error {
		jobs, err := chosen.list(ctx, u.cl)
		if err != nil {
			return err
		}
		if u.json() {
			return printMessages(u.out(), jobs)
		}
		// On standard error: a script that reads the table gets a head and no rows.
		if len(jobs) == 0 {
			text := chosen.none()
			if !chosen.ended {
				text += "; --all lists those that have"
			}
			terminal.Fprintf(c.ErrOrStderr(), "%s\n", text)
		}
		return printJobs(u.out(), jobRows(jobs, steps))
	})
	c.Flags().BoolVar(&steps, "steps", false, "list the jobs of chains too, below their chain")
	c.Flags().BoolVar(&chosen.ended, "all", false, "list jobs that have ended too")
	chosen.register(c, "list only")
	return c
}

// jobRows orders a list of jobs and chains for people: by the time of submission, and
// with steps below their chain, or without them.
func jobRows(list []*slotwisev1.JobStatus, steps bool) (rows []*slotwisev1.JobStatus) {
	chains := map[string]bool{}
	below := map[string][]*slotwisev1.JobStatus{}
	for _, j := range list {
		chains[j.Id] = j.Chain == ""
		below[j.Chain] = append(below[j.Chain], j)
	}
	for _, j := range list {
		if j.Chain == "" || !chains[j.Chain] { // the chain may be older than the list
			rows = append(rows, j)
		}
	}
	// The master lists by id, and the ids of jobs and chains are counted apart.
	slices.SortStableFunc(rows, func(a, b *slotwisev1.JobStatus) int { return cmp.Compare(a.SubmittedMs, b.SubmittedMs) })
	if !steps {
		return rows
	}
	var all []*slotwisev1.JobStatus
	for _, j := range rows {
		all = append(all, j)
		if j.Chain == "" {
			all = append(all, below[j.Id]...)
		}
	}
	return all
}

// jobName returns the name of a job, or of a chain with its step.
func jobName(j *slotwisev1.JobStatus) string {
	if n := len(j.Steps); n > 0 {
		return strings.TrimSpace(fmt.Sprintf("%s (step %d %s", j.Name, n, j.Step)) + ")"
	}
	return j.Name
}

// printJobs prints a line for each job.
func printJobs(w io.Writer, jobs []*slotwisev1.JobStatus) error {
	t := table(w)
	fmt.Fprintln(t, "JOB\tNAME\tUSER\tPOOL\tPRIORITY\tSTATE\tMAPS\tREDUCES\tTIME\tENDS IN\tWAITS FOR")
	for _, j := range jobs {
		id := j.Id
		if j.Chain != "" {
			id = "  " + id
		}
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", id, jobName(j), j.User, j.Pool, source.PriorityName(j.Priority),
			source.StateName(j.State), tasksDone(j.Maps), tasksDone(j.Reduces), terminal.Duration(source.Age(j, time.Now())), endsIn(j), brief(j.Waiting))
	}
	return t.Flush()
}

// brief shortens the reason why a job waits to its first two clauses, which name the jobs ahead. The
// policy adds the other clauses, mostly the same ones for all jobs; slotwise explain prints them.
func brief(reason string) string {
	for i, n := 0, 0; i < len(reason); i++ {
		if reason[i] != ';' {
			continue
		}
		if n++; n == 2 {
			return reason[:i]
		}
	}
	return reason
}

// wirePriority is a priority as messages have it.
func wirePriority(p string) string { return strings.ToUpper(strings.ReplaceAll(p, "-", "_")) }

// tasksDone returns the finished and all tasks of a kind.
func tasksDone(t *slotwisev1.TaskCounts) string {
	return fmt.Sprintf("%d/%d", t.GetDone(), t.GetTotal())
}

// newJob returns the command that shows one job.
func newJob() *cobra.Command {
	var follow bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "job ID",
		Short: "Show one job of a cluster",
		Long: `Shows the progress of a job, or its outcome, and its counters. Of a chain it shows
the steps. --watch redraws it until the job has ended, the key q or an interrupt, with
the tasks that ended between two redraws, and then prints it.`,
		Example: `  slotwise job j12
  slotwise job j12 --watch
  slotwise job chain-3
  slotwise job j12 -o json`,
		Args: oneArg("job"),
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		ask := func(ctx context.Context) (jobPicture, error) {
			resp, err := client.Call(ctx, u.cl, u.cl.RPC().Job, &slotwisev1.JobRequest{Job: args[0], Steps: true})
			return jobPicture{resp: resp}, err
		}
		switch {
		// Before the first request: the mistake is in the command line, whatever the master says.
		case follow && (u.json() || !isTerminal(u.out())):
			return misuse("--watch redraws a terminal: without one, submit --wait prints the progress and job -o json the state")
		case follow:
			if err := checkInterval(every); err != nil {
				return err
			}
		}
		// Asked once before the screen is switched, so that an unknown job is an ordinary error and not
		// a message on a screen that vanishes.
		shown, err := ask(ctx)
		switch {
		case err != nil:
			return err
		// A chain's steps are not in its own message.
		case u.json() && isChain(args[0]):
			return printMessage(u.out(), shown.resp)
		case u.json():
			return printMessage(u.out(), shown.resp.Job)
		case follow:
			if shown, err = watchJob(ctx, u, shown, every, ask); err != nil {
				return err
			}
		}
		// Also after --watch: the watched screen is gone, and the outcome should stay in the terminal.
		return shown.printAll(u.out())
	})
	c.Flags().BoolVar(&follow, "watch", false, "redraw the job until it has ended")
	intervalFlag(c, &every, "with --watch: `time` between two redraws")
	return c
}

// jobPicture is a job or chain, with the tasks that ended between redraws while it is watched.
type jobPicture struct {
	resp  *slotwisev1.JobResponse
	ended []float64
}

// tasksEnded is the number of tasks of a job that are done.
func (p jobPicture) tasksEnded() int32 {
	return p.resp.Job.Maps.GetDone() + p.resp.Job.Reduces.GetDone()
}

// watchJob redraws a job until it has ended or the user ends it, and returns the last state. The
// caller prints that after the screen is back.
func watchJob(ctx context.Context, u *userCommand, p jobPicture, every time.Duration, ask func(context.Context) (jobPicture, error)) (jobPicture, error) {
	// It has ended already; a screen would appear and vanish.
	if p.resp.Job.EndedMs > 0 {
		return p, nil
	}
	err := watch(ctx, u, p, every, func(ctx context.Context) (picture, error) {
		next, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		// The output of a lost worker is made again, so the number of ended tasks may fall.
		next.ended = keep(p.ended, max(0, next.tasksEnded()-p.tasksEnded()))
		p = next
		if p.resp.Job.EndedMs > 0 {
			return nil, errSeen
		}
		return p, nil
	})
	return p, err
}

// print implements picture.
func (p jobPicture) print(w io.Writer) error {
	j := p.resp.Job
	terminal.Fprintf(w, "%s %s, %s: maps %s %s, reduces %s %s\n", j.Id, jobName(j), source.StateName(j.State), bar(j.Maps.GetProgress()), tasksDone(j.Maps),
		bar(j.Reduces.GetProgress()), tasksDone(j.Reduces))
	terminal.Fprintf(w, "tasks ended %s\n\n", sparkline(p.ended, 0))
	return p.printAll(w)
}

// printAll prints the job without what only a watcher sees.
func (p jobPicture) printAll(w io.Writer) error {
	if isChain(p.resp.Job.Id) {
		return printChain(w, p.resp.Job, p.resp.Steps)
	}
	return printJob(w, p.resp.Job)
}

// isChain reports whether id names a chain.
func isChain(id string) bool { return strings.HasPrefix(id, "chain-") }

// printChain prints a chain and a line for each of its steps.
func printChain(w io.Writer, chain *slotwisev1.JobStatus, steps []*slotwisev1.JobStatus) error {
	if err := printJob(w, chain); err != nil || len(steps) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t := table(w)
	fmt.Fprintln(t, "STEP\tJOB\tSTATE\tMAPS\tREDUCES\tTIME\tMESSAGE")
	for _, s := range steps {
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Step, s.Id, source.StateName(s.State), tasksDone(s.Maps), tasksDone(s.Reduces),
			terminal.Duration(source.Age(s, time.Now())), oneLineText(s.Message))
	}
	return t.Flush()
}

// oneArg requires one argument, called what in messages.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return misuse("%s: which %s? (usage: %s)", c.Name(), what, usage(c))
		}
		return atMostOne(what)(c, args)
	}
}

// usage returns a command's usage with the names of the commands above it.
func usage(c *cobra.Command) string { return c.Parent().CommandPath() + " " + c.Use }

// printJob prints all fields of a job that have a value, then its counters. The order is the one of
// questions: which job, its state and the reason, its progress, its times, its output, and its
// errors.
func printJob(w io.Writer, j *slotwisev1.JobStatus) error {
	t := table(w)
	line := func(name, value string) {
		// A job before its start, a chain and a step lack some values. An empty line would look
		// like an unknown value.
		if value != "" {
			terminal.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	line("job", j.Id)
	line("name", j.Name)
	line("user", j.User)
	line("pool", j.Pool)
	line("priority", source.PriorityName(j.Priority))
	line("state", source.StateName(j.State))
	line("chain", j.Chain)
	line("step", j.Step)
	line("driver", driverText(j))
	line("message", oneLineText(j.Message))
	line("waits for", j.Waiting)
	line("maps", phaseText(j.Maps))
	line("reduces", phaseText(j.Reduces))
	line("locality", source.LocalityText(j.Locality))
	line("submitted", clock(j.SubmittedMs))
	line("started", clock(j.StartedMs))
	line("ended", clock(j.EndedMs))
	line("deadline", dueText(j))
	for _, l := range forecastLines(j.Forecast) {
		line(l[0], l[1])
	}
	line("took", terminal.Duration(source.Age(j, time.Now())))
	line("input", terminal.Bytes(j.InputBytes))
	line("output", j.Output)
	line("last error", oneLineText(j.LastError))
	line("end of its log", oneLineText(j.LogTail))
	if err := t.Flush(); err != nil {
		return err
	}
	printCounters(w, j)
	return nil
}

// driverText returns the worker and the try of a chain's driver, for people.
func driverText(j *slotwisev1.JobStatus) string {
	switch {
	// An ended chain has no driver, and its last one would look as if it still ran.
	case j.DriverTries == 0 || j.EndedMs > 0:
		return ""
	case j.Driver == "":
		return fmt.Sprintf("none runs, %s so far", terminal.Plural(int(j.DriverTries), "try"))
	}
	return fmt.Sprintf("on %s, try %d", j.Driver, j.DriverTries)
}

// oneLineText replaces white space, line ends included, by single spaces. Messages hold the ends of
// logs, and a line of a table is one line.
func oneLineText(s string) string { return strings.Join(strings.Fields(s), " ") }

// phaseText describes the progress of the tasks of a kind. Failed are attempts and not tasks: a
// failed task ends the job.
func phaseText(t *slotwisev1.TaskCounts) string {
	s := fmt.Sprintf("%d of %d done (%.0f %%), %d running, %d pending", t.GetDone(), t.GetTotal(), 100*t.GetProgress(), t.GetRunning(), t.GetPending())
	if n := t.GetFailed(); n > 0 {
		s += fmt.Sprintf(", %s failed", terminal.Plural(int(n), "attempt"))
	}
	return s
}

// clock formats a time of the master in this machine's time zone. It returns ""
// for 0, which means never.
func clock(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05")
}

// printCounters prints the counters of a job's maps and reduces, then the
// counters of the job's own code.
func printCounters(w io.Writer, j *slotwisev1.JobStatus) {
	o := &terminal.Outcome{Job: j.GetName(), Counters: map[string]int64{}, User: map[string]int64{}}
	for _, of := range []struct {
		kind string
		m    *slotwisev1.Counters
	}{{"map", j.MapCounters}, {"reduce", j.ReduceCounters}} {
		set := wire.DecodeCounters(of.m)
		set.PutJSON(o.Counters, of.kind)
		for name, n := range set.User() {
			o.User[name] += n
		}
	}
	terminal.Counters(w, o)
}

// newTasks returns the command that lists the tasks of a job.
func newTasks() *cobra.Command {
	var kind, state string
	c := &cobra.Command{
		Use:   "tasks JOB",
		Short: "List the tasks of a job and their attempts",
		Long:  "Lists the tasks of a job, a line for each attempt.",
		Example: `  slotwise tasks j12
  slotwise tasks j12 --kind reduce --state running
  slotwise tasks j12 -o json`,
		Args: oneArg("job"),
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		r := &slotwisev1.TasksRequest{Job: args[0], State: state}
		switch kind {
		case "map":
			r.Kind = slotwisev1.Kind_KIND_MAP
		case "reduce":
			r.Kind = slotwisev1.Kind_KIND_REDUCE
		case "":
		default:
			// Checked here, because the flag is sent as a number, and 0 means both kinds.
			return oneOf("kind", kind, []string{"map", "reduce"})
		}
		// The master would answer an unknown state with an empty list.
		if state != "" {
			if err := oneOf("state", state, taskStates); err != nil {
				return err
			}
		}
		tasks, err := u.cl.Tasks(ctx, r)
		if err != nil {
			return err
		}
		if u.json() {
			return printMessages(u.out(), tasks)
		}
		return printTasks(u.out(), tasks)
	})
	c.Flags().StringVar(&kind, "kind", "", "list only tasks of this `kind`: map or reduce")
	c.Flags().StringVar(&state, "state", "", "list only tasks that are, or have an attempt, in this `state`: "+strings.Join(taskStates, ", "))
	completeWords(c, "kind", []string{"map", "reduce"})
	completeWords(c, "state", taskStates)
	return c
}

// taskStates are the states of tasks and of attempts.
var taskStates = []string{"pending", "delayed", "running", "succeeded", "failed", "killed", "lost"}

// printTasks prints a line for each attempt, and one for each task without
// attempts.
func printTasks(w io.Writer, tasks []*slotwisev1.TaskStatus) error {
	t := table(w)
	fmt.Fprintln(t, "TASK\tSTATE\tATTEMPT\tSTATE\tNODE\tLEVEL\tPROGRESS\tTIME\tERROR")
	for _, task := range tasks {
		// A pending task is a line, too, or a job of 100 pending maps would look empty.
		if len(task.Attempts) == 0 {
			terminal.Fprintf(t, "%s\t%s\n", task.Id, task.State)
		}
		for _, a := range task.Attempts {
			state := a.State
			if a.Speculative {
				state += " (copy)"
			}
			terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.0f %%\t%s\t%s\n", task.Id, task.State, a.Id, state, a.Node,
				strings.ToLower(a.Level), 100*a.Progress, attemptTime(a), attemptError(a))
		}
	}
	return t.Flush()
}

// attemptError returns why an attempt failed, with the end of its log if the caller may read it:
// the master leaves the log out for others than the job's owner, so nothing is checked here.
func attemptError(a *slotwisev1.AttemptStatus) string {
	text := oneLineText(a.Error)
	if tail := oneLineText(a.LogTail); tail != "" {
		text += "; end of its log: " + tail
	}
	return text
}

// attemptTime formats how long an attempt has run.
func attemptTime(a *slotwisev1.AttemptStatus) string {
	end := a.EndedMs
	if end == 0 {
		end = time.Now().UnixMilli()
	}
	// The master's clock started the attempt and this machine's clock is read now; they may differ.
	return terminal.Duration(time.Duration(max(0, end-a.StartedMs)) * time.Millisecond)
}

// newExplain returns the command that explains why a job waits. The reasons, advice and forecast
// are made by the master, so the console shows the same sentences.
func newExplain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain JOB|CHAIN",
		Short: "Explain why a job waits or is slow, and what would change that",
		Long: `Explains for the maps and the reduces of a job why none is started now, what they
waited for before and how long, and what would change that; when the job is expected to
end; and which changes would start it at once. Of a chain it explains why its driver
does not run, and its running steps.`,
		Example: `  slotwise explain j12
  slotwise explain j12 -o json`,
		Args: oneArg("job"),
	}
	// Why, forecast and remedies are one answer of the master: three calls could speak of different
	// moments.
	return newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Explain, &slotwisev1.ExplainRequest{Job: args[0]})
		if err != nil {
			return err
		}
		if u.json() {
			return printMessage(u.out(), resp)
		}
		printWhy(u.out(), resp.Why)
		printOutlook(u.out(), resp)
		return nil
	})
}

// printWhy prints wait reasons, each with advice, in the master's order.
func printWhy(w io.Writer, why []*slotwisev1.Explanation) {
	if len(why) == 0 {
		fmt.Fprintln(w, "nothing has held it back")
	}
	for _, e := range why {
		held := ""
		// A reason that holds since this moment has no time yet.
		if e.HeldMs > 0 {
			held = fmt.Sprintf(" (for %s in all)", terminal.Duration(time.Duration(e.HeldMs)*time.Millisecond))
		}
		kind := "driver"
		if e.Kind != slotwisev1.Kind_KIND_UNSPECIFIED {
			kind = enumName(e.Kind.Descriptor(), e.Kind.Number()) + "s"
		}
		// Reasons that held before would otherwise look like further ones that hold now.
		when := "before"
		if e.Now {
			when = "now"
		}
		terminal.Fprintf(w, "%s %s: %s%s\n", kind, when, e.Words, held)
		if e.Advice != "" {
			terminal.Fprintf(w, "  what would help: %s\n", e.Advice)
		}
	}
}
