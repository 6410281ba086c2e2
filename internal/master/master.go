// Package master is the shell around the tracker that speaks to workers and
// users over RPC. It turns what they say into the tracker's events and the
// tracker's effects into actions for workers; it decides nothing itself.
//
// One goroutine, the loop, owns the tracker and all tables. A handler sends it
// a function to run and waits. The loop runs what has come in as one batch,
// makes the batch durable, and only then lets the answers and the actions go
// that the batch led to:
//
//	handlers ─► inbox ─► batch of functions ─► offers ─► journal, one fsync ─► answers
//	                          │
//	                          └─► tracker.Step ─► effects ─► outboxes of sessions
//
// The loop does no other I/O. Output is staged before a job enters the loop and
// committed by a goroutine after the job's outcome is durable.
package master

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/hadoopconf"
	"github.com/slotwise/slotwise/internal/history"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/journal"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
)

// Config describes a master. Every field but Dir has a default.
type Config struct {
	Dir       string            // the master's own: journal, files, history
	Policy    string            // a name or composition; default policies.Default
	PolicySet map[string]string // its parameters, by name
	Policies  *sched.Registry   // where policies are looked up; default the built-in ones
	Seed      uint64            // of what the policy draws
	// FairScheduler and CapacityScheduler name Hadoop's files of pools and of
	// queues. They are read at the start and again when they change, which is
	// looked at every Reload (hadoopconf.ReloadEvery by default).
	FairScheduler, CapacityScheduler string
	Reload                           time.Duration
	// NodeTimeout is the silence after which a worker is given up. Default 1
	// minute. Shorter than a few heartbeats, it gives up workers that are well.
	NodeTimeout time.Duration
	// Heartbeat is the longest silence wanted between heartbeats of a worker.
	// By default it grows with the number of workers from half a second on.
	Heartbeat time.Duration
	// Grace is how long a job's end waits for killed attempts to be confirmed
	// dead before its output is published or removed. Default 10 seconds.
	Grace time.Duration
	// PublishPatience is for how long after a job's success the master goes on
	// trying to publish its output when the storage does not let it; after that
	// the job has failed and its output is removed. Default 24 hours.
	// RemovePatience is the same for removing what a job that did not succeed
	// has staged; what is left is removed by a later job of the same output.
	// Default 10 minutes.
	PublishPatience, RemovePatience time.Duration
	// GraylistFaults is as in tracker.Config. Default
	// tracker.DefaultGraylistFaults; negative is never.
	GraylistFaults int
	// KeepEnded is how many ended jobs stay in memory, tasks and all. Default
	// tracker.DefaultKeepEnded.
	KeepEnded int
	// Rack says in which rack a host is, for workers that do not say it
	// themselves; "" is the default rack. It is called outside the loop.
	Rack func(host string) string
	// WorkerHTTP makes requests to workers, for logs, by WorkerScheme. Default
	// plain HTTP.
	WorkerHTTP   *http.Client
	WorkerScheme string
	// SnapshotBytes is how long the journal's log at least gets before a snapshot
	// replaces it. Default 64 MiB.
	SnapshotBytes int64
	History       history.Limits
	Access        secure.Rules // who may do what
	Limits        Limits
	Version       string
	Log           *slog.Logger // default: nothing is logged

	journalFS journal.FS // of tests
}

// Limits keep a master alive under more than it can take. What goes beyond one
// is refused with a message that names it.
type Limits struct {
	Inbox      int   // requests that wait for the loop; default 4096
	Jobs       int   // jobs that have not ended; default 10,000
	JobTasks   int   // tasks of one job; default 200,000
	Tasks      int   // tasks of all jobs that have not ended; default 2,000,000
	Nodes      int   // workers; default 10,000
	Waiting    int   // requests of users that wait for news; default 10,000
	File       int64 // bytes of one uploaded file; default 1 GiB
	Files      int64 // bytes of all uploaded files; default 20 GiB
	Message    int   // bytes of one message; default 64 MiB
	SlotsANode int   // slots of one worker, of each kind; default 4096
}

