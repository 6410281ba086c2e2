package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// snapshot is the state of a cluster that top shows.
type snapshot struct {
	cluster *slotwisev1.ClusterResponse
	jobs    []*slotwisev1.JobStatus
	nodes   []*slotwisev1.NodeStatus
}

// newTop returns the command that watches a cluster.
func newTop() *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a cluster's jobs and workers",
		Long: `Shows the jobs and workers of a cluster and redraws them every two seconds, until
the key q or an interrupt. With -o json, or if the output is not a terminal, it
prints them once.`,
		Example: `  slotwise top
  slotwise top --interval 500ms
  slotwise top -o json`,
		Args: noArgs,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error {
		if every < 100*time.Millisecond {
			return misuse("--interval %v: must be at least 100ms", every)
		}
		s, err := takeSnapshot(ctx, u.cl)
		switch {
		case err != nil:
			return err
		case u.json():
			return s.printJSON(u.out())
		case !isTerminal(u.out()):
			return s.print(u.out())
		}
		return watch(ctx, u, s, every)
	})
	c.Flags().DurationVar(&every, "interval", 2*time.Second, "`time` between two redraws")
	return c
}

// takeSnapshot requests the state from the master.
func takeSnapshot(ctx context.Context, cl *client.Client) (*snapshot, error) {
	s := &snapshot{}
	var err error
	if s.cluster, err = client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{}); err != nil {
		return nil, err
	}
	if s.jobs, err = cl.Jobs(ctx, &slotwisev1.JobsRequest{}); err != nil {
		return nil, err
	}
	nodes, err := client.Call(ctx, cl, cl.RPC().Nodes, &slotwisev1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	s.nodes = nodes.Nodes
	return s, nil
}

// printJSON prints the snapshot as one object.
func (s *snapshot) printJSON(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`{"cluster":`)
	if err := printMessage(&b, s.cluster); err != nil {
		return err
	}
	b.WriteString(`,"jobs":`)
	if err := printMessages(&b, s.jobs); err != nil {
		return err
	}
	b.WriteString(`,"nodes":`)
	if err := printMessages(&b, s.nodes); err != nil {
		return err
	}
	b.WriteString("}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// print prints the snapshot as text.
func (s *snapshot) print(w io.Writer) error {
	var maps, reduces int32
	for _, n := range s.nodes {
		maps, reduces = maps+n.Maps, reduces+n.Reduces
	}
	c := s.cluster
	terminal.Fprintf(w, "up %s, policy %s, %s; maps %s %d/%d, reduces %s %d/%d\n\n",
		terminal.Duration(time.Duration(c.UptimeMs)*time.Millisecond), c.Policy, terminal.Plural(int(c.Nodes), "worker"),
		bar(part(maps, c.MapSlots)), maps, c.MapSlots, bar(part(reduces, c.ReduceSlots)), reduces, c.ReduceSlots)
	t := table(w)
	fmt.Fprintln(t, "JOB\tNAME\tUSER\tPOOL\tPRIORITY\tSTATE\tMAPS\t\tREDUCES\t\tTIME\tENDS IN\tWAITS FOR")
	for _, j := range jobRows(s.jobs, false) {
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.Id, jobName(j), j.User, j.Pool, priorityName(j.Priority), stateName(j.State),
			bar(j.Maps.GetProgress()), tasksDone(j.Maps), bar(j.Reduces.GetProgress()), tasksDone(j.Reduces),
			terminal.Duration(jobAge(j, time.Now())), endsIn(j), brief(j.Waiting))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printNodes(w, s.nodes)
}

// part returns n/of, or 0 if of is not positive.
func part(n, of int32) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// barWidth is the length of a bar in characters.
const barWidth = 10

// bar draws a fraction from 0 to 1.
func bar(f float64) string {
	full := int(min(1, max(0, f))*barWidth + 0.5)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}

// Escape sequences of terminals: switch to another screen with a hidden cursor,
// switch back, move to the top left, end a line, and clear the rest.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l"
	screenOff = "\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	lineEnd   = "\x1b[K\n"
	restClear = "\x1b[J"
)

// watch redraws the screen until the key q or the end of ctx. While the master
// cannot be reached it shows the error above the last snapshot.
func watch(ctx context.Context, u *userCommand, s *snapshot, every time.Duration) error {
	keys, restore := readKeys(u.cmd.InOrStdin())
	defer restore()
	out := fileOf(u.out()) // watch is only called for a terminal
	io.WriteString(out, screenOn)
	defer io.WriteString(out, screenOff)
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastError := ""
	for {
		if err := drawPicture(out, s, lastError); err != nil {
			return err
		}
		select {
		case k := <-keys:
			if k == 'q' || k == 'Q' {
				return nil
			}
			// Another key only draws again, for example after a change of the terminal's size.
			continue
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next, err := takeSnapshot(ctx, u.cl)
		switch {
		case ctx.Err() != nil:
			return nil
		// The old snapshot stays below the error, for a master that restarts.
		case err != nil:
			lastError = oneLineText(client.Message(err))
		default:
			s, lastError = next, ""
		}
	}
}

// drawPicture draws as much of a snapshot as fits on the terminal. lastError is
// shown above it unless it is empty.
func drawPicture(out *os.File, s *snapshot, lastError string) error {
	var b bytes.Buffer
	if err := s.print(&b); err != nil {
		return err
	}
	width, height := terminalSize(out)
	// The picture goes around the command's writer, because it has escape sequences.
	lines := strings.Split(strings.TrimRight(terminal.EscapeLines(b.String()), "\n"), "\n")
	if lastError != "" {
		lines = append([]string{terminal.Escape(lastError)}, lines...)
	}
	var picture strings.Builder
	picture.WriteString(home)
	for _, l := range lines[:min(len(lines), height-1)] {
		picture.WriteString(cutLine(l, width) + lineEnd)
	}
	picture.WriteString(restClear)
	_, err := io.WriteString(out, picture.String())
	return err
}

// cutLine shortens a line to a width in characters.
func cutLine(l string, width int) string {
	if utf8.RuneCountInString(l) <= width {
		return l
	}
	return string([]rune(l)[:width])
}
