package master

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// logChunk is how many bytes of a log go into one message.
const logChunk = 32 << 10

// Log passes on what an attempt printed. It asks the worker where it ran.
func (c clientService) Log(ctx context.Context, r *slotwisev1.LogRequest, out *connect.ServerStream[slotwisev1.LogChunk]) error {
	id, err := job.ParseAttempt(r.Attempt)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	at, err := c.m.ranAt(ctx, id)
	if err != nil {
		return err
	}
	resp, err := c.m.askWorker(ctx, at, id, r.Follow)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b := make([]byte, logChunk)
	for {
		n, err := resp.Body.Read(b)
		if n > 0 {
			if err := out.Send(&slotwisev1.LogChunk{Data: b[:n]}); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fault(connect.CodeUnavailable, "the log of %s breaks off: %w", r.Attempt, err)
		}
	}
}

// askWorker begins to read an attempt's log.
func (m *Master) askWorker(ctx context.Context, address string, id job.AttemptID, follow bool) (*http.Response, error) {
	u := url.URL{Scheme: m.cfg.WorkerScheme, Host: address, Path: "/v1/logs/" + id.String()}
	if follow {
		u.RawQuery = "follow"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.cfg.WorkerHTTP.Do(req)
	if err != nil {
		return nil, fault(connect.CodeUnavailable, "the worker that ran %s cannot be reached: %w", id, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxText)) // the status says it all if there is no text
	return nil, fault(connect.CodeNotFound, "the worker that ran %s says: %s (%s)", id, strings.TrimSpace(string(text)), resp.Status)
}

// ranAt finds the address of the worker where an attempt ran, for somebody who
// may read its log.
func (m *Master) ranAt(ctx context.Context, id job.AttemptID) (string, error) {
	who := identity(ctx)
	node, err := ask(ctx, m, func() (string, error) {
		if _, err := m.owned(who, id.Job.String()); err != nil {
			return "", err
		}
		a := m.tracker.Jobs().Attempt(id)
		if a == nil {
			return "", noJob(id.Job)
		}
		return m.nodeOf(a), nil
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		node, err = m.ranOnce(who, id)
	}
	if err != nil {
		return "", err
	}
	return ask(ctx, m, func() (string, error) {
		if s := m.nodes[node]; s != nil {
			return s.address, nil
		}
		return "", fault(connect.CodeFailedPrecondition, "attempt %s ran on %s, which is not there now", id, node)
	})
}

// ranOnce looks an attempt up in the history.
func (m *Master) ranOnce(who secure.Identity, id job.AttemptID) (string, error) {
	j, err := m.pastJob(id.Job)
	if err != nil {
		return "", fault(connect.CodeNotFound, "no attempt %s", id)
	}
	if err := m.may(who, secure.Change, secure.Subject{Job: id.Job.String(), Owner: j.Job.User, Pool: j.Job.Pool}); err != nil {
		return "", err
	}
	for _, t := range j.Tasks {
		for _, a := range t.Attempts {
			if a.Id == id.String() {
				return a.Node, nil
			}
		}
	}
	return "", fault(connect.CodeNotFound, "no attempt %s", id)
}
