package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// verb is a kind of call.
type verb int

const (
	submits verb = iota
	kills
	sets   // the priority
	moves  // to a pool
	status // reads
)

// question is a call of a user. All calls about one request's job are one history.
type question struct {
	verb    verb
	request int    // whose job it is about
	value   string // the priority or the pool
}

// answer is the master's answer to a user.
type answer struct {
	lost           bool   // there was no answer: the call may take effect at any later time, or never
	ended          bool   // it was refused because the job has ended; of status: the job was killed
	job            string // of submits
	pool, priority string // of status
}

// jobState is the state of a job, as its users know it.
type jobState struct {
	job            string
	killed         bool
	pool, priority string
}

// The pool and the priority with which all jobs are submitted.
const (
	firstPool     = "p0"
	firstPriority = "NORMAL"
)

// jobModel is the behaviour of one job of a master without faults.
var jobModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[int]int{}
		for _, op := range history {
			r := op.Input.(question).request
			if _, ok := by[r]; !ok {
				by[r] = len(parts)
				parts = append(parts, nil)
			}
			parts[by[r]] = append(parts[by[r]], op)
		}
		return parts
	},
	Init: func() any { return jobState{} },
	Step: func(state, input, output any) (bool, any) {
		s, q, a := state.(jobState), input.(question), output.(answer)
		exists := s.job != ""
		switch q.verb {
		case submits:
			if !exists {
				// A lost answer leaves the id unknown, and the next submit tells it.
				s = jobState{cmp.Or(a.job, "unknown"), false, firstPool, firstPriority}
			} else if s.job == "unknown" {
				s.job = cmp.Or(a.job, "unknown")
			}
			return a.lost || a.job == s.job, s
		case kills:
			s.killed = s.killed || exists
			return exists || a.lost, s
		case sets, moves:
			if !a.lost && a.ended != s.killed || !exists && !a.lost {
				return false, s
			}
			if !s.killed && exists {
				if q.verb == sets {
					s.priority = q.value
				} else {
					s.pool = q.value
				}
			}
			return true, s
		}
		return exists && a.ended == s.killed && a.pool == s.pool && a.priority == s.priority, s
	},
}

// calls are the calls of a run.
type calls struct {
	masters []slotwisev1connect.ClientServiceClient
	hosts   []string
	began   time.Time
	program string // SHA-256 of the program of all jobs
	mu      struct {
		sync.Mutex
		history []porcupine.Operation
		jobs    map[int]string // that were answered, by request
		wrong   []error
		current int // index of the master that led last
	}
	undecided bool
}

// The requests of a run, and the pause of a user between two calls.
const (
	lastRequest = 4
	callPause   = 60 * time.Millisecond
	callLimit   = 2 * time.Second
)

// newCalls uploads the program of the jobs, which is slotwise itself.
func (t *trio) newCalls(ctx context.Context) (*calls, error) {
	c := &calls{began: time.Now()}
	c.mu.jobs = map[int]string{}
	h, err := t.httpClient()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(t.binary)
	if err != nil {
		return nil, err
	}
	c.program = fmt.Sprintf("%x", sha256.Sum256(program))
	up, err := client.New("https://"+strings.ReplaceAll(t.list(), ",", ",https://"), client.Options{HTTP: h, Patience: startLimit})
	if err != nil {
		return nil, err
	}
	err = up.Ensure(ctx, c.program, func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(program)), int64(len(program)), nil
	})
	if err != nil {
		return nil, err
	}
	for i := 1; i <= 3; i++ {
		host := trioAddress(i) + ":" + trioPort
		c.hosts = append(c.hosts, host)
		c.masters = append(c.masters, newClient(h, "https://"+host))
	}
	return c, nil
}

func newClient(h *http.Client, url string) slotwisev1connect.ClientServiceClient {
	return slotwisev1connect.NewClientServiceClient(h, url)
}

// errLost says that a call may have been carried out, now or later.
var errLost = errors.New("no answer")

