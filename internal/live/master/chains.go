package master

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
	"github.com/slotwise/slotwise/sched/job"
)

// maxChainInputs bounds the inputs, and the globs of either kind, of a chain.
const maxChainInputs = bounds.ChainInputs

// SubmitChain accepts a chain, once for each request_id of a user.
func (c clientService) SubmitChain(ctx context.Context, r *slotwisev1.SubmitChainRequest) (*slotwisev1.SubmitChainResponse, error) {
	who := identity(ctx)
	if r.Spec.GetJob() == nil || r.RequestId == "" || len(r.RequestId) > bounds.Name {
		return nil, fault(connect.CodeInvalidArgument, "a chain needs a spec and a request_id of 1 to %d bytes", bounds.Name)
	}
	// A copy, because admit fills in the user and the core keeps the spec.
	spec := proto.CloneOf(r.Spec)
	if err := c.m.admitChain(ctx, who, spec); err != nil {
		return nil, rpcError(err)
	}
	request := requestName(spec.Job.User, r.RequestId)
	// A request that was repeated after a lost answer must get the answer of the first one, not a complaint
	// about the output that its own chain has written.
	known, err := query(ctx, c.m, func() (bool, error) { return c.m.core.KnowsChain(request), nil })
	if err != nil {
		return nil, err
	}
	if !known { // else the chain itself may have written the output meanwhile
		if err := outputFree(ctx, c.m.resolveOutput, spec.Job.Output, storage.ReplaceOf(spec.Job.Overwrite, spec.Job.Force)); err != nil {
			return nil, rpcError(err)
		}
	}
	return call[*slotwisev1.SubmitChainResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.SubmitChain{Call: id, Request: request, Spec: spec, AnyFile: !c.m.confined(who), Authenticated: !who.Open}, nil
	})
}

// admitChain checks everything about a chain that can be checked outside the loop.
func (m *Master) admitChain(ctx context.Context, who secure.Identity, spec *slotwisev1.ChainSpec) error {
	j := spec.Job
	if err := m.admit(ctx, who, j); err != nil {
		return err
	}
	// The description stays in memory and in the journal until the chain ends, and goes to each driver.
	if n := proto.Size(spec); n > protocol.MaxChainSpec {
		return fault(connect.CodeInvalidArgument, "the chain's description has %d bytes; the most are %d: name directories or globs instead of files", n, protocol.MaxChainSpec)
	}
	if max(len(spec.Inputs)+len(spec.NamedInputs), len(spec.Include), len(spec.Exclude)) > maxChainInputs {
		return fault(connect.CodeInvalidArgument, "the chain has more than %d inputs: name directories or globs instead of files", maxChainInputs)
	}
	// The bucket or the root of a file system has no directory beside it.
	if _, name := storage.SplitURI(strings.TrimRight(j.Output, "/")); strings.LastIndexByte(name, '/') < 0 || path.Base(name) == "/" {
		return fault(connect.CodeInvalidArgument, "output %q: a chain needs an output below another directory, beside which its intermediate files are kept", j.Output)
	}
	if j.Program.GetApp() == "" || len(j.Splits) > 0 || j.Synthetic > 0 || j.Chain != "" {
		return fault(connect.CodeInvalidArgument, "a chain names an app, and its driver plans the steps: it has no splits, no synthetic maps and no chain")
	}
	// A step that no core accepts would fail the chain on some worker, long after its user has gone.
	like := proto.CloneOf(j) // any step
	like.Synthetic = 1
	if _, err := protocol.CoreSpec(like); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}

// outputFree returns an error unless a job may write to a directory. A chain would else
// learn that only from its last step.
func outputFree(ctx context.Context, resolve resolver, uri string, replace storage.Replace) error {
	files, dir, err := resolve(uri)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	info, err := files.Stat(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("output %s: %w", uri, err)
	case !info.Dir:
		return fault(connect.CodeAlreadyExists, "output %s is a file, not a directory", uri)
	}
	err = storage.CheckOutput(ctx, files, dir, replace)
	switch {
	case errors.As(err, new(*storage.NotOutputError)):
		return fault(connect.CodeAlreadyExists, "output %s: %v", uri, err)
	case errors.Is(err, fs.ErrExist):
		return fault(connect.CodeAlreadyExists, "output %s exists and is not empty: name another, or replace an earlier one by --overwrite", uri)
	case err != nil:
		return fmt.Errorf("output %s: %w", uri, err)
	}
	return nil
}

