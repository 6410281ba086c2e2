package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// driverPatience is the time for which a driver retries calls while the master is away.
// A driver has nothing else to do, and its worker ends it when it is not wanted any more.
const driverPatience = 24 * time.Hour

// runDriver runs the function of the chain that a worker has started this process for.
func runDriver(schemes *storage.Schemes, drive feature.Drive) int {
	return attempt.DriverMain(func(ctx context.Context, o *slotwisev1.DriverOrder) (bool, error) {
		t, err := connectDriver(ctx, schemes, o)
		if err != nil {
			return false, err
		}
		err = drive(ctx, t.chain(), t)
		// true ends the chain with the error. After any other error the master starts another driver.
		return errors.As(err, new(*feature.FinalError)) || errors.Is(err, retry.ErrPermanent), err
	})
}

// driverTarget is the connection of a chain's driver to the master. It may only submit
// steps of its chain.
type driverTarget struct {
	*target
	order *slotwisev1.Drive
}

// connectDriver makes a client of the master that has the driver's token.
func connectDriver(ctx context.Context, schemes *storage.Schemes, o *slotwisev1.DriverOrder) (*driverTarget, error) {
	tls, err := secure.MasterTLS(o.GetMaster(), o.GetCaPem())
	if err != nil {
		return nil, err
	}
	token := o.GetDrive().GetToken()
	cl, err := client.New(o.GetMaster(), client.Options{HTTP: secure.Client(tls, token), Patience: driverPatience, StorageRetry: feature.DefaultStorageWait, Notify: feature.NotifyLog})
	if err != nil {
		return nil, err
	}
	// The driver plans the steps, and so needs the slots of the cluster to choose their splits and reduces.
	size, err := client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{})
	if err != nil {
		return nil, err
	}
	return &driverTarget{&target{&Cluster{}, schemes, cl, size}, o.GetDrive()}, nil
}

// chain returns the description of the chain, as the submitter gave it.
func (t *driverTarget) chain() *feature.Chain {
	s := t.order.GetSpec()
	j := s.GetJob()
	c := &feature.Chain{
		Name: j.GetName(), App: j.GetProgram().GetApp(), Params: j.GetProgram().GetParams(), Inputs: s.GetInputs(), Include: s.GetInclude(), Exclude: s.GetExclude(),
		Output: j.GetOutput(), Replace: storage.ReplaceOf(j.GetOverwrite(), j.GetForce()), Reduces: int(j.GetReduces()), SplitSize: s.GetSplitSize(),
		Compress: j.GetShuffleCodec(), OutputCompress: j.GetOutputCodec(), Rows: s.GetRows(), OutputRows: j.GetOutputRows(),
	}
	for _, in := range s.GetNamedInputs() {
		if c.NamedInputs == nil {
			c.NamedInputs = map[string][]string{}
		}
		c.NamedInputs[in.GetName()] = append(c.NamedInputs[in.GetName()], in.GetUri())
	}
	c.Request, _ = wire.DecodeRequest(j) // the master has checked it
	return c
}

// RunChain runs the function here. The master has named the directory of intermediate
// outputs, and removes it.
func (t *driverTarget) RunChain(ctx context.Context, _ *feature.Chain, drive func(ctx context.Context, dir string) error) ([]*feature.Outcome, error) {
	return nil, drive(ctx, t.order.GetDir())
}

// Run submits a step of the chain and waits for its end. A step that an earlier driver
// has submitted is joined; one that has ended is not run again. If ctx is cancelled first,
// Run kills the job.
func (t *driverTarget) Run(ctx context.Context, j *feature.PlannedJob) (*feature.Outcome, error) {
	spec := t.step(j)
	resp, err := t.submitStep(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", spec.Program.Step, err)
	}
	last, err := t.master.Wait(ctx, resp.Job, nil)
	// Only the chain's function cancels a step, for example when another one that runs beside
	// it has failed. A driver that must stop ends without this, and the next one joins
	// the step.
	if last == nil && ctx.Err() != nil {
		last, err = t.kill(ctx, resp.Job, err)
	}
	// The state is unknown. The error is not final, so that another driver joins the step and
	// waits again.
	if last == nil {
		return nil, fmt.Errorf("step %s, job %s: %w", spec.Program.Step, resp.Job, err)
	}
	// Final: another driver would meet the same failed step, since the master does not run it
	// again.
	if err := failure(last); err != nil {
		return outcome(last), &feature.FinalError{Err: err}
	}
	return outcome(last), nil
}

