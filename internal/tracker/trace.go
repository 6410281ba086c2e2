package tracker

import (
	"fmt"
	"strings"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// FormatEvent writes an event as a line of a trace, for people and golden
// files. The same event always gives the same line.
func FormatEvent(ev Event) string {
	switch ev := ev.(type) {
	case *Submit:
		return fmt.Sprintf("submit %q user=%s pool=%s priority=%v maps=%d reduces=%d%s%s", ev.Spec.Name,
			ev.Spec.User, ev.Spec.Pool, ev.Spec.Priority, len(ev.Spec.Splits), ev.Spec.Reduces,
			asked("memory", ev.Spec.TaskMemory), asked("cpus", int64(ev.Spec.TaskCPUs)))
	case *KillJob:
		return fmt.Sprintf("kill %v %q", ev.Job, ev.Reason)
	case *SetPriority:
		return fmt.Sprintf("priority %v %v", ev.Job, ev.Priority)
	case *MoveJob:
		return fmt.Sprintf("move %v %s", ev.Job, ev.Pool)
	case *KillAttempt:
		return fmt.Sprintf("kill %v %q", ev.Attempt, ev.Reason)
	case *Join:
		return formatJoin(ev)
	case *Drain:
		return fmt.Sprintf("drain %s%s", ev.Node, when(ev.Undo, " undo"))
	case *Lose:
		return "lose " + ev.Node
	case *Heartbeat:
		return formatHeartbeat(ev)
	case *Offer:
		return strings.TrimSuffix("offer "+strings.Join(ev.Nodes, " "), " ")
	case *AskCommit:
		return fmt.Sprintf("commit? %v%s", ev.Attempt, when(ev.Node != "", " from "+ev.Node))
	case *FetchFailed:
		return fmt.Sprintf("fetch failed %v by %v%s", ev.Map, ev.Reduce, when(ev.SourceGone, " source gone"))
	case *CommitEnded:
		return formatOutputEnd(ev.Job, "committed", ev.Error)
	case *AbortEnded:
		if ev.Published {
			return formatOutputEnd(ev.Job, "found published", "")
		}
		return formatOutputEnd(ev.Job, "aborted", ev.Error)
	case *Tick:
		return "tick"
	}
	// A new event is visible in traces before it has a line of its own.
	return fmt.Sprintf("%T", ev)
}

// asked writes what a task asks for, or nothing if it asks for nothing.
func asked(key string, n int64) string { return when(n != 0, fmt.Sprintf(" %s=%d", key, n)) }

// formatOutputEnd writes a line such as "output j1 committed".
func formatOutputEnd(id job.ID, done, failure string) string {
	if failure != "" {
		return fmt.Sprintf("output %v not %s: %q", id, done, failure)
	}
	return fmt.Sprintf("output %v %s", id, done)
}

// formatJoin writes a node with the attempts and outputs that it lists.
func formatJoin(ev *Join) string {
	var b strings.Builder
	fmt.Fprintf(&b, "join %s host=%s rack=%s maps=%d reduces=%d", ev.Node.Name, ev.Node.Host,
		ev.Node.Rack, ev.Node.MapSlots, ev.Node.ReduceSlots)
	list(&b, " running", ev.Running)
	for i, o := range ev.Outputs {
		fmt.Fprintf(&b, "%s %v:%d", when(i == 0, " with"), o.Attempt, o.Bytes)
	}
	return b.String()
}

// list writes a word and attempts after it, or nothing if there are none.
func list(b *strings.Builder, word string, ids []job.AttemptID) {
	for i, id := range ids {
		fmt.Fprintf(b, "%s %v", when(i == 0, word), id)
	}
}

// conditions are the words of a worker's condition in a trace.
var conditions = map[cluster.Condition]string{cluster.Leaving: " leaving", cluster.DiskFull: " diskfull", cluster.DiskGone: " diskgone"}

// formatHeartbeat writes a heartbeat with its reports, in their order.
func formatHeartbeat(ev *Heartbeat) string {
	var b strings.Builder
	fmt.Fprintf(&b, "heartbeat %s%s%s%s", ev.Node, conditions[ev.Condition], when(ev.NoWork, " no work")+when(ev.Early, " early"), when(ev.All, " all"))
	list(&b, " but", ev.Unheard)
	for i := range ev.Reports {
		r := &ev.Reports[i]
		fmt.Fprintf(&b, " %v:%v", r.Attempt, r.State)
		if r.State == job.AttemptRunning {
			// Three digits: golden files must not depend on the last bits of a float.
			fmt.Fprintf(&b, ":%.3g", r.Progress)
		}
		if r.Error != "" {
			fmt.Fprintf(&b, ":%s%q", when(r.Cause != job.CauseTask, r.Cause.String()+": "), r.Error)
		}
	}
	return b.String()
}

// String writes an effect as a line of a trace.
func (e Effect) String() string {
	text := ""
	if e.Text != "" {
		text = ": " + e.Text
	}
	switch e.Kind {
	case JobAccepted:
		return fmt.Sprintf("accepted %v", e.Job)
	case JobRejected:
		return "rejected" + text
	case Launch:
		slots := when(e.Slot != e.Attempt.Kind, " in a "+e.Slot.String()+" slot")
		if e.Width > 1 {
			slots = fmt.Sprintf(" in %d %v slots", e.Width, e.Slot)
		}
		return fmt.Sprintf("launch %v on %s%s%s%s", e.Attempt, e.Node, when(e.Level != 0, " "+e.Level.String()),
			slots, when(e.Speculative, " as a copy"))
	case JobDone:
		return fmt.Sprintf("done %v %v%s", e.Job, e.State, text)
	case CommitOutput:
		return fmt.Sprintf("commit output %v", e.Job)
	case AbortOutput, CancelOutput:
		return fmt.Sprintf("%s %v%s", e.Kind, e.Job, text)
	case Rejoin:
		return "rejoin " + e.Node
	}
	return fmt.Sprintf("%s %v on %s%s", e.Kind, e.Attempt, e.Node, text)
}

var effectNames = [...]string{
	JobAccepted: "accepted", JobRejected: "rejected", Launch: "launch", Kill: "kill",
	CommitGranted: "commit granted", CommitDenied: "commit denied", MapDone: "map output of",
	MapLost: "output lost of", JobDone: "done", Rejoin: "rejoin",
	CommitOutput: "commit output", AbortOutput: "abort output", CancelOutput: "cancel output",
}

// String returns the kind in the words of a trace.
func (k EffectKind) String() string {
	if k == 0 || int(k) >= len(effectNames) {
		return fmt.Sprintf("effect %d", uint8(k))
	}
	return effectNames[k]
}

// when returns s if the condition holds.
func when(cond bool, s string) string {
	if cond {
		return s
	}
	return ""
}
