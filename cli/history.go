package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// newLogs returns the command that prints the log of an attempt.
func newLogs() *cobra.Command {
	r, unchanged := &slotwisev1.LogRequest{}, false
	c := &cobra.Command{
		Use:   "logs ATTEMPT|CHAIN",
		Short: "Print the output of an attempt or of a chain's driver",
		Long: `Prints the standard output and standard error of an attempt, from its worker's
disk. If the worker is gone, it prints what the master has kept, the last 64 KiB at
most, and says so on standard error. slotwise tasks lists attempts. With CHAIN it prints
the output of the chain's current or last driver.

The bytes are the job's own. Into a file or a pipe they go unchanged. On a terminal,
control characters are shown as \x1b, because a terminal would obey them; --raw
prints them unchanged there as well, such as colours of your own job.`,
		Example: `  slotwise logs j12_m_3_0
  slotwise logs chain-12
  slotwise logs j12_r_0_1 --follow
  slotwise logs j12_r_0_1 --raw`,
		Args: oneArg("attempt"),
	}
	newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		r.Attempt = args[0]
		out := u.out()
		// A pipe gets the bytes unchanged. A terminal would obey control characters that a job has
		// printed.
		if unchanged || !c.Flags().Changed("raw") && !isTerminal(out) {
			out = raw(out)
		}
		return printLog(ctx, u, r, out)
	})
	c.Flags().BoolVarP(&r.Follow, "follow", "f", false, "continue until the attempt ends")
	c.Flags().BoolVar(&unchanged, "raw", false, "print control characters unchanged (default: only if the output is not a terminal)")
	return c
}

// newStack returns the command that shows what an attempt does. It prints escaped, unlike logs:
// names of processes and functions are chosen by the job.
func newStack() *cobra.Command {
	c := &cobra.Command{
		Use:   "stack ATTEMPT",
		Short: "Show what a running attempt does: its processes and stacks",
		Long: `Prints the processes of a running attempt, with their states and the functions of the
kernel in which they wait, and the stacks of the goroutines of its Go process, which are
those of a mapper or reducer in Go. The attempt continues. Those who may read its log may
ask. slotwise tasks lists attempts.`,
		Example: `  slotwise stack j12_m_3_0
  slotwise tasks j12 --state running`,
		Args: oneArg("attempt"),
	}
	return newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		return printLog(ctx, u, &slotwisev1.LogRequest{Attempt: args[0], Stack: true}, u.out())
	})
}

// printLog copies the log of an attempt to out as the master streams it. Notes go to standard
// error: they are no bytes of the log, which may be piped into another program.
func printLog(ctx context.Context, u *userCommand, r *slotwisev1.LogRequest, out io.Writer) error {
	return u.cl.Log(ctx, r, func(chunk *slotwisev1.LogChunk) error {
		if chunk.Note != "" {
			terminal.Fprintf(u.cmd.ErrOrStderr(), "%s\n", chunk.Note)
		}
		_, err := out.Write(chunk.Data)
		return err
	})
}

// pastStates are the states in which a job ends. The history has no other ones: a job is written
// when it has ended.
var pastStates = []string{"succeeded", "failed", "killed"}

// newHistory returns the command that lists ended jobs. The fields of the request are the flags'
// variables; only values that need a check or another form have variables of their own.
func newHistory() *cobra.Command {
	r := &slotwisev1.HistoryRequest{}
	c := &cobra.Command{
		Use:   "history [JOB|CHAIN]",
		Short: "List jobs that have ended, or show one with its tasks",
		Long: `Lists jobs that have ended, newest first, also from before the master was last
started. With JOB it shows that job, what held it back and its tasks. With --chains it
lists chains, and with CHAIN it shows that chain and its steps.`,
		Example: `  slotwise history
  slotwise history --user ann --limit 10
  slotwise history --name nightly --state failed --since 24h
  slotwise history --before j120
  slotwise history j12 -o json
  slotwise history --chains`,
		Args: atMostOne("job"),
	}
	limit, state, since := 0, "", time.Duration(0)
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		if limit < 0 {
			return misuse("--limit %d: must not be negative", limit)
		}
		// The client joins pages, so a large limit is fine; the message has 32 bits.
		r.Limit = int32(min(limit, 1<<30))
		if state != "" {
			if err := oneOf("state", state, pastStates); err != nil {
				return err
			}
			r.State = protocol.ParseState(state)
		}
		if since < 0 {
			return misuse("--since %v: must not be negative", since)
		}
		// By this machine's clock. The master's may differ, by seconds usually.
		if since > 0 {
			r.EndedFromMs = time.Now().Add(-since).UnixMilli()
		}
		if len(args) > 0 {
			r.Job = args[0]
		}
		// The note, such as one about a damaged database, is printed whatever the outcome.
		jobs, note, err := u.cl.History(ctx, r)
		if note != "" {
			terminal.Fprintf(u.cmd.ErrOrStderr(), "%s\n", note)
		}
		switch {
		case err != nil:
			return err
		// With an id there is one job, or the error of a job that is unknown.
		case u.json() && r.Job != "":
			return printMessage(u.out(), jobs[0])
		case u.json():
			return printMessages(u.out(), jobs)
		case isChain(r.Job):
			return printChain(u.out(), jobs[0].Job, jobs[0].Steps)
		case r.Job != "":
			return printPastJob(u.out(), jobs[0])
		}
		return printPast(u.out(), jobs)
	})
	c.Flags().StringVar(&r.User, "user", "", "list only the jobs of the user of this `name`")
	c.Flags().StringVar(&r.Text, "name", "", "list only jobs with this `text` in their names or ids, in any case")
	c.Flags().StringVar(&r.Pool, "pool", "", "list only the jobs of the pool of this `name`")
	c.Flags().StringVar(&state, "state", "", "list only jobs that ended in this `state`: succeeded, failed or killed")
	c.Flags().DurationVar(&since, "since", 0, "list only jobs that ended in the last `time`, such as 24h")
	completeWords(c, "state", pastStates)
	c.Flags().BoolVar(&r.Chains, "chains", false, "list chains in place of jobs")
	c.Flags().IntVar(&limit, "limit", 0, "list at most this `number` (default 50)")
	c.Flags().StringVar(&r.Before, "before", "", "list only jobs before this `job`")
	return c
}

// printPast prints a line for each job.
func printPast(w io.Writer, jobs []*slotwisev1.HistoryJob) error {
	t := table(w)
	fmt.Fprintln(t, "JOB\tNAME\tUSER\tPOOL\tSTATE\tENDED\tTOOK\tMAPS\tREDUCES\tMESSAGE")
	for _, h := range jobs {
		j := h.Job
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", j.Id, j.Name, j.User, j.Pool, source.StateName(j.State), clock(j.EndedMs),
			terminal.Duration(source.Age(j, time.Now())), j.Maps.GetTotal(), j.Reduces.GetTotal(), oneLineText(j.Message))
	}
	return t.Flush()
}

// printPastJob prints all that is kept of a job, in the form of the commands job, explain and tasks
// for a live one.
func printPastJob(w io.Writer, h *slotwisev1.HistoryJob) error {
	if err := printJob(w, h.Job); err != nil {
		return err
	}
	if len(h.Held) > 0 {
		fmt.Fprint(w, "\nwhat held it back\n")
		printWhy(w, h.Held)
	}
	fmt.Fprintln(w)
	return printTasks(w, h.Tasks)
}