func (l *Limits) fill() {
	l.Inbox = cmp.Or(l.Inbox, 4096)
	l.Jobs = cmp.Or(l.Jobs, 10_000)
	l.JobTasks = cmp.Or(l.JobTasks, 200_000)
	l.Tasks = cmp.Or(l.Tasks, 2_000_000)
	l.Nodes = cmp.Or(l.Nodes, 10_000)
	l.Waiting = cmp.Or(l.Waiting, 10_000)
	l.File = cmp.Or(l.File, 1<<30)
	l.Files = cmp.Or(l.Files, 20<<30)
	l.Message = cmp.Or(l.Message, 64<<20)
	l.SlotsANode = cmp.Or(l.SlotsANode, 4096)
}

func (cfg *Config) fill() {
	cfg.Policy = cmp.Or(cfg.Policy, policies.Default)
	if cfg.Policies == nil {
		cfg.Policies = policies.Builtin()
	}
	cfg.Reload = cmp.Or(cfg.Reload, hadoopconf.ReloadEvery)
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.PublishPatience = cmp.Or(cfg.PublishPatience, 24*time.Hour)
	cfg.RemovePatience = cmp.Or(cfg.RemovePatience, 10*time.Minute)
	cfg.GraylistFaults = cmp.Or(cfg.GraylistFaults, tracker.DefaultGraylistFaults)
	cfg.KeepEnded = cmp.Or(cfg.KeepEnded, tracker.DefaultKeepEnded)
	cfg.WorkerHTTP = cmp.Or(cfg.WorkerHTTP, &http.Client{})
	cfg.WorkerScheme = cmp.Or(cfg.WorkerScheme, "http")
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, 64<<20)
	cfg.Limits.fill()
	if cfg.Rack == nil {
		cfg.Rack = func(string) string { return "" }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
}

// configured is how the policy was configured, as a line.
func (cfg *Config) configured() string {
	words := []string{cfg.Policy}
	for _, k := range slices.Sorted(maps.Keys(cfg.PolicySet)) {
		words = append(words, k+"="+cfg.PolicySet[k])
	}
	return strings.Join(words, " ")
}

// Master serves workers and users until it is closed.
type Master struct {
	cfg     Config
	log     *slog.Logger
	files   *fileStore
	inbox   chan func()
	stop    chan struct{}
	stopped chan struct{}
	ctx     context.Context // of commits and what else runs beside the loop
	cancel  context.CancelFunc
	beside  sync.WaitGroup // of what runs beside the loop
	start   time.Time
	epoch   time.Time     // the tracker's time 0
	base    time.Duration // the tracker's time at start
	history *history.Store
	stats   *stats
	hadoop  *hadoopconf.Files
	closing sync.Once
	closed  error

	// What follows belongs to the loop.
	id       string // of the master, the same over restarts
	life     string // of this process; begins the cursors of map outputs
	tracker  *tracker.Tracker
	policy   string
	set      map[string]string
	jobs     map[job.ID]*jobInfo
	ended    []job.ID // of those in jobs, oldest first
	requests map[string]*request
	sessions map[string]*session // by session id
	nodes    map[string]*session // by worker's name: the one that counts
	// alive are the attempts by node that may be alive there, also those that
	// the tracker has given up.
	alive    map[string]map[job.AttemptID]bool
	tasks    int        // of jobs that have not ended
	waiting  int        // users' requests that wait for news
	after    []func()   // what to do once the batch is durable
	answered []*session // sessions to look at then
	offers   offers
	explain  time.Duration // when reasons were last gathered
	asked    int           // how many live jobs they were gathered of in this round

	journal      *journal.Log
	record       []byte // room for one
	unsynced     bool
	failed       error // of the journal
	snapshotSize int64
	noSnapshot   time.Time // before
	learned      []byte    // as last written down
	learnedAt    time.Duration
	past         []pastRequest // of jobs in the history, oldest first
}

