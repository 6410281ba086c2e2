package master

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// request is a Submit by its user and request_id. One that is under way makes
// others of the same name wait, so that only one of them stages output.
type request struct {
	job  job.ID        // 0 while under way
	done chan struct{} // closed when it is no longer under way
}

// Submit implements the RPC. Output is staged before the job enters the loop
// and removed again if the tracker refuses the job.
func (m *Master) submit(ctx context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	who := identity(ctx)
	if r.Spec == nil || r.RequestId == "" || len(r.RequestId) > maxName {
		return nil, fault(connect.CodeInvalidArgument, "a job needs a spec and a request_id of at most %d bytes", maxName)
	}
	spec := proto.CloneOf(r.Spec)
	if err := m.admit(who, spec); err != nil {
		return nil, err
	}
	core, err := coreSpec(spec)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	key := spec.User + "\x00" + r.RequestId
	claim, mine, err := m.claim(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case !mine:
		return &slotwisev1.SubmitResponse{Job: claim.job.String()}, nil
	}
	resp, err := m.enter(ctx, key, spec, core)
	if err != nil {
		// Not under ctx, which may have ended: the name must be free again.
		m.insist(func() {
			if claim.job == 0 {
				delete(m.requests, key)
				close(claim.done)
			}
		})
	}
	return resp, err
}

// claim looks for an earlier request of the same name, waiting for one that is
// under way. It returns that one, or with mine the caller's own claim.
func (m *Master) claim(ctx context.Context, key string) (r *request, mine bool, err error) {
	type claimed struct {
		r    *request
		mine bool
	}
	for {
		// A claim must not be lost because the one who asks has gone away.
		c, err := ask(context.WithoutCancel(ctx), m, func() (claimed, error) {
			if r := m.requests[key]; r != nil {
				return claimed{r, false}, nil
			}
			m.requests[key] = &request{done: make(chan struct{})}
			return claimed{m.requests[key], true}, nil
		})
		if err != nil || c.mine {
			return c.r, c.mine, err
		}
		select {
		case <-c.r.done:
		case <-ctx.Done():
			return nil, false, rpcError(context.Cause(ctx))
		}
		if c.r.job != 0 {
			return c.r, false, nil
		}
	}
}

// enter stages the output and has the tracker accept the job.
func (m *Master) enter(ctx context.Context, key string, spec *slotwisev1.JobSpec, core job.Spec) (*slotwisev1.SubmitResponse, error) {
	j := m.newJob(key, spec, core)
	j.secret = make([]byte, 32)
	rand.Read(j.secret)
	if spec.Output != "" {
		j.token = m.stagingToken(key)
		if err := stage(ctx, spec.Output, j.token, spec.Overwrite); err != nil {
			return nil, rpcError(err)
		}
	}
	id, err := ask(context.WithoutCancel(ctx), m, func() (job.ID, error) { return m.accept(j, core) })
	var refused *connect.Error
	if errors.Is(err, errBusy) || errors.As(err, &refused) && slices.Contains(refusals, refused.Code()) {
		err = errors.Join(err, finishOutputOnce(context.WithoutCancel(ctx), spec.Output, j.token, false))
	}
	if err != nil {
		return nil, rpcError(err)
	}
	return &slotwisev1.SubmitResponse{Job: id.String()}, nil
}

// stagingToken names what a request stages. It is the same when the request comes
// again: a master that died between staging and accepting has left what the next
// one goes on with.
func (m *Master) stagingToken(request string) string {
	sum := sha256.Sum256([]byte(m.id + "\x00" + request))
	return hex.EncodeToString(sum[:20])
}

// refusals are the codes of what accept refuses. After any other error it is not
// known whether the job was accepted.
var refusals = []connect.Code{connect.CodeInvalidArgument, connect.CodeResourceExhausted}

// newJob makes the master's side of a job.
func (m *Master) newJob(request string, spec *slotwisev1.JobSpec, core job.Spec) *jobInfo {
	j := &jobInfo{
		request: request, spec: spec, maps: len(core.Splits), nodes: map[string]bool{},
		noted: m.now(), reading: map[job.AttemptID]int64{}, revision: m.start.UnixMilli(), news: make(chan struct{}),
	}
	for _, s := range core.Splits {
		j.input += s.Bytes
	}
	return j
}

// accept hands a job to the tracker.
func (m *Master) accept(j *jobInfo, core job.Spec) (job.ID, error) {
	tasks := j.maps + core.Reduces
	switch l := m.cfg.Limits; {
	case len(m.jobs)-len(m.ended) >= l.Jobs:
		return 0, fault(connect.CodeResourceExhausted, "there are %d jobs already, which is the limit", l.Jobs)
	case m.tasks+tasks > l.Tasks:
		return 0, fault(connect.CodeResourceExhausted, "the tasks of all jobs would be more than %d, which is the limit", l.Tasks)
	}
	effects := m.tracker.Step(m.now(), &tracker.Submit{Spec: core})
	for _, e := range append([]tracker.Effect(nil), effects...) {
		switch e.Kind {
		case tracker.JobRejected:
			return 0, fault(connect.CodeInvalidArgument, "%s", e.Text)
		case tracker.JobAccepted:
			j.id = e.Job
			m.jobs[j.id] = j
			j.core = m.tracker.Jobs().Get(j.id)
			m.tasks += tasks
			m.files.hold(j.spec.Program, 1)
			j.spec.Pool = j.core.Pool()
			m.noteJob(j)
		}
		m.carryOut(e)
	}
	r := m.requests[j.request]
	r.job = j.id
	close(r.done)
	m.log.Info("job accepted", "job", j.id.String(), "name", j.spec.Name, "user", j.spec.User, "pool", j.spec.Pool,
		"maps", j.maps, "reduces", core.Reduces, "output", j.spec.Output)
	return j.id, nil
}

// admit checks what of a spec can be checked before it is planned for: who
// submits it, names, sizes and the files that it needs.
func (m *Master) admit(who secure.Identity, spec *slotwisev1.JobSpec) error {
	if err := m.admitUser(who, spec); err != nil {
		return err
	}
	tasks := max(len(spec.Splits), int(spec.Synthetic)) + int(spec.Reduces)
	switch {
	case len(spec.Splits) > 0 && spec.Synthetic > 0:
		return fault(connect.CodeInvalidArgument, "a job has splits or synthetic maps, not both")
	case tasks > m.cfg.Limits.JobTasks || spec.Synthetic > int32(m.cfg.Limits.JobTasks) || spec.Reduces > int32(m.cfg.Limits.JobTasks):
		return fault(connect.CodeResourceExhausted, "the job has more than %d tasks, which is the limit; larger splits make fewer", m.cfg.Limits.JobTasks)
	case spec.Program == nil:
		return fault(connect.CodeInvalidArgument, "the job has no program")
	case len(spec.Name) > maxName || strings.ContainsAny(spec.Name, "\n\r\x00"):
		return fault(connect.CodeInvalidArgument, "the job's name must be a line of at most %d bytes", maxName)
	}
	for what, name := range map[string]string{"user": spec.User, "pool": spec.Pool} {
		if name != "" || what == "user" {
			if err := checkName(what, name); err != nil {
				return err
			}
		}
	}
	return m.files.require(spec.Program)
}
