package worker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/base/terminal"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// stackTime is the time that an attempt has to report its stacks. A process that is stopped or that
// the kernel blocks does not answer, and then its state is the answer.
const stackTime = 3 * time.Second

// maxListed bounds the processes of an attempt that its state lists.
const maxListed = 200

// serveStack answers what a running attempt does: the state of its processes and, if it answers in time,
// the stacks of its goroutines. It does not disturb the attempt beyond the moment of copying its stacks.
func (w *Worker) serveStack(rw http.ResponseWriter, r *http.Request, id job.AttemptID) {
	w.mu.Lock()
	var t *turn
	// The turn and not the child: after the attempt's end the child may run another attempt, to
	// whose process the question would go.
	p := w.mu.processes[id]
	if p != nil {
		t = p.turn
	}
	w.mu.Unlock()
	if t == nil {
		http.Error(rw, id.String()+" does not run on this worker now", http.StatusNotFound)
		return
	}
	terminal.Fprintf(rw, "%s has run for %s\n\n", id, terminal.Duration(time.Since(p.started)))
	fmt.Fprintf(rw, "%s\n", processStates(t.child.pid)) // which has escaped the texts of others
	ctx, stop := context.WithTimeout(r.Context(), stackTime)
	defer stop()
	text, err := p.askStacks(ctx, t)
	if err != nil {
		terminal.Fprintf(rw, "no stacks: %s\n", err)
		return
	}
	// The process of the job writes the text. The master's client escapes it, like a log.
	fmt.Fprintf(rw, "%s\n", text)
}

// askStacks asks an attempt for the stacks of its goroutines and waits for the answer until ctx ends.
func (p *process) askStacks(ctx context.Context, t *turn) (string, error) {
	select {
	case <-p.stacks: // an answer that came too late for an earlier question
	default:
	}
	sent := make(chan error, 1)
	// In a goroutine, because a child that never reads blocks the send until its attempt ends.
	go func() { sent <- t.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stack{Stack: true}}) }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return "", err
			}
			sent = nil // a nil channel is never ready, so only the answer and the end are awaited
		case text := <-p.stacks:
			return text, nil
		case <-ctx.Done():
			return "", fmt.Errorf("the process of the attempt has not answered in %s", terminal.Duration(stackTime))
		}
	}
}

// processStates lists a process and its descendants: what the kernel says that each does.
func processStates(pid int) string {
	table, err := proctree.Read()
	if err != nil {
		return fmt.Sprintf("the processes cannot be listed: %s\n", err)
	}
	var out strings.Builder
	terminal.Fprintf(&out, "%8s %8s %-34s %10s %10s  %s\n", "PID", "PARENT", "STATE, WAITS IN", "CPU", "MEMORY", "COMMAND")
	all := append([]proctree.Process{table[pid]}, table.Below(pid)...)
	for _, q := range all[:min(len(all), maxListed)] {
		terminal.Fprintf(&out, "%8d %8d %-34s %10s %10s  %s\n", q.PID, q.Parent, proctree.Doing(q.PID), terminal.Duration(q.CPU), terminal.Bytes(q.Resident), proctree.Command(q.PID))
	}
	if n := len(all) - maxListed; n > 0 {
		terminal.Fprintf(&out, "and %s more\n", terminal.Count(int64(n)))
	}
	return out.String()
}