// step returns the message that submits a planned step: what all steps share, and what
// the plan says.
func (t *driverTarget) step(j *feature.PlannedJob) *slotwisev1.JobSpec {
	// A clone, because steps may be submitted at a time.
	s := proto.CloneOf(t.order.GetSpec().GetJob())
	s.Name, s.Chain, s.Output = j.Name, t.order.GetDriver().GetChain(), j.Output
	s.Overwrite, s.Force = j.Replace != storage.ReplaceNothing, j.Replace == storage.ReplaceAll
	s.Program.Step, s.Program.Params, s.Program.Cuts = j.Recipe.Step, j.Recipe.Params, j.Recipe.Cuts
	s.Splits, s.Layouts = attempt.EncodeSplits(j.Splits)
	s.Synthetic, s.Reduces = int32(j.Synthetic), int32(j.Reduces)
	s.OutputCodec, s.OutputRows = j.OutCode.String(), j.OutputRows
	wire.EncodeRequest(s, &j.Request)
	// The master compares it with the digest of the step that an earlier driver submitted: a function
	// that is not deterministic fails here and does not mix results.
	s.Digest = digest(j)
	return s
}

// digest identifies the parameters and inputs of a step. It leaves out the splits and the
// number of reduces, because they depend on the size of the cluster.
func digest(j *feature.PlannedJob) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(j.Recipe.Params)) {
		fmt.Fprintf(h, "param %q %q\n", k, j.Recipe.Params[k])
	}
	for _, in := range j.Inputs {
		fmt.Fprintf(h, "input %q\n", in)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fullPatience is the time for which a driver waits for room in a master that has
// reached a limit.
const fullPatience = 10 * time.Minute

// submitStep submits a step, and waits while the master has no room for another job.
func (t *driverTarget) submitStep(ctx context.Context, spec *slotwisev1.JobSpec) (*slotwisev1.SubmitResponse, error) {
	// The master knows a step by its chain and output, not by the request.
	r := &slotwisev1.SubmitRequest{RequestId: spec.Digest, Spec: spec}
	full := func(err error) bool { return connect.CodeOf(err) == connect.CodeResourceExhausted }
	// The pauses are long: room comes when a job of somebody ends, and each request counts
	// against the master's limits.
	o := retry.Options{FirstPause: time.Second, LastPause: 30 * time.Second, Patience: func(err error) time.Duration {
		if full(err) {
			return fullPatience
		}
		return -1
	}}
	resp, err := retry.Do(ctx, o, func(ctx context.Context) (*slotwisev1.SubmitResponse, error) { return t.master.SubmitStep(ctx, r) })
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	// Final: another driver would get the same answer. Other errors pass, as when a master
	// restarts, and another driver tries again.
	case full(err) || isRefusal(err):
		return nil, &feature.FinalError{Err: errors.New(client.Message(err))}
	}
	return nil, errors.New(client.Message(err))
}

// isRefusal reports whether the master has refused a step for a reason that does not
// pass.
func isRefusal(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeAlreadyExists, connect.CodePermissionDenied, connect.CodeFailedPrecondition, connect.CodeNotFound:
		return true
	}
	return false
}

