package master

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// logChunk is the number of bytes of a log in one message.
const logChunk = 32 << 10

// Limits on the streaming of logs, whose content and pace come from a worker.
const (
	// logAnswerTime covers the time in which a worker under load opens a file. The connection of a follower
	// stays for a day at most, because a forgotten terminal holds one of its user's
	// places.
	maxLogBytes   = 1 << 30          // of one log
	logAnswerTime = 15 * time.Second // until the worker begins to answer
	logTime       = 10 * time.Minute // of a log that is not followed
	followTime    = 24 * time.Hour   // of a log that is followed
)

// errSlowWorker ends a request for a log that takes too long.
var errSlowWorker = errors.New("the worker took too long")

// Log streams what an attempt has printed, which it reads from the worker where the
// attempt ran, or else from the history.
func (c clientService) Log(ctx context.Context, r *slotwisev1.LogRequest, out *connect.ServerStream[slotwisev1.LogChunk]) error {
	return c.m.streamLog(ctx, r, out.Send)
}

// streamLog passes the log of an attempt, or what the attempt does, to send in parts, if the caller may
// read the log. send must not keep a part.
func (m *Master) streamLog(ctx context.Context, r *slotwisev1.LogRequest, send func(*slotwisev1.LogChunk) error) error {
	// A driver plans and waits; its log shows the steps.
	if r.Stack && protocol.IsChain(r.Attempt) {
		return fault(connect.CodeInvalidArgument, "%s is a chain: name an attempt of one of its jobs", r.Attempt)
	}
	// The right is checked before a place is taken.
	at, err := m.logOf(ctx, r.Attempt)
	if err != nil {
		return err
	}
	user := identity(ctx).Account()
	if !m.followers.Try(user, 1) {
		return fault(connect.CodeResourceExhausted, "%d logs are being sent to you, and no more may be now, or %d to all users: try again later", m.followers.Held(user), bounds.Followers)
	}
	defer m.followers.Give(user, 1)
	placeOf(ctx).leave() // followers have places of their own
	// Kept to distinguish a caller that has gone from a worker that is too slow: only the
	// latter has a kept log as its answer.
	caller := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// A worker that accepts the connection and says nothing must not hold the caller, and one
	// of the user's places, for ever.
	limit := time.AfterFunc(logAnswerTime, func() { stop(errSlowWorker) })
	defer limit.Stop()
	// A log may be followed for a day. Its reader continues at the master that leads next.
	defer context.AfterFunc(at.lead, func() { stop(nil) })()
	resp, err := m.openLog(ctx, at, r)
	if err != nil && at.lead.Err() != nil {
		return notLeaderError(m.role.Load())
	}
	// What an attempt does is known to its worker only, and only now.
	if err != nil && r.Stack {
		return err
	}
	if err != nil && caller.Err() == nil {
		return m.sendKept(at.name, at.owner, err, send)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if r.Follow {
		limit.Reset(followTime)
	} else {
		limit.Reset(logTime)
	}
	err = copyLog(func(b []byte) error { return send(&slotwisev1.LogChunk{Data: b}) }, resp.Body, r.Attempt)
	if err != nil && at.lead.Err() != nil {
		return notLeaderError(m.role.Load())
	}
	return err
}

// copyLog sends a log in chunks, up to maxLogBytes.
func copyLog(send func([]byte) error, log io.Reader, attempt string) error {
	b := make([]byte, logChunk)
	for total := 0; total < maxLogBytes; {
		// A read may return bytes together with an error: they are a part of the log.
		n, err := log.Read(b)
		if n > 0 {
			total += n
			if err := send(b[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fault(connect.CodeUnavailable, "the connection to the worker broke while it sent the log of %s: %w", attempt, err)
		}
	}
	return fault(connect.CodeResourceExhausted, "the log of %s has more than %d bytes, which is the limit; the rest is not sent", attempt, maxLogBytes)
}

// refuseRedirect makes the client of workers return a redirect instead of following it:
// a worker must not choose which servers the master contacts.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// logPlace is where the log of an attempt or driver is.
type logPlace struct {
	name     string          // of the attempt or driver, or of the chain if its drivers are unknown
	owner    string          // the user of the job or chain
	worker   string          // where it ran; "" if that is unknown
	hostPort string          // at which the worker serves the log; "" if the worker is not connected
	key      []byte          // of the worker's session; nil if the master has no authentication
	lead     context.Context // ends with the leadership of this master
}

// openLog requests an attempt's log, or what the attempt does, from a worker. The caller closes the body. An answer
// without the signature of the worker's session comes from another server; openLog then
// returns an error and no part of that answer.
func (m *Master) openLog(ctx context.Context, at logPlace, r *slotwisev1.LogRequest) (*http.Response, error) {
	switch {
	case at.worker == "":
		return nil, fault(connect.CodeNotFound, "%s ended long ago or before the master was restarted: the history does not say which worker has the log of its driver", at.name)
	case at.hostPort == "":
		return nil, fault(connect.CodeFailedPrecondition, "%s ran on worker %s, which is not connected now", at.name, at.worker)
	}
	// The host comes from the worker's registration. The redirect policy and the signature keep a worker from
	// pointing the master at another server; a right of the user is never sent along.
	u := url.URL{Scheme: m.cfg.WorkerScheme, Host: at.hostPort, Path: "/v1/logs/" + at.name}
	switch {
	case r.Stack:
		u.RawQuery = "stack"
	case r.Follow:
		u.RawQuery = "follow"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	// Workers without authentication have no key. The signature also proves to the worker that
	// the request comes from its master.
	if at.key != nil {
		secure.SignRequest(req, at.key)
	}
	resp, err := m.cfg.WorkerHTTP.Do(req)
	if err != nil {
		return nil, fault(connect.CodeUnavailable, "the worker that ran %s cannot be reached: %w", at.name, err)
	}
	// Another process may listen at the address of a worker that has ended. Its answer must
	// not be shown as an attempt's log.
	// Before the status is looked at: also a refusal of a stranger would reach the user as the worker's word.
	proven := at.key == nil || secure.VerifyResponse(resp, at.key)
	if proven && resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	if !proven {
		return nil, fault(connect.CodeUnavailable, "the server at %s did not prove that it is the worker that ran %s (%s)", at.hostPort, at.name, resp.Status)
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, bounds.Text)) // without a text the status is enough
	return nil, fault(connect.CodeNotFound, "the worker that ran %s cannot send what is asked: %s (%s)", at.name, strings.TrimSpace(string(text)), resp.Status)
}

// logOf returns where the log of an attempt, or of a chain's current or last driver, is, if
// the caller may read it.
func (m *Master) logOf(ctx context.Context, name string) (at logPlace, err error) {
	if protocol.IsChain(name) {
		at, err = m.driverRanAt(ctx, name)
	} else {
		at, err = m.ranAt(ctx, name)
	}
	if err != nil {
		return at, err
	}
	// The loop may call the function after this one has returned, because ctx has ended. Then the
	// result at has been written, so the function must not use that variable.
	found := at
	return query(ctx, m, func() (logPlace, error) {
		at := found
		at.lead = m.lead.ctx
		var session string
		if at.hostPort, session = m.core.Address(at.worker); at.hostPort != "" {
			at.key = m.sessionKey(session)
		}
		return at, nil
	})
}

// ranAt returns the worker where an attempt ran, if the caller may read its log.
func (m *Master) ranAt(ctx context.Context, name string) (logPlace, error) {
	id, err := job.ParseAttempt(name)
	if err != nil {
		return logPlace{}, connect.NewError(connect.CodeInvalidArgument, err)
	}
	who := identity(ctx)
	at, err := query(ctx, m, func() (at logPlace, err error) {
		if err = m.mayChange(who, subject{job: id.Job}); err != nil {
			return at, err
		}
		at.name = name
		if at.owner, _, err = m.core.Owner(id.Job); err == nil {
			at.worker, err = m.core.NodeOf(id)
		}
		return at, err
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return m.ranOnce(who, id)
	}
	return at, err
}

// driverRanAt returns a chain's current or last driver and its worker, if the caller may
// read its log. The history does not know them, but it has the log of the last driver.
func (m *Master) driverRanAt(ctx context.Context, chain string) (logPlace, error) {
	id, err := protocol.ParseChain(chain)
	if err != nil {
		return logPlace{}, rpcError(err)
	}
	who := identity(ctx)
	at, err := query(ctx, m, func() (at logPlace, err error) {
		if err = m.mayChange(who, subject{chain: id}); err != nil {
			return at, err
		}
		if at.owner, _, err = m.core.ChainOwner(id); err == nil {
			at.name, at.worker, err = m.core.LastDriver(id)
		}
		return at, err
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		if c, past := m.past(chain); past == nil {
			at = logPlace{name: chain, owner: c.Job.User}
			err = m.may(who, secure.Change, secure.Subject{Job: chain, Owner: c.Job.User, Pool: c.Job.Pool})
		}
	}
	return at, err
}

// sessionKey returns the key of a worker's session, nil if the master has no
// authentication.
func (m *Master) sessionKey(session string) []byte {
	if m.workerKey == nil {
		return nil
	}
	return secure.DeriveSessionKey(m.workerKey, session)
}

// ranOnce returns the worker where an attempt ran according to the history.
func (m *Master) ranOnce(who secure.Identity, id job.AttemptID) (at logPlace, err error) {
	j, err := m.past(id.Job.String())
	switch {
	// The history cannot be read now, which does not mean that there was no such attempt.
	case connect.CodeOf(err) == connect.CodeUnavailable:
		return at, err
	case err != nil:
		return at, fault(connect.CodeNotFound, "no attempt %s", id)
	}
	if err := m.may(who, secure.Change, secure.Subject{Job: id.Job.String(), Owner: j.Job.User, Pool: j.Job.Pool}); err != nil {
		return at, err
	}
	// Stops at the attempt, so the parts of a large job behind it are not decoded.
	for piece, err := range m.history.Pieces(id.Job.String()) {
		if err != nil {
			return at, m.pastError(id.Job.String(), err)
		}
		for _, t := range piece.Tasks {
			for _, a := range t.Attempts {
				if a.Id == id.String() {
					return logPlace{name: a.Id, owner: j.Job.User, worker: a.Node}, nil
				}
			}
		}
	}
	return at, fault(connect.CodeNotFound, "no attempt %s", id)
}