// admitStep checks that only the driver of a chain submits steps, and only of that chain.
func (m *Master) admitStep(who secure.Identity, spec *slotwisev1.JobSpec) error {
	switch {
	// The driver runs its user's program on a worker, whose token must be worth no more than its chain.
	case who.Chain != "" && spec.Chain != who.Chain:
		return fault(connect.CodePermissionDenied, "the driver of %s may only submit steps of that chain", who.Chain)
	case who.Chain == "" && spec.Chain != "":
		return fault(connect.CodePermissionDenied, "only the driver of %s may submit its steps", spec.Chain)
	}
	return nil
}

// driverTokens holds the SHA-256 of each valid token of a driver. The loop changes it, and
// every request with such a token reads it. Requests without authentication can send any
// token, so an unknown one must not reach the loop, which serves all clients.
type driverTokens struct {
	mu struct {
		sync.RWMutex
		valid map[[sha256.Size]byte]bool
	}
}

// apply carries out the changes of one output.
func (d *driverTokens) apply(changes []protocol.TokenChange) {
	if len(changes) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.valid == nil {
		d.mu.valid = map[[sha256.Size]byte]bool{}
	}
	for _, c := range changes {
		if c.Valid {
			d.mu.valid[c.Sum] = true
		} else {
			delete(d.mu.valid, c.Sum)
		}
	}
}

// clear makes all tokens invalid.
func (d *driverTokens) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.mu.valid)
}

// isValid reports whether a token belongs to a current driver. A map is safe here: it is
// keyed by a hash, so its timing says nothing of the tokens.
func (d *driverTokens) isValid(token string) bool {
	// Hashed before the lock, because the token's length is the sender's choice.
	sum := sha256.Sum256([]byte(token))
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.mu.valid[sum]
}

// errDriverOver answers a driver whose token is not valid, or is not any more.
var errDriverOver = fault(connect.CodeUnauthenticated, "the chain has ended, or another driver has taken over")

// IdentifyDriver returns the identity of the driver that has a token, for a
// secure.Guard. It returns false for a token of another kind. The token is valid as long
// as its driver is the chain's current one. Only a valid token makes it ask the loop.
func (m *Master) IdentifyDriver(ctx context.Context, token string) (secure.Identity, bool, error) {
	if !strings.HasPrefix(token, protocol.TokenPrefix) {
		return secure.Identity{}, false, nil
	}
	// Not errDriverOver: a driver that hears that it is over ends, and its chain would begin another one.
	if err := m.notLeader(); err != nil { // only the leader knows tokens
		return secure.Identity{}, false, err
	}
	if !m.drivers.isValid(token) {
		return secure.Identity{}, false, errDriverOver
	}
	// Another driver may have taken over between the look at the table and this turn of the loop.
	id, err := query(ctx, m, func() (secure.Identity, error) {
		r, ok := m.core.Driver(token)
		if !ok {
			return secure.Identity{}, errDriverOver
		}
		return secure.Identity{User: r.Owner, Role: secure.Driver, Chain: r.Chain.String(), AnyFile: r.AnyFile}, nil
	})
	return id, err == nil, err
}

// driverCalls are the calls that drivers may make.
var driverCalls = map[string]bool{
	slotwisev1connect.ClientServiceClusterProcedure: true, slotwisev1connect.ClientServiceSubmitProcedure: true,
	slotwisev1connect.ClientServiceJobProcedure: true, slotwisev1connect.ClientServiceKillProcedure: true,
}

// clients passes on users' requests, and drivers' requests if driverCalls has their path.
func (m *Master) clients(next http.Handler) http.Handler {
	users, drivers := m.only(secure.View, next), m.only(secure.Drive, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Every other path goes the way of users, whose rights a driver does not have.
		if identity(r.Context()).Chain != "" && driverCalls[r.URL.Path] {
			drivers.ServeHTTP(w, r)
			return
		}
		users.ServeHTTP(w, r)
	})
}

// subject is a job or a chain that a user's request names: the chain if it is not 0.
type subject struct {
	job   job.ID
	chain protocol.ChainID
}

// parseSubject reads the name of a job or a chain.
func parseSubject(name string) (x subject, err error) {
	if protocol.IsChain(name) {
		x.chain, err = protocol.ParseChain(name)
		return x, rpcError(err)
	}
	if x.job, err = job.ParseID(name); err != nil {
		return x, badName(err)
	}
	return x, nil
}

// owner returns what the rules of access must know of the job or chain, or an error if there is none. It is
// called in the loop.
func (x subject) owner(core *protocol.Core) (s secure.Subject, err error) {
	if x.chain != 0 {
		s.Job = x.chain.String()
		s.Owner, s.Pool, err = core.ChainOwner(x.chain)
		return s, err
	}
	s.Job, s.Chain = x.job.String(), core.StepOf(x.job)
	s.Owner, s.Pool, err = core.Owner(x.job)
	return s, err
}

