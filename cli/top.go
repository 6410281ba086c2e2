package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// snapshot is the state of a cluster that top shows. Its three parts come from three calls, so a
// job may start between them, and the counts of its tasks need not agree.
type snapshot struct {
	cluster *slotwisev1.ClusterResponse
	// Live jobs and chains, whose steps are jobs of the list, too.
	jobs  []*slotwisev1.JobStatus
	nodes []*slotwisev1.NodeStatus
}

// newTop returns the command that watches a cluster.
func newTop() *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a cluster's jobs and workers",
		Long: `Shows the jobs and workers of a cluster and redraws them every two seconds, until
the key q or an interrupt; above the jobs are the running maps and reduces and the
waiting tasks over the last redraws. With -o json, or if the output is not a terminal, it
prints them once.`,
		Example: `  slotwise top
  slotwise top --interval 500ms
  slotwise top -o json`,
		Args: noArgs,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error {
		if err := checkInterval(every); err != nil {
			return err
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
		// The first snapshot was taken before the screen is switched, so that a master which cannot be
		// reached is an ordinary error.
		seen := &load{}
		seen.add(s)
		return watch(ctx, u, s.with(seen), every, func(ctx context.Context) (picture, error) {
			next, err := takeSnapshot(ctx, u.cl)
			if err != nil {
				return nil, err
			}
			seen.add(next)
			return next.with(seen), nil
		})
	})
	intervalFlag(c, &every, "`time` between two redraws")
	return c
}

// intervalFlag registers the flag of commands that redraw the screen.
func intervalFlag(c *cobra.Command, every *time.Duration, usage string) {
	c.Flags().DurationVar(every, "interval", 2*time.Second, usage)
}

// checkInterval refuses intervals that would keep the master busy.
func checkInterval(every time.Duration) error {
	if every < 100*time.Millisecond {
		return misuse("--interval %v: must be at least 100ms", every)
	}
	return nil
}

// load records the use of a cluster while top watches it. Values are counts, the oldest first.
type load struct{ maps, reduces, waiting []float64 }

// add appends the running and waiting tasks of a snapshot. Running tasks are summed over the
// workers, where each counts once: a chain repeats the counts of its jobs.
func (l *load) add(s *snapshot) {
	var maps, reduces, waiting int32
	for _, n := range s.nodes {
		maps, reduces = maps+n.Maps, reduces+n.Reduces
	}
	for _, j := range s.jobs {
		// A chain counts the tasks of its jobs again.
		if len(j.Steps) == 0 {
			waiting += j.Maps.GetPending() + j.Reduces.GetPending()
		}
	}
	l.maps, l.reduces, l.waiting = keep(l.maps, maps), keep(l.reduces, reduces), keep(l.waiting, waiting)
}

// keep appends a value and drops the oldest of more than sparkWidth.
func keep(list []float64, n int32) []float64 {
	list = append(list, float64(n))
	return list[max(0, len(list)-sparkWidth):]
}

// sparkWidth is the most characters of a sparkline: two minutes at the default interval, beside a
// name and a number within 80 columns.
const sparkWidth = 60

// sparkline draws values from 0 to top, a character each. top is raised to the largest value, so that a
// policy that exceeds the slots is not drawn as if it did not.
func sparkline(values []float64, top float64) string {
	const levels = "▁▂▃▄▅▆▇█"
	steps := []rune(levels)
	for _, v := range values {
		top = max(top, v)
	}
	var out strings.Builder
	for _, v := range values {
		at := 0
		// The lowest step is kept for zero: a single busy slot of 1,000 must differ from none.
		if v > 0 {
			at = min(len(steps)-1, 1+int(v/top*float64(len(steps)-1)-1e-9))
		}
		out.WriteRune(steps[at])
	}
	return out.String()
}

// with returns the snapshot as a picture with sparklines below its head.
func (s *snapshot) with(l *load) picture { return loaded{s, *l} }

// loaded is a snapshot and the load before it.
type loaded struct {
	*snapshot
	load load
}

// print implements picture.
func (l loaded) print(w io.Writer) error {
	l.head(w)
	for _, x := range []struct {
		name   string
		values []float64
		top    int32
	}{{"maps", l.load.maps, l.cluster.MapSlots}, {"reduces", l.load.reduces, l.cluster.ReduceSlots}, {"waiting", l.load.waiting, 0}} {
		last := x.values[len(x.values)-1]
		terminal.Fprintf(w, "%-8s %s %s\n", x.name, sparkline(x.values, float64(x.top)), terminal.Count(int64(last)))
	}
	terminal.Fprintf(w, "\n")
	return l.tables(w)
}

// takeSnapshot requests the state from the master.
func takeSnapshot(ctx context.Context, cl *client.Client) (*snapshot, error) {
	s := &snapshot{}
	var err error
	if s.cluster, err = client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{}); err != nil {
		return nil, err
	}
	// Live jobs only: the picture shows what runs.
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
	// One write: a list that fails in the middle leaves no half of an object.
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
	s.head(w)
	terminal.Fprintf(w, "\n")
	return s.tables(w)
}

