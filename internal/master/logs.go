package master

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/master/protocol"
	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// logChunk is the number of bytes of a log in one message.
const logChunk = 32 << 10

// Log streams what an attempt has printed, which it reads from the worker where the
// attempt ran.
func (c clientService) Log(ctx context.Context, r *slotwisev1.LogRequest, out *connect.ServerStream[slotwisev1.LogChunk]) error {
	id, err := job.ParseAttempt(r.Attempt)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	at, err := c.m.ranAt(ctx, id)
	if err != nil {
		return err
	}
	resp, err := c.m.openLog(ctx, at, id, r.Follow)
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
			return fault(connect.CodeUnavailable, "the connection to the worker broke while it sent the log of %s: %w", r.Attempt, err)
		}
	}
}

// openLog requests an attempt's log from the worker at address. The caller closes the
// body.
func (m *Master) openLog(ctx context.Context, address string, id job.AttemptID, follow bool) (*http.Response, error) {
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
	text, _ := io.ReadAll(io.LimitReader(resp.Body, protocol.MaxText)) // without a text the status is enough
	return nil, fault(connect.CodeNotFound, "the worker that ran %s cannot send its log: %s (%s)", id, strings.TrimSpace(string(text)), resp.Status)
}

// ranAt returns the address of the worker where an attempt ran, if the caller may read
// the attempt's log.
func (m *Master) ranAt(ctx context.Context, id job.AttemptID) (string, error) {
	who := identity(ctx)
	node, err := query(ctx, m, func() (string, error) {
		if err := m.mayChange(who, id.Job); err != nil {
			return "", err
		}
		return m.core.NodeOf(id)
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		node, err = m.ranOnce(who, id)
	}
	if err != nil {
		return "", err
	}
	address, err := query(ctx, m, func() (string, error) { return m.core.Address(node), nil })
	if err == nil && address == "" {
		err = fault(connect.CodeFailedPrecondition, "attempt %s ran on worker %s, which is not connected now", id, node)
	}
	return address, err
}

// ranOnce returns the worker where an attempt ran according to the history.
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
