package master

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/sched/job"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// chaos is a cluster under faults that are drawn from a seed: answers are lost,
// repeated or late; workers restart, fall silent or leave; attempts fail; masters are
// killed and their machines lose power at any point.
type chaos struct {
	*rig
	rng     *rand.Rand
	dir     string
	workers []*chaosWorker
	granted map[string][]string // attempts that got permission to commit, by task
}

// chaosWorker is a worker that makes one step for each call of act.
type chaosWorker struct {
	c       *chaos
	name    string
	session string
	seq     int64
	acked   int64
	running []string
	outputs []string
	final   []*slotwisev1.Report // not acknowledged yet
	last    *slotwisev1.HeartbeatRequest
}

// oneIn returns true in one of n cases.
func (c *chaos) oneIn(n int) bool { return c.rng.IntN(n) == 0 }

func (w *chaosWorker) register() {
	req := &slotwisev1.RegisterRequest{Worker: w.name, Address: w.name + ":1", MapSlots: 2, ReduceSlots: 1, Running: w.running}
	for _, r := range w.final {
		req.Running = append(req.Running, r.Attempt)
	}
	for _, id := range w.outputs {
		req.Outputs = append(req.Outputs, &slotwisev1.HeldOutput{Attempt: id, Bytes: 1})
	}
	resp, err := w.c.rig.workers.Register(w.c.t.Context(), req)
	if err != nil {
		w.c.t.Fatal(err)
	}
	w.session, w.seq, w.acked = resp.Session, 0, 0
	for _, id := range resp.DropJobs {
		w.drop(id)
	}
}

// act lets the worker end some attempts and send a heartbeat.
func (w *chaosWorker) act() {
	if w.session == "" {
		w.register()
	}
	for _, id := range slices.Clone(w.running) {
		switch {
		case w.c.oneIn(3):
			w.finish(id)
		case w.c.oneIn(20):
			w.end(id, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, "bad luck")
		}
	}
	w.heartbeat()
}

// finish ends an attempt with success, or as killed if it may not commit.
func (w *chaosWorker) finish(id string) {
	a, err := job.ParseAttempt(id)
	if err != nil {
		w.c.t.Fatal(err)
	}
	if a.Kind == job.Reduce && !w.c.commit(w, a) {
		w.end(id, slotwisev1.AttemptState_ATTEMPT_STATE_KILLED, "may not commit")
		return
	}
	if a.Kind == job.Map {
		w.outputs = append(w.outputs, id)
	}
	w.end(id, slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED, "")
}

func (w *chaosWorker) end(id string, state slotwisev1.AttemptState, text string) {
	w.running = slices.DeleteFunc(w.running, func(x string) bool { return x == id })
	w.final = append(w.final, &slotwisev1.Report{Attempt: id, State: state, Error: text, Counters: &slotwisev1.Counters{InputRecords: 1}})
}

// heartbeat sends a heartbeat. At times it repeats an old one as well, or ignores the
// answer.
func (w *chaosWorker) heartbeat() {
	w.seq++
	req := &slotwisev1.HeartbeatRequest{Session: w.session, Seq: w.seq, Acked: w.acked, WaitMs: int64(w.c.rng.IntN(3))}
	for _, id := range w.running {
		req.Reports = append(req.Reports, &slotwisev1.Report{Attempt: id, State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING})
	}
	req.Reports = append(req.Reports, w.final...)
	if w.last != nil && w.c.oneIn(5) {
		w.call(w.last) // late or repeated; its answer is lost
	}
	w.last = req
	resp := w.call(req)
	switch {
	case w.c.oneIn(5): // the answer is lost
	case resp.RegisterAgain:
		w.register()
	default:
		w.final = nil
		w.carryOut(resp)
	}
}

func (w *chaosWorker) call(r *slotwisev1.HeartbeatRequest) *slotwisev1.HeartbeatResponse {
	resp, err := w.c.rig.workers.Heartbeat(w.c.t.Context(), r)
	if err != nil {
		w.c.t.Fatal(err)
	}
	return resp
}

func (w *chaosWorker) carryOut(resp *slotwisev1.HeartbeatResponse) {
	for _, a := range resp.Actions {
		if a.Number <= w.acked {
			continue
		}
		w.acked = a.Number
		switch what := a.What.(type) {
		case *slotwisev1.Action_Launch:
			if id := what.Launch.Attempt; !slices.Contains(w.running, id) {
				w.running = append(w.running, id)
			}
		case *slotwisev1.Action_Kill:
			w.kill(what.Kill.Attempt)
		case *slotwisev1.Action_DropJob:
			w.drop(what.DropJob)
		}
	}
}

func (w *chaosWorker) kill(id string) {
	if slices.Contains(w.running, id) {
		w.end(id, slotwisev1.AttemptState_ATTEMPT_STATE_KILLED, "killed")
	}
	w.outputs = slices.DeleteFunc(w.outputs, func(x string) bool { return x == id })
}

