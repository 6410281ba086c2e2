package worker

import (
	"context"
	"os"
	"path/filepath"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// jobState holds the master's description of a job that has run here and the
// locations of its map outputs. Worker.mu guards
// the fields that change.
type jobState struct {
	id   job.ID
	info *slotwisev1.JobForWorkerResponse // never changes
	// stopPolling ends the goroutine that polls for map outputs; without one it
	// does nothing.
	stopPolling context.CancelFunc
	outputs     []*slotwisev1.MapOutput // known so far, in the master's order
	cursor      string                  // up to where; "" asks for all
	// readers are the reduces of the job that run here. The poller runs while
	// there is at least one.
	readers map[*process]*reader
}

// jobInfo returns the master's description of a job. It asks the master once per
// job, unless a launch has brought the description, and retries until ctx is cancelled or the master says that there is no such
// job.
func (w *Worker) jobInfo(ctx context.Context, id job.ID) (*slotwisev1.JobForWorkerResponse, error) {
	for try := 0; ; try++ {
		w.mu.Lock()
		known := w.mu.jobs[id]
		session := w.mu.agent.Session()
		w.mu.Unlock()
		if known != nil {
			return known.info, nil
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		info, err := w.rpc.JobForWorker(call, &slotwisev1.JobForWorkerRequest{Session: session, Job: id.String()})
		cancel()
		switch {
		// The loop reads the entry again, because another attempt's answer may have come first.
		case err == nil:
			w.mu.Lock()
			w.knowLocked(id, info)
			w.mu.Unlock()
			continue
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		// The job has ended. The session's end is answered differently and is retried in the next
		// session.
		// Its attempts are about to be killed, so their error is of no interest to the user.
		case connect.CodeOf(err) == connect.CodeNotFound:
			return nil, err
		}
		backOff(ctx, try)
	}
}

// knowLocked notes the master's description of a job. Two attempts of the job may have requested it at
// once. The first answer stays, because the other attempt holds a pointer to it already.
func (w *Worker) knowLocked(id job.ID, info *slotwisev1.JobForWorkerResponse) {
	if w.mu.jobs[id] == nil {
		w.mu.jobs[id] = &jobState{id: id, info: info, stopPolling: func() {}, readers: map[*process]*reader{}}
		w.mu.agent.JobKnown(id, info.GetStaging())
	}
}

// outputsOf returns the secret with which reduces sign requests for a job's map outputs,
// or nil if it is not known, and the number of partitions of each output. name comes from
// the request. It asks the master only if outputs of the job lie here, so that requests with
// invented names cause no calls. That is the case after a restart of the worker.
func (w *Worker) outputsOf(name string) (secret []byte, partitions int) {
	id, err := job.ParseID(name)
	if err != nil {
		return nil, 0
	}
	w.mu.Lock()
	known := w.mu.jobs[id]
	w.mu.Unlock()
	if known != nil {
		return known.info.GetSecret(), int(known.info.GetSpec().GetReduces())
	}
	// The id is parsed, so the path stays below the directory.
	if _, err := os.Stat(filepath.Join(w.home.outputs(), id.String())); err != nil {
		return nil, 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if info, err := w.jobInfo(ctx, id); err == nil {
		return info.GetSecret(), int(info.GetSpec().GetReduces())
	}
	return nil, 0
}

// reader passes the locations of map outputs to one running reduce. Its goroutine
// sends the messages of queue, so that a child that reads slowly delays no other reduce.
type reader struct {
	queue []*slotwisev1.MapOutputsResponse // guarded by Worker.mu
	more  chan struct{}                    // holds a value when queue is not empty
	end   chan struct{}                    // closed by stopReading
}

// enqueueLocked queues a message for the reduce.
func (r *reader) enqueueLocked(m *slotwisev1.MapOutputsResponse) {
	r.queue = append(r.queue, m)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// startReading passes the locations of all map outputs of the job, known ones and
// later ones, to a reduce until stopReading. If the reduce has ended already or
// the job was dropped it does nothing.
func (w *Worker) startReading(p *process, t *turn) {
	r := &reader{more: make(chan struct{}, 1), end: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.mu.jobs[p.id.Job]
	// This runs beside the attempt, which may be over before it is reached.
	if j == nil || t.ended {
		return
	}
	r.enqueueLocked(&slotwisev1.MapOutputsResponse{Reset_: true, Outputs: j.outputs})
	j.readers[p], p.readsFrom = r, j
	// One poll a job, however many of its reduces run here: the master answers per call.
	if len(j.readers) == 1 {
		ctx, stop := context.WithCancel(context.Background())
		j.stopPolling = stop
		go w.pollMapOutputs(ctx, j)
	}
	go w.sendMapOutputs(t, r)
}

// sendMapOutputs sends queued messages to the reduce until its reader or its turn ends.
func (w *Worker) sendMapOutputs(t *turn, r *reader) {
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
		// Outside the lock, because send blocks while the child does not read.
		for _, m := range queue {
			if t.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_MapOutputs{MapOutputs: m}}) != nil {
				return
			}
		}
	}
}

// stopReading ends the reader of an attempt. If the reader has not started yet, it
// never will. The job's poller ends with its last reader. The worker may have
// dropped the job meanwhile.
func (w *Worker) stopReading(p *process, t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.ended = true
	j := p.readsFrom
	if j == nil {
		return
	}
	p.readsFrom = nil
	close(j.readers[p].end)
	delete(j.readers, p)
	if len(j.readers) == 0 {
		j.stopPolling()
		// The next reduce starts from the beginning of the log: without a poller the list would be
		// out of date.
		j.cursor, j.outputs = "", nil
	}
}

// pollMapOutputs asks the master for new map outputs of a job, by long polls,
// until ctx is cancelled or the job has ended.
func (w *Worker) pollMapOutputs(ctx context.Context, j *jobState) {
	for try := 0; ctx.Err() == nil; {
		w.mu.Lock()
		req := &slotwisev1.MapOutputsRequest{
			Session: w.mu.agent.Session(), Job: j.id.String(), Cursor: j.cursor, WaitMs: maxWait.Milliseconds(),
		}
		w.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, maxWait+callTimeout)
		resp, err := w.rpc.MapOutputs(call, req)
		cancel()
		if err != nil {
			backOff(ctx, try)
			try++
			continue
		}
		try = 0
		w.mu.Lock()
		// An answer to an earlier session carries that session's cursor.
		if ctx.Err() == nil && req.GetSession() == w.mu.agent.Session() {
			j.addOutputsLocked(resp)
		}
		w.mu.Unlock()
		if resp.GetEnded() {
			return
		}
	}
}

// addOutputsLocked takes over new map outputs and queues them for all readers. A
// reset replaces everything known so far.
func (j *jobState) addOutputsLocked(m *slotwisev1.MapOutputsResponse) {
	// With the outputs under one lock: a cursor without its outputs would skip them for ever.
	j.cursor = m.GetCursor()
	if m.GetReset_() {
		j.outputs = nil
	}
	j.outputs = append(j.outputs, m.GetOutputs()...)
	// A long poll that has ended without news says nothing to readers.
	if !m.GetReset_() && len(m.GetOutputs()) == 0 {
		return
	}
	for _, r := range j.readers {
		r.enqueueLocked(&slotwisev1.MapOutputsResponse{Reset_: m.GetReset_(), Outputs: m.GetOutputs()})
	}
}
