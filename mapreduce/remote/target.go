package remote

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

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// target is a connection to a cluster's master.
// size is the cluster's when the program connected. Plans rely on it; workers that join later still get
// tasks.
type target struct {
	*Cluster
	schemes *storage.Schemes // of inputs and outputs
	master  *client.Client
	size    *slotwisev1.ClusterResponse
}

// Connector implements [mapreduce.Remote].
func (c *Cluster) Connector() any { return connector{c} }

// connector implements feature.Remote.
type connector struct{ *Cluster }

// Connect asks the master for the size of the cluster.
func (c connector) Connect(ctx context.Context, schemes *storage.Schemes, w feature.Outages) (feature.Target, error) {
	cl, err := client.New(c.Master, client.Options{HTTP: c.HTTP, Token: c.Token, StorageRetry: w.Storage, Notify: w.Notify})
	if err != nil {
		return nil, err
	}
	resp, err := cl.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return &target{c.Cluster, schemes, cl, resp}, nil
}

// MapSlots returns the map slots of all workers. It is 1 while no worker has
// joined yet: the job waits for workers.
func (t *target) MapSlots() int { return max(1, int(t.size.GetMapSlots())) }

// ReduceSlots returns the reduce slots of all workers, like MapSlots.
func (t *target) ReduceSlots() int { return max(1, int(t.size.GetReduceSlots())) }

// MapBuffer returns the smallest buffer of all workers, in bytes.
// A master without workers does not know one.
func (t *target) MapBuffer() int64 { return cmp.Or(t.size.GetMapBuffer(), 64<<20) }

// Close does nothing: a client keeps no connection open between calls.
func (t *target) Close() error { return nil }

// URI makes paths absolute, because workers have other working directories.
func (t *target) URI(path string) (string, error) {
	if scheme, _ := storage.SplitURI(path); scheme != "" || path == "" {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	return storage.JoinURI("file", abs), err
}

// Run submits the job and waits for its end, unless the cluster's Detach is set.
// If ctx is cancelled first, Run kills the job.
func (t *target) Run(ctx context.Context, j *feature.PlannedJob) (*feature.Outcome, error) {
	// Workers start the program again and build the job from its recipe. Functions cannot be
	// sent to them.
	if j.Recipe == nil {
		return nil, fmt.Errorf("job %s cannot run on a cluster: workers can build only apps, streaming jobs and the job that a program passes to mapreduce.Main", j.Name)
	}
	spec, err := t.spec(ctx, j)
	if err != nil {
		return nil, err
	}
	id, err := patiently(ctx, func(ctx context.Context) (string, error) { return t.master.Submit(ctx, spec) })
	if err != nil {
		return nil, submitError(err)
	}
	// Before the wait: the user must learn the id even if this process is killed next.
	if t.Accepted != nil {
		t.Accepted(id)
	}
	out := &feature.Outcome{Name: j.Name, ID: id, State: "waiting", Maps: len(j.Splits) + j.Synthetic, Reduces: j.Reduces}
	if t.Detach {
		return out, nil
	}
	began := time.Now()
	last, err := t.master.Wait(ctx, id, func(s *slotwisev1.JobStatus) {
		if j.Progress != nil {
			j.Progress(progressOf(s, time.Since(began)))
		}
	})
	// Not a job that has ended meanwhile: its outcome stands.
	if last == nil && ctx.Err() != nil {
		last, err = t.kill(ctx, id, err)
	}
	switch {
	// A master that has lost its journal numbers jobs from the start again.
	case last != nil && (last.GetName() != spec.GetName() || last.GetOutput() != spec.GetOutput()):
		return out, fmt.Errorf("job %s no longer exists: the master was restarted without its journal and has reused the id", id)
	case last != nil:
		return outcome(last), failure(last)
	case ctx.Err() == nil:
		err = fmt.Errorf("job %s was submitted, but its state is unknown: %s", id, client.Message(err))
	}
	return out, err
}

// patiently submits a job or a chain and returns its id. An interrupted submission may
// have reached the master, and then it must be killed by its id. So after an interrupt
// patiently still waits submitGrace for the answer.
func patiently(ctx context.Context, submit func(context.Context) (string, error)) (string, error) {
	// Interrupted before the call, so nothing was submitted and there is nothing to kill.
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(submitGrace, func() { cancel(context.Cause(ctx)) })
	})
	defer stop()
	return submit(call)
}

// submitError returns the error of a submission without the words of the protocol. An invalid
// argument is a local.Refusal.
func submitError(err error) error {
	text := client.Message(err)
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return local.Refusal(text)
	}
	return errors.New(text)
}

// submitGrace is the time that an interrupted submission still gets.
const submitGrace = 3 * time.Second

