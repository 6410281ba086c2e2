package mapreduce

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/client"
	"github.com/slotwise/slotwise/internal/counterspb"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// remote is a cluster of machines, spoken to through its master.
type remote struct {
	*Remote
	master  *client.Client
	cluster *slotwisev1.ClusterResponse
}

// connect finds out what the cluster is like.
func connect(ctx context.Context, r *Remote) (place, error) {
	c, err := client.New(r.Master, client.Options{HTTP: r.HTTP, Token: r.Token})
	if err != nil {
		return nil, err
	}
	resp, err := client.Call(ctx, c, c.RPC().Cluster, &slotwisev1.ClusterRequest{})
	if err != nil {
		return nil, err
	}
	return &remote{r, c, resp}, nil
}

// MapSlots is that of a cluster whose workers are still to come, if there is
// none: the job waits for them.
func (r *remote) MapSlots() int { return max(1, int(r.cluster.GetMapSlots())) }

// ReduceSlots is as MapSlots.
func (r *remote) ReduceSlots() int { return max(1, int(r.cluster.GetReduceSlots())) }

// MapBuffer is the least of all workers.
func (r *remote) MapBuffer() int64 { return cmp.Or(r.cluster.GetMapBuffer(), 64<<20) }

func (r *remote) close() error { return nil }

// uri makes paths absolute: workers have other working directories.
func (r *remote) uri(path string) (string, error) {
	if scheme, _ := storage.SplitURI(path); scheme != "" || path == "" {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	return storage.JoinURI("file", abs), err
}

// chainDir names a hidden directory beside the chain's output.
func (r *remote) chainDir(output string) (string, func() error, error) {
	if r.Detach {
		return "", nil, errors.New("a chain of jobs cannot be detached: its steps are submitted one after the other")
	}
	out, err := r.uri(output)
	if err != nil {
		return "", nil, err
	}
	scheme, path := storage.SplitURI(strings.TrimRight(out, "/"))
	i := strings.LastIndexByte(path, '/') + 1
	dir := storage.JoinURI(scheme, path[:i]+"."+path[i:]+".chain-"+storage.NewToken())
	files, at, err := storage.Resolve(dir)
	return dir, func() error { return files.Remove(context.Background(), at) }, err
}

// run submits the job, and waits for its end unless it is to be detached. If ctx
// ends first the job is killed.
func (r *remote) run(ctx context.Context, p *planned, o Options) (*Result, error) {
	if p.origin == nil {
		return nil, fmt.Errorf("job %s cannot run on a cluster: workers build it again from the name of an app, from streaming commands or by running the program of its Main", p.job.Name)
	}
	spec, err := r.spec(ctx, p, o)
	if err != nil {
		return nil, err
	}
	id, err := r.enter(ctx, spec)
	if err != nil {
		return nil, errors.New(client.Message(err))
	}
	if r.Accepted != nil {
		r.Accepted(id)
	}
	res := &Result{Job: p.job.Name, ID: id, State: "waiting", Output: o.Output, Maps: len(p.splits) + p.job.Synthetic, Reduces: p.reduces}
	if r.Detach {
		return res, nil
	}
	began := time.Now()
	last, err := r.master.Wait(ctx, id, func(s *slotwisev1.JobStatus) {
		if o.Progress != nil {
			o.Progress(progressOf(s, time.Since(began)))
		}
	})
	if ctx.Err() != nil && (last == nil || !client.Over(last.GetState())) {
		last, err = r.kill(ctx, id, err)
	}
	switch {
	case last != nil && (last.GetName() != spec.GetName() || last.GetOutput() != spec.GetOutput()):
		return res, fmt.Errorf("job %s is another one now: the master has forgotten the one that was submitted", id)
	case last != nil:
		return r.result(last, o), r.verdict(last)
	case ctx.Err() == nil: // the protocol's words are nobody's business
		err = fmt.Errorf("job %s has been submitted, how it goes is not known: %s", id, client.Message(err))
	}
	return res, err
}

// enter submits the job. An interrupt meanwhile must not leave a job behind that
// nobody knows the name of, so the answer is waited for a little longer.
func (r *remote) enter(ctx context.Context, spec *slotwisev1.JobSpec) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(enterPatience, func() { cancel(context.Cause(ctx)) })
	})
	defer stop()
	return r.master.Submit(call, spec)
}

// enterPatience is how long an interrupted submission may take to its end.
const enterPatience = 3 * time.Second

// kill ends a job that nobody waits for any more.
func (r *remote) kill(ctx context.Context, id string, why error) (*slotwisev1.JobStatus, error) {
	cause := context.Cause(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	if _, err := client.Call(end, r.master, r.master.RPC().Kill, &slotwisev1.KillRequest{Job: id, Reason: cause.Error()}); err != nil {
		return nil, errors.Join(why, fmt.Errorf("job %s goes on: it could not be killed: %w", id, err))
	}
	last, err := r.master.Wait(end, id, nil)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	return last, nil
}

// killPatience is how long the end of a killed job is waited for.
const killPatience = 15 * time.Second

// verdict is nil for a job that succeeded, else why it did not.
func (r *remote) verdict(s *slotwisev1.JobStatus) error {
	if s.GetState() == slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		return nil
	}
	return fmt.Errorf("job %s (%s) %s: %s", s.GetId(), s.GetName(), stateWord(s.GetState()), s.GetMessage())
}

