package worker

import (
	"context"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// reader is a reduce that is told where map outputs are.
type reader struct {
	queue []*slotwisev1.MapOutputsResponse
	more  chan struct{} // has a value when the queue is not empty
	end   chan struct{}
}

// follow tells a reduce of all map outputs, those known and those to come.
func (w *Worker) follow(a *attempt) {
	r := &reader{more: make(chan struct{}, 1), end: make(chan struct{})}
	w.mu.Lock()
	j := w.mu.jobs[a.id.Job]
	if j == nil || a.deaf {
		w.mu.Unlock()
		return
	}
	r.tellLocked(&slotwisev1.MapOutputsResponse{Reset_: true, Outputs: j.where})
	j.readers[a] = r
	if len(j.readers) == 1 {
		ctx, stop := context.WithCancel(context.Background())
		j.stop = stop
		go w.poll(ctx, j)
	}
	w.mu.Unlock()
	go func() { // a child that is slow to read holds up itself only
		for {
			select {
			case <-r.more:
			case <-r.end:
				return
			}
			w.mu.Lock()
			queue := r.queue
			r.queue = nil
			w.mu.Unlock()
			for _, m := range queue {
				if a.child.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_MapOutputs{MapOutputs: m}}) != nil {
					return
				}
			}
		}
	}()
}

// tellLocked queues a message for the reduce.
func (r *reader) tellLocked(m *slotwisev1.MapOutputsResponse) {
	r.queue = append(r.queue, m)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// unfollow ends what follow began, or has it not begin.
func (w *Worker) unfollow(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.deaf = true
	j := w.mu.jobs[a.id.Job]
	if j == nil || j.readers[a] == nil {
		return
	}
	close(j.readers[a].end)
	delete(j.readers, a)
	if len(j.readers) == 0 {
		j.stop()
		j.cursor, j.where = "", nil
	}
}

// poll asks the master where a job's map outputs are until ctx ends.
func (w *Worker) poll(ctx context.Context, j *jobState) {
	const wait = maxWait
	for try := 0; ctx.Err() == nil; {
		w.mu.Lock()
		req := &slotwisev1.MapOutputsRequest{Session: w.mu.session, Job: j.id.String(), Cursor: j.cursor, WaitMs: wait.Milliseconds()}
		w.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, wait+callTimeout)
		resp, err := w.rpc.MapOutputs(call, req)
		cancel()
		if err != nil {
			pause(ctx, try)
			try++
			continue
		}
		try = 0
		w.mu.Lock()
		if ctx.Err() == nil && req.GetSession() == w.mu.session {
			j.learnLocked(resp)
		}
		w.mu.Unlock()
		if resp.GetEnded() {
			return
		}
	}
}

// learnLocked takes news and passes them on.
func (j *jobState) learnLocked(m *slotwisev1.MapOutputsResponse) {
	j.cursor = m.GetCursor()
	if m.GetReset_() {
		j.where = nil
	}
	j.where = append(j.where, m.GetOutputs()...)
	if !m.GetReset_() && len(m.GetOutputs()) == 0 {
		return
	}
	for _, r := range j.readers {
		r.tellLocked(&slotwisev1.MapOutputsResponse{Reset_: m.GetReset_(), Outputs: m.GetOutputs()})
	}
}

// stuck is how long the master may be silent before the worker says that it is
// not ready.
const stuck = 30 * time.Second