// RunChain submits a chain and waits for its end, unless the cluster's Detach is set.
// The chain's function runs in a driver on the cluster. If ctx is cancelled first,
// RunChain kills the chain.
func (t *target) RunChain(ctx context.Context, c *feature.Chain, _ func(ctx context.Context, dir string) error) ([]*feature.Outcome, error) {
	spec, err := t.chainSpec(ctx, c)
	if err != nil {
		return nil, err
	}
	id, err := patiently(ctx, func(ctx context.Context) (string, error) { return t.master.SubmitChain(ctx, spec) })
	if err != nil {
		return nil, submitError(err)
	}
	if t.Accepted != nil {
		t.Accepted(id)
	}
	if t.Detach {
		return []*feature.Outcome{{Name: c.Name, ID: id, State: "waiting"}}, nil
	}
	began := time.Now()
	last, err := t.master.Wait(ctx, id, func(s *slotwisev1.JobStatus) {
		if c.Progress != nil {
			p := progressOf(s, time.Since(began))
			p.Job = strings.TrimSpace(fmt.Sprintf("%s step %d %s", s.GetName(), len(s.GetSteps()), s.GetStep()))
			c.Progress(p)
		}
	})
	if last == nil && ctx.Err() != nil {
		// The chain's function runs in the cluster. It would start further steps after the user's
		// Ctrl-C.
		last, err = t.kill(ctx, id, err)
	}
	if last == nil {
		// After an interrupt the error of kill says it already.
		if ctx.Err() == nil {
			err = fmt.Errorf("chain %s was submitted, but its state is unknown: %s", id, client.Message(err))
		}
		return []*feature.Outcome{{Name: c.Name, ID: id, State: "unknown"}}, err
	}
	return t.stepOutcomes(ctx, last), failure(last)
}

// stepOutcomes returns the outcomes of the jobs of a chain. A job that the master has
// forgotten is left out.
func (t *target) stepOutcomes(ctx context.Context, chain *slotwisev1.JobStatus) (out []*feature.Outcome) {
	// The user may have interrupted the wait, and still wants to know which steps have run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	for _, id := range chain.GetSteps() {
		resp, err := client.Call(ctx, t.master, t.master.RPC().Job, &slotwisev1.JobRequest{Job: id})
		if err == nil {
			o := outcome(resp.Job)
			o.Output = resp.Job.GetOutput()
			out = append(out, o)
		}
	}
	if len(out) == 0 { // it ended without a step
		out = append(out, outcome(chain))
	}
	return out
}

// chainSpec returns the message that submits a chain. It uploads the program and the
// files that workers need.
func (t *target) chainSpec(ctx context.Context, c *feature.Chain) (*slotwisev1.ChainSpec, error) {
	program, err := t.program(ctx, &feature.Recipe{App: c.App, Params: c.Params})
	if err != nil {
		return nil, err
	}
	// The inputs are made absolute here and not planned: the driver lists them when their step begins, since
	// a step may write what a later one reads.
	spec := &slotwisev1.ChainSpec{Include: c.Include, Exclude: c.Exclude, SplitSize: c.SplitSize, Rows: c.Rows, Job: &slotwisev1.JobSpec{
		Name: c.Name, Program: program,
		Reduces: int32(c.Reduces), Overwrite: c.Replace != storage.ReplaceNothing, Force: c.Replace == storage.ReplaceAll, OutputCodec: c.OutputCompress, OutputRows: c.OutputRows, ShuffleCodec: c.Compress,
	}}
	t.setRequest(spec.Job, c.Request)
	if spec.Job.Output, err = t.URI(c.Output); err != nil {
		return nil, err
	}
	for _, in := range c.Inputs {
		uri, err := t.URI(in)
		if err != nil {
			return nil, err
		}
		spec.Inputs = append(spec.Inputs, uri)
	}
	for _, name := range slices.Sorted(maps.Keys(c.NamedInputs)) {
		for _, in := range c.NamedInputs[name] {
			uri, err := t.URI(in)
			if err != nil {
				return nil, err
			}
			spec.NamedInputs = append(spec.NamedInputs, &slotwisev1.NamedInput{Name: name, Uri: uri})
		}
	}
	return spec, nil
}