func (w *chaosWorker) drop(name string) {
	of := func(id string) bool { return strings.HasPrefix(id, name+"_") }
	w.running, w.outputs = slices.DeleteFunc(w.running, of), slices.DeleteFunc(w.outputs, of)
	w.final = slices.DeleteFunc(w.final, func(r *slotwisev1.Report) bool { return of(r.Attempt) })
}

// commit asks for permission and writes the reduce's part file, as an attempt does. It
// fails if the staging directory is gone because the job has ended.
func (c *chaos) commit(w *chaosWorker, id job.AttemptID) bool {
	ctx := c.t.Context()
	resp, err := c.rig.workers.AskCommit(ctx, &slotwisev1.AskCommitRequest{Session: w.session, Attempt: id.String()})
	if err != nil || !resp.Granted {
		return false
	}
	task := id.TaskID.String()
	c.granted[task] = append(c.granted[task], id.String())
	j, err := c.rig.workers.JobForWorker(ctx, &slotwisev1.JobForWorkerRequest{Session: w.session, Job: id.Job.String()})
	if err != nil {
		return false
	}
	return writePart(ctx, j, fmt.Sprintf("part-r-%05d", id.Index), id.String()) == nil
}

func writePart(ctx context.Context, j *slotwisev1.JobForWorkerResponse, name, text string) error {
	files, path, err := (*storage.Schemes)(nil).Resolve(j.Spec.Output)
	if err != nil {
		return err
	}
	s, err := files.Reopen(ctx, path, j.Staging)
	if err != nil {
		return err
	}
	f, err := s.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(text)); err != nil {
		return err
	}
	return f.Commit()
}

// injectOne injects a fault or lets a worker act.
func (c *chaos) injectOne() {
	i := c.rng.IntN(len(c.workers))
	w := c.workers[i]
	switch n := c.rng.IntN(100); {
	case n < 4 && c.cfg.journalFS != nil:
		c.powerCut(c.rng)
	case n < 4:
		c.restart()
	case n < 8: // restarted, without attempts and outputs
		*w = chaosWorker{c: c, name: w.name}
	case n < 10: // its outputs are lost
		w.outputs = nil
		w.register()
	case n < 12: // leaves, and registers again later
		if w.session != "" {
			w.call(&slotwisev1.HeartbeatRequest{Session: w.session, Seq: w.seq + 1, Leaving: true})
		}
	default:
		w.act()
	}
}

// TestChaos runs jobs under faults, with as many seeds as SLOTWISE_SEEDS says. Every job
// succeeds; its output is complete, and each part is by an attempt that got permission
// to commit.
func TestChaos(t *testing.T) {
	t.Parallel()
	seeds := 4
	if n, err := strconv.Atoi(os.Getenv("SLOTWISE_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cfg := Config{Policy: []string{"fifo", "fair", "capacity"}[seed%3], Grace: 20 * time.Millisecond}
			if seed%2 == 1 {
				cfg.SnapshotBytes = 2000
			}
			if seed%4 < 2 {
				cfg.journalFS = faultfs.NewDisk()
			}
			c := &chaos{rig: newRig(t, cfg), rng: rand.New(rand.NewPCG(uint64(seed), 1)), dir: t.TempDir(), granted: map[string][]string{}}
			for i := range 3 {
				c.workers = append(c.workers, &chaosWorker{c: c, name: fmt.Sprint("w", i)})
			}
			c.run()
		})
	}
}

func (c *chaos) run() {
	const jobs, maps, reduces = 3, 4, 2
	var ids []string
	for n := range jobs {
		spec := c.spec(maps, reduces, filepath.Join(c.dir, fmt.Sprint("out", n)))
		spec.MaxAttempts, spec.SlowStart = 1000, proto.Float64(0.5)
		ids = append(ids, c.submit(spec))
		for range 10 {
			c.injectOne()
		}
	}
	for deadline := time.Now().Add(4 * time.Minute); ; {
		list, err := c.users.Jobs(c.t.Context(), &slotwisev1.JobsRequest{})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(list.Jobs) == 0 {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("jobs that do not end: %v", list.Jobs)
		}
		c.injectOne()
	}
	for n, id := range ids {
		if st := c.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.Reduces.Done != reduces {
			c.t.Errorf("job %v", st)
		}
		c.checkOutput(filepath.Join(c.dir, fmt.Sprint("out", n)), reduces)
	}
	left, err := os.ReadDir(c.dir)
	if err != nil || len(left) != jobs {
		c.t.Errorf("left behind: %v, error %v", left, err)
	}
}

// checkOutput checks the files of a job's output.
func (c *chaos) checkOutput(dir string, parts int) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil || len(names) != parts+1 || !slices.Contains(names, storage.SuccessFile) {
		c.t.Errorf("%s holds %v, error %v", dir, names, err)
	}
	for _, name := range names {
		if name == storage.SuccessFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		id, bad := job.ParseAttempt(string(b))
		if err != nil || bad != nil || !slices.Contains(c.granted[id.TaskID.String()], id.String()) {
			c.t.Errorf("%s/%s is by %q, error %v", dir, name, b, err)
		}
	}
}