// Open starts a master on its directory, where an earlier one may have been killed
// at any point. Close must be called to end it.
func Open(cfg Config) (*Master, error) {
	cfg.fill()
	log, err := journal.Open(filepath.Join(cfg.Dir, "journal"), journal.Options{FS: cfg.journalFS})
	if err != nil {
		return nil, err // also that another master has the directory
	}
	m := &Master{
		cfg: cfg, log: cfg.Log, journal: log,
		inbox: make(chan func(), cfg.Limits.Inbox), stop: make(chan struct{}), stopped: make(chan struct{}),
		start: time.Now(), life: newToken(),
		jobs:     map[job.ID]*jobInfo{},
		requests: map[string]*request{},
		sessions: map[string]*session{},
		nodes:    map[string]*session{},
		alive:    map[string]map[job.AttemptID]bool{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.stats = newStats(m)
	if err := m.open(); err != nil {
		m.cancel()
		m.beside.Wait()
		return nil, errors.Join(err, log.Close())
	}
	go m.loop()
	if err := m.follow(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open opens the stores and restores what the journal holds.
func (m *Master) open() (err error) {
	if cut := m.journal.Cut(); cut != nil {
		m.log.Warn("the journal had an unfinished end", "cut", cut.String())
	}
	if m.files, err = openFiles(m.cfg.Dir, m.cfg.Limits); err != nil {
		return err
	}
	if m.history, err = history.Open(filepath.Join(m.cfg.Dir, "history"), m.cfg.History); err != nil {
		return err
	}
	return m.restore()
}

// newToken returns a name that nobody else has and nobody can guess.
func newToken() string { return strings.ToLower(rand.Text()) }

// Done is closed when the master has ended, also by itself because its journal
// could not be written; Close then returns why.
func (m *Master) Done() <-chan struct{} { return m.stopped }

// Close ends the master: jobs stay as they are, and workers find it gone.
// Requests under way get an error.
func (m *Master) Close() error {
	m.closing.Do(func() {
		close(m.stop)
		<-m.stopped
		m.cancel()
		m.beside.Wait()
		m.closed = errors.Join(m.failed, m.journal.Close())
	})
	return m.closed
}

// The intervals of the loop.
const (
	tickEvery    = 200 * time.Millisecond
	explainEvery = time.Second
	// maxBatch is how many functions share one fsync.
	maxBatch = 256
)

// loop runs batches until the master is closed.
func (m *Master) loop() {
	defer close(m.stopped)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	m.offers.timer = time.NewTimer(0)
	defer m.offers.timer.Stop()
	for {
		select {
		case f := <-m.inbox:
			m.batch(f)
		case <-tick.C:
			m.batch(m.tick)
		case <-m.offers.timer.C:
			m.batch(func() {})
		case <-m.stop:
			m.noteLearned()
			m.sync()
			return
		}
		if m.failed != nil {
			return
		}
	}
}

// batch runs f and what else is there, and lets go what that led to once it is
// durable.
func (m *Master) batch(f func()) {
	start := time.Now()
	f()
	for range maxBatch - 1 {
		select {
		case f := <-m.inbox:
			f()
			continue
		default:
		}
		break
	}
	m.offer()
	m.maybeSnapshot()
	if !m.sync() {
		return // nobody may hear of what is not durable
	}
	for len(m.after) > 0 {
		now := m.after
		m.after = nil
		for _, f := range now {
			f()
		}
	}
	m.answer()
	m.stats.batch(time.Since(start))
}

// errClosed is what requests get that come too late.
var errClosed = errors.New("the master is shutting down")

// errBusy is what requests get that the loop has had no time for.
var errBusy = fault(connect.CodeUnavailable, "the master has more to do than it can: try again later")

// patience is how long a request waits for room in the inbox.
const patience = 10 * time.Second

// post has the loop run f. It waits for a while if the inbox is full.
func (m *Master) post(ctx context.Context, f func()) error {
	select {
	case m.inbox <- f:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m.inbox <- f:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.stopped:
		return errClosed
	}
}

// insist has the loop run f, however long there is no room for it in the inbox: f
// is what the master itself must not forget. It does nothing when the master ends.
func (m *Master) insist(f func()) {
	select {
	case m.inbox <- f:
	case <-m.ctx.Done():
	case <-m.stopped:
	}
}

// answer is what a function in the loop returned.
type answer[T any] struct {
	value T
	err   error
}

// ask has the loop run f and returns its answer once all that f did is durable.
func ask[T any](ctx context.Context, m *Master, f func() (T, error)) (T, error) {
	return asked(ctx, m, f, func(tell func()) { m.after = append(m.after, tell) })
}

// askKnown is ask for what has been durable since before the caller could ask: it
// does not wait for the batch.
func askKnown[T any](ctx context.Context, m *Master, f func() (T, error)) (T, error) {
	return asked(ctx, m, f, func(tell func()) { tell() })
}

// asked has the loop run f and returns its answer when it is let go.
func asked[T any](ctx context.Context, m *Master, f func() (T, error), let func(tell func())) (T, error) {
	done := make(chan answer[T], 1)
	var none T
	err := m.post(ctx, func() {
		v, err := f()
		let(func() { done <- answer[T]{v, err} })
	})
	if err != nil {
		return none, rpcError(err)
	}
	select {
	case a := <-done:
		return a.value, rpcError(a.err)
	case <-ctx.Done():
		return none, rpcError(context.Cause(ctx))
	case <-m.stopped:
		return none, rpcError(errClosed)
	}
}

// now is the time since the epoch. It never runs backwards, also not over
// restarts.
func (m *Master) now() time.Duration { return m.base + time.Since(m.start) }

// millis is a time of the tracker as milliseconds since the Unix epoch, 0 for
// 0, which is never.
func (m *Master) millis(t time.Duration) int64 {
	if t == 0 {
		return 0
	}
	return m.epoch.Add(t).UnixMilli()
}

// step tells the tracker of an event and carries out what it says. The effects
// are returned for those that look for an answer among them.
func (m *Master) step(ev tracker.Event) []tracker.Effect {
	// The slice is the tracker's until the next step, to which effects may lead.
	effects := append([]tracker.Effect(nil), m.tracker.Step(m.now(), ev)...)
	m.noteFacts()
	for _, e := range effects {
		m.carryOut(e)
	}
	return effects
}

// carryOut does what an effect orders.
func (m *Master) carryOut(e tracker.Effect) {
	if e.Kind != tracker.Launch {
		m.offers.wanted = true
	}
	j := m.jobs[e.Job]
	switch e.Kind {
	case tracker.Launch:
		m.launched(j, e)
	case tracker.Kill:
		m.kill(e)
	case tracker.MapDone:
		m.outputDone(j, e)
	case tracker.MapLost:
		j.outputLost(e)
	case tracker.CommitOutput, tracker.AbortOutput:
		j.outputs.end()
		j.output, j.giveUp = &e, make(chan struct{})
		m.finishOutput(j)
	case tracker.CancelOutput:
		j.cancelOutput()
	case tracker.JobDone:
		m.conclude(j, &tracker.FactJobEnded{Job: j.id, State: e.State, Message: e.Text, At: m.tracker.Now()})
	}
	if j != nil {
		j.changed = true
	}
}

// tick lets time pass.
func (m *Master) tick() {
	m.step(&tracker.Tick{})
	m.reap()
	now := m.now()
	if now >= m.explain+explainEvery {
		m.gatherReasons(now)
	}
	if now >= m.learnedAt+learnedEvery {
		m.noteLearned()
	}
	for _, j := range m.jobs {
		m.finishOutput(j)
		if j.changed {
			j.tell()
		}
	}
}