// kill kills a job whose submitter was interrupted, and returns its last status.
func (t *target) kill(ctx context.Context, id string, why error) (*slotwisev1.JobStatus, error) {
	cause := context.Cause(ctx)
	// A new context: the caller's has ended, which is why the job is killed.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	if _, err := client.Call(end, t.master, t.master.RPC().Kill, &slotwisev1.KillRequest{Job: id, Reason: cause.Error()}); err != nil {
		return nil, errors.Join(why, fmt.Errorf("job %s is still running: it could not be killed: %w", id, err))
	}
	last, err := t.master.Wait(end, id, nil)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	return last, nil
}

// killGrace is the time for which kill waits for the job's end.
const killGrace = 15 * time.Second

// failure returns nil for a job that has succeeded, else why it has not.
func failure(s *slotwisev1.JobStatus) error {
	if s.GetState() == slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		return nil
	}
	text := fmt.Sprintf("job %s (%s) %s: %s", s.GetId(), s.GetName(), stateName(s.GetState()), s.GetMessage())
	if tail := s.GetLogTail(); tail != "" {
		text += "; end of the log of the last failed attempt: " + tail
	}
	return &jobError{text}
}

// jobError says that a job on a cluster has failed or was killed, and why.
type jobError struct{ text string }

// Error returns the text.
func (e *jobError) Error() string { return e.text }

// Is reports whether the error of the job's program was target, as far as another process
// can know: the text has the code of target or, if target has no code, its whole text
// between separators.
func (e *jobError) Is(target error) bool {
	// A code is made for comparison, so it decides alone.
	if c, ok := target.(interface{ ErrorCode() string }); ok && c.ErrorCode() != "" {
		return strings.Contains(e.text, engine.CodeMark(c.ErrorCode()))
	}
	want := target.Error()
	// An occurrence inside another word does not count, and a later one may.
	// An error without a text would be found in every message.
	for from := 0; want != ""; from++ {
		i := strings.Index(e.text[from:], want)
		if i < 0 {
			break
		}
		if from += i; begins(e.text[:from]) && ends(e.text[from+len(want):]) {
			return true
		}
	}
	return false
}

// begins reports whether an error's text may start after a part of a message.
func begins(before string) bool {
	return before == "" || strings.HasSuffix(before, ": ") || strings.HasSuffix(before, "; ") || strings.HasSuffix(before, "\n")
}

// ends reports whether an error's text may end before a part of a message.
func ends(after string) bool {
	return after == "" || strings.HasPrefix(after, ": ") || strings.HasPrefix(after, ";") || strings.HasPrefix(after, "\n") || strings.HasPrefix(after, " (code ")
}