// at makes a call to the master that leads. A refusal by a follower was not carried out, so another
// one is asked. After any other failure it is unknown what has happened.
func (c *calls) at(ctx context.Context, call func(context.Context, slotwisev1connect.ClientServiceClient) error) error {
	for end := time.Now().Add(callLimit); ; {
		c.mu.Lock()
		i := c.mu.current
		c.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, callLimit)
		err := call(limited, c.masters[i])
		cancel()
		next, refused := c.notLeader(err, i)
		switch code := connect.CodeOf(err); {
		case err == nil:
			return nil
		case refused && time.Now().Before(end):
			c.lead(i, next)
			time.Sleep(20 * time.Millisecond)
			continue
		case !refused && (code == connect.CodeFailedPrecondition || code == connect.CodeNotFound):
			return err
		default:
			c.lead(i, next)
			return errLost
		}
	}
}

// lead notes that another master may lead.
func (c *calls) lead(was, now int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.current == was {
		c.mu.current = now
	}
}

// notLeader reports whether a master has refused a call because it does not lead, and which one to
// ask next.
func (c *calls) notLeader(err error, i int) (next int, refused bool) {
	next = (i + 1) % len(c.masters)
	var coded *connect.Error
	if !errors.As(err, &coded) {
		return next, false
	}
	for _, d := range coded.Details() {
		if v, err := d.Value(); err == nil {
			if n, ok := v.(*slotwisev1.NotLeader); ok {
				if k := slices.Index(c.hosts, n.Leader); k >= 0 {
					next = k
				}
				return next, true
			}
		}
	}
	return next, false
}

// user makes calls until enough is closed.
func (c *calls) user(ctx context.Context, client int, r *rand.Rand, enough chan struct{}) {
	for {
		select {
		case <-enough:
			return
		case <-ctx.Done():
			return
		case <-time.After(callPause):
			c.one(ctx, client, r)
		}
	}
}

// priorities are the values that the calls set. Jobs of users who wait have a higher one.
var priorities = []string{"VERY_LOW", "LOW", "NORMAL", "HIGH"}

// one makes one call. A lost status says nothing and is left out.
func (c *calls) one(ctx context.Context, client int, r *rand.Rand) {
	// Requests begin one after the other. Older jobs are called, too.
	most := min(lastRequest, 1+int(time.Since(c.began)/(4*time.Second)))
	q := question{request: r.IntN(most)}
	c.mu.Lock()
	job := c.mu.jobs[q.request]
	c.mu.Unlock()
	switch n := r.IntN(100); {
	case job == "" || n < 8:
		q.verb = submits
	case n < 10:
		q.verb = kills
	case n < 35:
		q.verb, q.value = sets, priorities[r.IntN(len(priorities))]
	case n < 60:
		q.verb, q.value = moves, fmt.Sprint("p", r.IntN(5))
	default:
		q.verb = status
	}
	c.record(ctx, client, q, job)
}

// record makes a call and adds it to the history.
func (c *calls) record(ctx context.Context, client int, q question, job string) {
	began := time.Since(c.began)
	a, err := c.do(ctx, q, job)
	ended := time.Since(c.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errLost) && q.verb == status:
		return
	case errors.Is(err, errLost):
		a, ended = answer{lost: true}, 1<<62
	case err != nil:
		c.mu.wrong = append(c.mu.wrong, fmt.Errorf("call %+v about %s: %w", q, job, err))
		return
	}
	if a.job != "" {
		c.mu.jobs[q.request] = a.job
	}
	c.mu.history = append(c.mu.history, porcupine.Operation{ClientId: client, Input: q, Call: int64(began), Output: a, Return: int64(ended)})
}