// head prints a line about the cluster.
func (s *snapshot) head(w io.Writer) {
	var maps, reduces int32
	for _, n := range s.nodes {
		maps, reduces = maps+n.Maps, reduces+n.Reduces
	}
	c := s.cluster
	terminal.Fprintf(w, "up %s, policy %s, %s; maps %s %d/%d, reduces %s %d/%d\n",
		terminal.Duration(time.Duration(c.UptimeMs)*time.Millisecond), c.Policy, terminal.Plural(int(c.Nodes), "worker"),
		bar(part(maps, c.MapSlots)), maps, c.MapSlots, bar(part(reduces, c.ReduceSlots)), reduces, c.ReduceSlots)
}

// tables prints the jobs and the workers.
func (s *snapshot) tables(w io.Writer) error {
	t := table(w)
	fmt.Fprintln(t, "JOB\tNAME\tUSER\tPOOL\tPRIORITY\tSTATE\tMAPS\t\tREDUCES\t\tTIME\tENDS IN\tWAITS FOR")
	for _, j := range jobRows(s.jobs, false) {
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.Id, jobName(j), j.User, j.Pool, source.PriorityName(j.Priority), source.StateName(j.State),
			bar(j.Maps.GetProgress()), tasksDone(j.Maps), bar(j.Reduces.GetProgress()), tasksDone(j.Reduces),
			terminal.Duration(source.Age(j, time.Now())), endsIn(j), brief(j.Waiting))
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

// Escape sequences of terminals: switch to another screen with a hidden cursor, switch back, move
// to the top left, end a line, and clear the rest. The other screen keeps the user's scrollback as
// it was. A picture is drawn over the last one and the screen is never cleared first, because the
// time between the two would be seen as flicker.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l"
	screenOff = "\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	lineEnd   = "\x1b[K\n"
	restClear = "\x1b[J"
)

// picture is one screen of a watching command. To add such a command: write a type with print, take
// the first picture before watch, so that an error is printed on the user's screen, and return
// errSeen from take when nothing can change any more. watch cuts lines and escapes text; print
// needs to do neither.
type picture interface{ print(w io.Writer) error }

// errSeen ends watch without an error: its picture is the last one.
var errSeen = errors.New("nothing more will change")

// watch redraws the screen until the key q, the end of ctx, or until take returns errSeen. While the
// master cannot be reached it shows the error above the last picture.
func watch(ctx context.Context, u *userCommand, p picture, every time.Duration, take func(ctx context.Context) (picture, error)) error {
	// Keys come without Enter and are not shown, so the terminal must get its settings back however the
	// loop ends.
	keys, restore := readKeys(u.cmd.InOrStdin())
	defer restore()
	out := fileOf(u.out()) // watch is only called for a terminal
	io.WriteString(out, screenOn)
	defer io.WriteString(out, screenOff)
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastError := ""
	for {
		if err := drawPicture(out, p, lastError); err != nil {
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
		// A slow master delays the redraw. Ticks that pass meanwhile are dropped by the ticker, so calls
		// never pile up.
		next, err := take(ctx)
		switch {
		// An interrupt is the usual way to end, hence no error. Interruptible has noted it all the same,
		// and report gives status 130 only for an error.
		case ctx.Err() != nil, errors.Is(err, errSeen):
			return nil
		// The old picture stays below the error, for a master that restarts.
		case err != nil:
			lastError = oneLineText(client.Message(err))
		default:
			p, lastError = next, ""
		}
	}
}

// drawPicture draws as much of a picture as fits on the terminal. lastError is shown above it
// unless it is empty. All is one write: a terminal that gets half a picture shows it.
func drawPicture(out *os.File, p picture, lastError string) error {
	var b bytes.Buffer
	if err := p.print(&b); err != nil {
		return err
	}
	// Asked for each picture, since the user may change the size; there is no handler of SIGWINCH.
	width, height := terminalSize(out)
	// The picture goes around the command's writer, because it has escape sequences.
	lines := strings.Split(strings.TrimRight(terminal.EscapeLines(b.String()), "\n"), "\n")
	if lastError != "" {
		lines = append([]string{terminal.Escape(lastError)}, lines...)
	}
	var text strings.Builder
	text.WriteString(home)
	// One line less than fits: after the last line's end the terminal would scroll. Lines are cut,
	// because a wrapped one would push the others down and leave rests behind it.
	for _, l := range lines[:min(len(lines), height-1)] {
		text.WriteString(cutLine(l, width) + lineEnd)
	}
	text.WriteString(restClear)
	_, err := io.WriteString(out, text.String())
	return err
}

// cutLine shortens a line to a width in characters.
func cutLine(l string, width int) string {
	if utf8.RuneCountInString(l) <= width {
		return l
	}
	return string([]rune(l)[:width])
}