// stateName returns a state in the words that users see.
func stateName(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// program returns the description of a job's or chain's program. It uploads the
// executable and the files that workers need.
func (t *target) program(ctx context.Context, r *feature.Recipe) (*slotwisev1.Program, error) {
	program := &slotwisev1.Program{App: r.App, Step: r.Step, Params: r.Params, Cuts: r.Cuts}
	if s := r.Streaming; s != nil {
		program.Streaming = &slotwisev1.Streaming{Mapper: s.Mapper, Reducer: s.Reducer, Combiner: s.Combiner, Properties: s.Properties}
	}
	var err error
	if program.Executable, err = t.upload(ctx, selfPath()); err != nil {
		return nil, fmt.Errorf("uploading this program: %w", err)
	}
	named := map[string]string{}
	for _, path := range t.Files {
		// The worker links all files into one working directory by their base names. One would
		// replace the other.
		if other, twice := named[filepath.Base(path)]; twice {
			return nil, fmt.Errorf("files %s and %s have the same base name, but all files are put into one directory", other, path)
		}
		named[filepath.Base(path)] = path
		f, err := t.ship(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
		program.Files = append(program.Files, f)
	}
	return program, nil
}

// setRequest sets what a job asks of the scheduler. The owner of a job that names none is the
// caller as the master knows him.
func (t *target) setRequest(m *slotwisev1.JobSpec, r job.Request) {
	r.User = cmp.Or(r.User, t.size.GetUser(), feature.LoginName())
	wire.EncodeRequest(m, &r)
}

// spec returns the message that submits the job.
func (t *target) spec(ctx context.Context, j *feature.PlannedJob) (*slotwisev1.JobSpec, error) {
	program, err := t.program(ctx, j.Recipe)
	if err != nil {
		return nil, err
	}
	splits, layouts := attempt.EncodeSplits(j.Splits)
	spec := &slotwisev1.JobSpec{
		Name: j.Name, Program: program, Splits: splits, Layouts: layouts,
		Synthetic: int32(j.Synthetic), Reduces: int32(j.Reduces), Output: j.Output, Overwrite: j.Replace != storage.ReplaceNothing, Force: j.Replace == storage.ReplaceAll,
		OutputCodec: j.OutCode.String(), OutputRows: j.OutputRows, ShuffleCodec: j.ShuffleCodec,
	}
	t.setRequest(spec, j.Request)
	return spec, nil
}

// selfPath returns the path of this program's executable. Where the system can
// tell, that is the file from which the program was started, even if it was replaced.
func selfPath() string {
	// A program that was rebuilt while it runs must upload the file that it was started from, or planning and tasks
	// would differ.
	const proc = "/proc/self/exe"
	if _, err := os.Stat(proc); err == nil {
		return proc
	}
	path, _ := os.Executable() // opening "" fails and says so
	return path
}

// upload sends a file to the master, unless the master has it already, and
// returns its SHA-256.
func (t *target) upload(ctx context.Context, path string) (string, error) {
	hash, err := hashOf(path, path == selfPath())
	if err != nil {
		return "", err
	}
	return hash, t.master.Ensure(ctx, hash, func() (io.ReadCloser, int64, error) {
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

// hashOf returns the SHA-256 of a file. With kept it may be one that an earlier process has
// computed, if the file is the same since.
func hashOf(path string, kept bool) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	same := ""
	if kept {
		if same = identity(f); same != "" {
			if hash := keptHash(same); hash != "" {
				return hash, nil
			}
		}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	// A file that was written meanwhile has another identity now.
	if same != "" && identity(f) == same {
		_ = keepHash(same, hash) // without a cache directory each submission computes it
	}
	return hash, nil
}

// ship uploads a file for the attempts' working directories.
func (t *target) ship(ctx context.Context, path string) (*slotwisev1.ShippedFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	hash, err := t.upload(ctx, path)
	return &slotwisev1.ShippedFile{Name: filepath.Base(path), Sha256: hash, Executable: info.Mode()&0o111 != 0}, err
}

// progressOf translates a job's status.
func progressOf(s *slotwisev1.JobStatus, elapsed time.Duration) local.Progress {
	m, r := s.GetMaps(), s.GetReduces()
	p := local.Progress{
		Job: s.GetName(), ID: s.GetId(), State: stateName(s.GetState()), Elapsed: elapsed,
		Maps: int(m.GetTotal()), MapsDone: int(m.GetDone()), MapsRunning: int(m.GetRunning()), MapFrac: m.GetProgress(),
		Reduces: int(r.GetTotal()), ReducesDone: int(r.GetDone()), ReducesRunning: int(r.GetRunning()), ReduceFrac: r.GetProgress(),
		BytesIn: s.GetInputBytes(), Failed: int(m.GetFailed() + r.GetFailed()), LastError: s.GetLastError(), Done: client.Ended(s.GetState()),
	}
	// The master counts progress and no bytes, so this is as exact as the progress of the maps.
	p.BytesRead = int64(p.MapFrac * float64(p.BytesIn))
	if f := s.GetForecast(); f != nil {
		in := func(ms int64) time.Duration { return time.Duration(max(0, ms-f.NowMs)) * time.Millisecond }
		p.Expected = local.Expected{Known: f.Known, Left: in(f.EndMs), Early: in(f.EarlyMs), Late: in(f.LateMs),
			Position: int(f.Position), Start: in(f.StartMs)}
	}
	return p
}

// outcome translates the last status of a job. Times are since its submission.
func outcome(s *slotwisev1.JobStatus) *feature.Outcome {
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return time.Duration(ms-s.GetSubmittedMs()) * time.Millisecond
	}
	out := &feature.Outcome{
		Name: s.GetName(), ID: s.GetId(), State: stateName(s.GetState()),
		Elapsed: since(s.GetEndedMs()), Started: since(s.GetStartedMs()), Ended: since(s.GetEndedMs()),
		Maps: int(s.GetMaps().GetTotal()), Reduces: int(s.GetReduces().GetTotal()),
		Failures: int(s.GetMaps().GetFailed() + s.GetReduces().GetFailed()), Copies: int(s.GetCopies()),
		SlotTime: [job.Kinds]time.Duration{time.Duration(s.GetMaps().GetSlotMs()) * time.Millisecond, time.Duration(s.GetReduces().GetSlotMs()) * time.Millisecond},
	}
	for i, n := range s.GetLocality() {
		if i < len(out.Locality) {
			out.Locality[i] = int(n)
		}
	}
	out.Counters[job.Map] = wire.DecodeCounters(s.GetMapCounters())
	out.Counters[job.Reduce] = wire.DecodeCounters(s.GetReduceCounters())
	return out
}