// do makes a call. The error is errLost or one that no master should give.
func (c *calls) do(ctx context.Context, q question, job string) (a answer, err error) {
	switch q.verb {
	case submits:
		err = c.at(ctx, func(ctx context.Context, m slotwisev1connect.ClientServiceClient) error {
			resp, err := m.Submit(ctx, &slotwisev1.SubmitRequest{RequestId: fmt.Sprint("request ", q.request), Spec: &slotwisev1.JobSpec{
				Name: "sleep", User: taskUser, Pool: firstPool, Program: &slotwisev1.Program{Executable: c.program, App: "sleep", Params: map[string]string{"maps": "2000x600ms"}}, Synthetic: 2000, SlowStart: proto.Float64(0.05),
			}})
			if err == nil {
				a.job = resp.Job
			}
			return err
		})
		return a, err
	case kills:
		err = c.at(ctx, func(ctx context.Context, m slotwisev1connect.ClientServiceClient) error {
			_, err := m.Kill(ctx, &slotwisev1.KillRequest{Job: job, Reason: "enough"})
			return err
		})
		// A master that was elected after the job's end knows it from the history only.
		if connect.CodeOf(err) == connect.CodeNotFound {
			return a, nil
		}
		return a, err
	case sets:
		err = c.at(ctx, func(ctx context.Context, m slotwisev1connect.ClientServiceClient) error {
			_, err := m.SetPriority(ctx, &slotwisev1.SetPriorityRequest{Job: job, Priority: q.value})
			return err
		})
	case moves:
		err = c.at(ctx, func(ctx context.Context, m slotwisev1connect.ClientServiceClient) error {
			_, err := m.Move(ctx, &slotwisev1.MoveRequest{Job: job, Pool: q.value})
			return err
		})
	case status:
		err = c.at(ctx, func(ctx context.Context, m slotwisev1connect.ClientServiceClient) error {
			resp, err := m.Job(ctx, &slotwisev1.JobRequest{Job: job})
			if err == nil {
				a.pool, a.priority, a.ended = resp.Job.Pool, resp.Job.Priority, resp.Job.EndedMs > 0 || resp.Job.State == slotwisev1.JobState_JOB_STATE_COMMITTING || resp.Job.State == slotwisev1.JobState_JOB_STATE_KILLED
			}
			return err
		})
		return a, err
	}
	if code := connect.CodeOf(err); code == connect.CodeFailedPrecondition || code == connect.CodeNotFound {
		return answer{ended: true}, nil
	}
	return a, err
}

// finish kills all jobs, so that the cluster becomes idle, and reads each once more.
func (c *calls) finish(ctx context.Context) error {
	for request := range lastRequest {
		c.mu.Lock()
		job := c.mu.jobs[request]
		c.mu.Unlock()
		if job == "" {
			continue
		}
		c.record(ctx, 9, question{verb: kills, request: request}, job)
		err := eventually(job+" has ended", func() (bool, error) {
			a, err := c.do(ctx, question{verb: status, request: request}, job)
			if errors.Is(err, errLost) {
				return false, nil
			}
			return a.ended, err
		})
		if err != nil {
			return fmt.Errorf("%s, which was accepted: %w", job, err)
		}
		c.record(ctx, 9, question{verb: status, request: request}, job)
	}
	return nil
}

func (c *calls) count() (ops, unknown int, undecided bool) {
	for _, op := range c.mu.history {
		if op.Output.(answer).lost {
			unknown++
		}
	}
	return len(c.mu.history), unknown, c.undecided
}

// problem checks the history.
func (c *calls) problem() error {
	err := errors.Join(c.mu.wrong...)
	result := porcupine.CheckOperationsTimeout(jobModel, c.mu.history, time.Minute)
	if c.undecided = result == porcupine.Unknown; result == porcupine.Illegal {
		err = errors.Join(err, fmt.Errorf("the history of %d calls is not linearizable:\n%s", len(c.mu.history), printHistory(c.mu.history)))
	}
	return err
}

func printHistory(list []porcupine.Operation) (text string) {
	for _, op := range list {
		text += fmt.Sprintf("%d %+v %d to %d: %+v\n", op.ClientId, op.Input, op.Call/1e6, op.Return/1e6, op.Output)
	}
	return text
}
