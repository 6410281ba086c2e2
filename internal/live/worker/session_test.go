package worker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
	"github.com/slotwise/slotwise/sched/job"
)

// holder is a master that holds heartbeats with a wait, and answers the others when the test says so.
type holder struct {
	slotwisev1connect.WorkerServiceClient
	held    chan struct{}
	reports chan *slotwisev1.HeartbeatRequest
	answer  chan struct{}
}

func (h *holder) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	if r.WaitMs > 0 {
		close(h.held)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h.reports <- r
	<-h.answer
	return &slotwisev1.HeartbeatResponse{}, nil
}

// TestReportsAtOnce has three attempts end. One heartbeat reports the first, and one both that ended while it was under
// way; no further one leaves without anything to report.
func TestReportsAtOnce(t *testing.T) {
	h := &holder{held: make(chan struct{}), reports: make(chan *slotwisev1.HeartbeatRequest), answer: make(chan struct{})}
	w := &Worker{rpc: h, log: slog.New(slog.DiscardHandler), began: time.Now(), wake: make(chan struct{}, 1)}
	w.metrics, w.mu.agent = newMetrics(w), agent.New()
	w.load.last, w.load.at = &slotwisev1.Load{}, time.Hour // nothing is measured
	w.mu.agent.Registered(&slotwisev1.RegisterResponse{Session: "s"}, false)
	var actions []*slotwisev1.Action
	for i := range int64(3) {
		actions = append(actions, &slotwisev1.Action{Number: i + 1, What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: fmt.Sprintf("j1_m_%d_0", i)}}})
	}
	w.mu.agent.Act(actions, 0)
	end := func(name string) {
		id, err := job.ParseAttempt(name)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.mu.agent.End(id, agent.Succeeded, "", "", nil)
		w.mu.Unlock()
		w.heartbeatNow()
	}
	ended := func() (n int) {
		select {
		case beat := <-h.reports:
			for _, r := range beat.Reports {
				if r.State == agent.Succeeded {
					n++
				}
			}
		case <-time.After(4 * time.Minute):
			t.Fatal("no report")
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.heartbeats(ctx, time.Hour)
	}()
	<-h.held // else it could carry the first end
	end("j1_m_0_0")
	if n := ended(); n != 1 {
		t.Errorf("the first report has %d ends", n)
	}
	end("j1_m_1_0")
	end("j1_m_2_0")
	h.answer <- struct{}{}
	if n := ended(); n != 2 {
		t.Errorf("the second report has %d ends", n)
	}
	h.answer <- struct{}{}
	select {
	case r := <-h.reports:
		t.Errorf("a third report: %v", r)
		h.answer <- struct{}{}
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	<-done
}