// chain is Job for a chain.
func (c clientService) chain(ctx context.Context, r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
	who := identity(ctx)
	id, err := protocol.ParseChain(r.Job)
	if err != nil {
		return nil, rpcError(err)
	}
	wait := waitFor(r.WaitMs)
	resp, err := call[*slotwisev1.JobResponse](ctx, c.m, wait, func(call protocol.Call) (protocol.Message, error) {
		return &protocol.WatchChain{Call: call, User: identity(ctx).Account(), Chain: id, After: r.After, Wait: wait > 0, Steps: r.Steps}, nil
	})
	switch {
	// The chain has left memory.
	case connect.CodeOf(err) == connect.CodeNotFound:
		past, err := c.m.past(id.String())
		if err != nil {
			return nil, err
		}
		resp = &slotwisev1.JobResponse{Job: past.Job}
		if r.Steps {
			resp.Steps = past.Steps
		}
	case err != nil:
		return nil, err
	}
	if resp.Job.GetEndedMs() == 0 {
		resp.Job = c.m.chainForecast(ctx, resp.Job)
	}
	resp.Job = c.m.shownJob(who, resp.Job)
	c.m.shownJobs(who, resp.Steps)
	return resp, nil
}

// explainChain is Explain for a chain. For a chain that has ended it returns the reasons of
// the steps, from the history.
func (c clientService) explainChain(ctx context.Context, r *slotwisev1.ExplainRequest) (*slotwisev1.ExplainResponse, error) {
	id, err := protocol.ParseChain(r.Job)
	if err != nil {
		return nil, rpcError(err)
	}
	resp, err := query(ctx, c.m, func() (*slotwisev1.ExplainResponse, error) { return c.m.core.ExplainChain(id) })
	if err == nil {
		resp.Forecast = c.m.chainForecast(ctx, &slotwisev1.JobStatus{Id: id.String()}).GetForecast()
	}
	unknown := connect.CodeOf(err) == connect.CodeNotFound
	// A chain in memory without a reason may have ended. The history then has the reasons of its
	// steps.
	if !unknown && (err != nil || len(resp.Why) > 0) {
		return resp, err
	}
	past, err := c.m.past(id.String())
	switch {
	case err == nil:
		return &slotwisev1.ExplainResponse{Job: r.Job, Why: c.m.heldSteps(past.Steps)}, nil
	case unknown || connect.CodeOf(err) != connect.CodeNotFound:
		return nil, err
	}
	return resp, nil // the chain runs, and nothing holds it back
}

// heldSteps returns the reasons for which steps of an ended chain waited, the longest first.
// Equal reasons are added up. Steps that the history has forgotten are left out.
func (m *Master) heldSteps(steps []*slotwisev1.JobStatus) []*slotwisev1.Explanation {
	type reason struct {
		kind slotwisev1.Kind
		name string
	}
	sum := map[reason]*slotwisev1.Explanation{}
	var why []*slotwisev1.Explanation
	for _, s := range steps {
		past, err := m.past(s.GetId())
		if err != nil {
			continue
		}
		for _, e := range past.Held {
			known := sum[reason{e.Kind, e.Reason}]
			if known == nil {
				sum[reason{e.Kind, e.Reason}] = e
				why = append(why, e)
				continue
			}
			known.HeldMs += e.HeldMs
		}
	}
	slices.SortStableFunc(why, func(a, b *slotwisev1.Explanation) int { return cmp.Compare(b.HeldMs, a.HeldMs) })
	return why
}

// cleanChain removes the directory of an ended chain's intermediate outputs. It retries while
// the storage is out of order.
func (m *Master) cleanChain(o *protocol.RemoveChainDir) {
	l := m.lead
	m.background.Go(func() {
		patience := func(error) time.Duration { return m.cfg.RemovePatience }
		err := retry.Run(l.ctx, retry.Options{Patience: patience, FirstPause: firstPause, LastPause: longestPause}, func(context.Context) error {
			// Asked before each try: after a pause another master may lead, and it gives the order
			// again.
			if err := l.mayAct(); err != nil {
				return err
			}
			files, dir, err := m.resolveOutput(o.URI)
			if err != nil {
				return err
			}
			return files.Remove(l.ctx, dir)
		})
		if l.ctx.Err() == nil {
			m.report(l, &protocol.ChainCleaned{Chain: o.Chain, Err: err})
		}
	})
}