// stateWord is a state as people read it.
func stateWord(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// spec is the job as it is submitted; what its workers need is uploaded.
func (r *remote) spec(ctx context.Context, p *planned, o Options) (*slotwisev1.JobSpec, error) {
	program := &slotwisev1.Program{
		App: p.origin.GetApp(), Step: p.origin.GetStep(), Params: p.origin.GetParams(),
		Streaming: p.origin.GetStreaming(), Cuts: p.cuts,
	}
	var err error
	if program.Executable, err = r.upload(ctx, selfPath()); err != nil {
		return nil, fmt.Errorf("uploading this program: %w", err)
	}
	named := map[string]string{}
	for _, path := range r.Files {
		if other, twice := named[filepath.Base(path)]; twice {
			return nil, fmt.Errorf("files %s and %s have the same name, and would lie in one directory", other, path)
		}
		named[filepath.Base(path)] = path
		f, err := r.ship(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
		program.Files = append(program.Files, f)
	}
	spec := &slotwisev1.JobSpec{
		Name: p.job.Name, User: cmp.Or(o.User, r.cluster.GetUser(), loginName()), Pool: o.Pool, Priority: p.priority.String(), Program: program,
		Synthetic: int32(p.job.Synthetic), Reduces: int32(p.reduces), Output: p.output, Overwrite: o.Overwrite,
		OutputCodec: o.OutputCompress, ShuffleCodec: o.Compress,
		TaskTimeoutMs: o.TaskTimeout.Milliseconds(), MaxAttempts: int32(o.MaxAttempts),
		MapProfile: profileOf(o.Profile.Map), ReduceProfile: profileOf(o.Profile.Reduce),
	}
	if len(p.splits)+p.job.Synthetic <= r.MapSlots() {
		spec.SlowStart = -1 // no map waits for what reduces occupy: let them start
	}
	if o.SlowStart != nil {
		// On the wire 0 is the default, and a negative number stands for 0.
		if spec.SlowStart = *o.SlowStart; spec.SlowStart == 0 {
			spec.SlowStart = -1
		}
	}
	for _, s := range p.splits {
		out := &slotwisev1.Split{Source: int32(s.Source), Hosts: s.Split.Hosts, Bytes: s.Split.Bytes}
		for _, x := range s.Split.Pieces {
			out.Pieces = append(out.Pieces, &slotwisev1.Piece{Uri: x.URI, Offset: x.Offset, Length: x.Length, FileSize: x.FileSize})
		}
		spec.Splits = append(spec.Splits, out)
	}
	return spec, nil
}

func profileOf(l Load) *slotwisev1.Profile {
	return &slotwisev1.Profile{Cpu: int32(l.CPU), Memory: int32(l.Memory), Disk: int32(l.Disk), Network: int32(l.Network)}
}

// selfPath is this program's executable, as it was when it was started where the
// system can tell.
func selfPath() string {
	const proc = "/proc/self/exe"
	if _, err := os.Stat(proc); err == nil {
		return proc
	}
	path, _ := os.Executable() // opening "" fails and says so
	return path
}

// upload sends a file to the master unless it is there, and returns its hash.
func (r *remote) upload(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	return hash, r.master.Ensure(ctx, hash, func() (io.ReadCloser, int64, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		return f, info.Size(), nil
	})
}

// ship uploads a file that is to lie in the attempts' working directories.
func (r *remote) ship(ctx context.Context, path string) (*slotwisev1.ShippedFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	hash, err := r.upload(ctx, path)
	return &slotwisev1.ShippedFile{Name: filepath.Base(path), Sha256: hash, Executable: info.Mode()&0o111 != 0}, err
}

// progressOf says how far a job has come.
func progressOf(s *slotwisev1.JobStatus, elapsed time.Duration) Progress {
	m, r := s.GetMaps(), s.GetReduces()
	p := Progress{
		Job: s.GetName(), ID: s.GetId(), State: stateWord(s.GetState()), Elapsed: elapsed,
		Maps: int(m.GetTotal()), MapsDone: int(m.GetDone()), MapsRunning: int(m.GetRunning()), MapFrac: m.GetProgress(),
		Reduces: int(r.GetTotal()), ReducesDone: int(r.GetDone()), ReducesRunning: int(r.GetRunning()), ReduceFrac: r.GetProgress(),
		BytesIn: s.GetInputBytes(), Failed: int(m.GetFailed() + r.GetFailed()), LastError: s.GetLastError(), Done: client.Over(s.GetState()),
	}
	p.BytesRead = int64(p.MapFrac * float64(p.BytesIn))
	return p
}

// result says how a job ended. Times are since it was submitted.
func (r *remote) result(s *slotwisev1.JobStatus, o Options) *Result {
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return time.Duration(ms-s.GetSubmittedMs()) * time.Millisecond
	}
	res := &Result{
		Job: s.GetName(), ID: s.GetId(), State: stateWord(s.GetState()), Output: o.Output,
		Elapsed: since(s.GetEndedMs()), Started: since(s.GetStartedMs()), Ended: since(s.GetEndedMs()),
		Maps: int(s.GetMaps().GetTotal()), Reduces: int(s.GetReduces().GetTotal()),
		Failures: int(s.GetMaps().GetFailed() + s.GetReduces().GetFailed()),
		Counters: map[string]int64{}, User: map[string]int64{},
	}
	for i, n := range s.GetLocality() {
		if i < 4 {
			*[]*int{&res.Locality.Node, &res.Locality.Rack, &res.Locality.Any, &res.Locality.None}[i] = int(n)
		}
	}
	for kind, m := range []*slotwisev1.Counters{job.Map: s.GetMapCounters(), job.Reduce: s.GetReduceCounters()} {
		set := counterspb.Decode(m)
		res.addCounters(job.Kind(kind), &set)
	}
	return res
}
