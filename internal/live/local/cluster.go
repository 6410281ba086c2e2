// Package local is the shell that runs jobs in this process: a tracker, some
// workers, and tasks in goroutines. It turns what happens into the tracker's
// events and the tracker's effects into goroutines started and cancelled; it
// decides nothing itself.
//
// One goroutine, the loop, owns the tracker. Everything else sends it
// functions to run (post); attempts report their end that way at once, as an
// out-of-band heartbeat, so that a freed slot never waits for a timer.
//
// The life of a job: Submit posts a Submit event and gets a Handle. Offers lead to Launch effects, each
// of which starts a goroutine (attempt.go). Its end is reported in a heartbeat of its node, and the
// effects of that heartbeat publish or discard a map's output. After the last task the tracker orders
// the commit of the output, which waits until no goroutine of the job can write any more
// (handle.go). JobDone closes the handle, and Wait returns.
//
// The life of a cluster: Start joins the nodes before the loop runs. Close cancels the context; the loop
// then kills the jobs that are left and serves them to their ends, so that no goroutine outlives Close
// and no scratch file stays.
//
// Locks are not needed: the loop owns the tracker and all maps of Cluster, an attempt's goroutine only
// reads its attempt, and a Handle changes hands when its channel done is closed.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/shuffle"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/policyfiles"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Config describes the cluster to start. Every field has a default.
type Config struct {
	Workers     int               // nodes; default the number of cores
	MapSlots    int               // of a worker; default 1
	ReduceSlots int               // of a worker; default 1
	Memory      int64             // bytes for all tasks; default a quarter of RAM
	Policy      string            // a name or composition; default policies.Default
	PolicySet   map[string]string // its parameters, by name
	Policies    *sched.Registry   // where policies are looked up; default the built-in ones
	Seed        uint64            // of what the policy and the pauses before retries draw
	Schemes     *storage.Schemes  // storage of jobs' input; default local files
	TempDir     string            // where scratch space is made; default the system's
	Codec       runfile.Codec     // of spills and map outputs on disk
	Events      io.Writer         // takes a line for each event and effect, if set
	Tick        time.Duration     // how often running attempts report; default 100 ms
	// Heartbeat is the interval at which a worker reports and gets work. With 0 it does so every
	// Tick, and also reports the end of an attempt at once, whereupon the tracker
	// may assign work to all workers; see tracker.Config.OfferAtOnce.
	Heartbeat time.Duration
	// Load measures the machine at a time since the start; nil leaves the load
	// unknown, which policies that learn from load refuse. Each worker reports
	// its share.
	Load func(now time.Duration) cluster.Load
	// FairScheduler and CapacityScheduler name Hadoop's files of pools and of
	// queues. They are read at the start and again when they change, which is
	// looked at every Reload (10 seconds by default).
	FairScheduler, CapacityScheduler string
	Reload                           time.Duration
	// Warn, if set, is called with each problem in those files. It may be called from
	// any goroutine.
	Warn func(string)
	// Explain has the reasons gathered why jobs wait, for Summary.
	Explain  bool
	Observer Observer // may be nil
}

// Observer watches a cluster.
type Observer interface {
	// Started is called once the cluster runs.
	Started(c *Cluster)
	// Ended is called when a job has ended, in the cluster's loop. It must not block, and
	// must not change or keep t.
	Ended(t *tracker.Tracker, j *job.Job)
}

// MinMemory is the least memory that a task of either kind can work with.
const MinMemory = 4 << 20

// maxSlots is the largest number of slots of all workers: more goroutines than
// that do not help, and within it sizes do not overflow.
const maxSlots = 1 << 16

// Cluster runs jobs until it is closed.
type Cluster struct {
	cfg     Config
	env     engine.Env
	store   *shuffle.Store
	scratch *storage.DirScratch
	cancel  context.CancelFunc
	ctx     context.Context
	// Has room, so that attempts that end at the same time do not wait for each other.
	inbox   chan func()
	stopped chan struct{}
	start   time.Time

	// What follows belongs to the loop.
	tracker *tracker.Tracker
	nodes   []string // names
	jobs    map[job.ID]*Handle
	// submitting is the job of the Submit event in progress, rejected why the
	// tracker refused it.
	submitting *Handle
	rejected   string
	launches   int                         // so far
	attempts   map[job.AttemptID]*attempt  // whose goroutines run
	ended      map[job.AttemptID]*attempt  // whose end is not reported yet
	reports    map[string][]tracker.Report // by node, of those
	load       cluster.Load
	sampled    time.Duration // when load was measured
	beat       time.Duration // when the next regular heartbeats are due
	log        *eventLog
}

// Start makes a cluster. Close must be called to end it.
func Start(cfg Config) (*Cluster, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	cfg.Policy = cmp.Or(cfg.Policy, policies.Default)
	if cfg.Policies == nil {
		cfg.Policies = policies.Builtin()
	}
	more, err := cfg.limitTasks()
	if err != nil {
		return nil, err
	}
	policy, err := cfg.Policies.Build(cfg.Policy, sched.Options{Seed: cfg.Seed, Set: cfg.PolicySet, Live: true})
	if err != nil {
		return nil, err
	}
	if err := cfg.checkPolicy(cfg.Policy, policy); err != nil {
		return nil, err
	}
	// Scratch files of a process that was killed. Its lock is free, so they cannot be in use.
	if _, err := storage.SweepStale(cfg.TempDir); err != nil {
		return nil, err
	}
	scratch, err := storage.NewDirScratch(cfg.TempDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cluster{
		cfg: cfg, store: shuffle.NewStore(), scratch: scratch,
		ctx: ctx, cancel: cancel,
		inbox: make(chan func(), 64), stopped: make(chan struct{}), start: time.Now(),
		tracker:  tracker.New(cfg.tracker(), policy),
		jobs:     map[job.ID]*Handle{},
		attempts: map[job.AttemptID]*attempt{},
		ended:    map[job.AttemptID]*attempt{},
		reports:  map[string][]tracker.Report{},
		log:      newEventLog(cfg.Events),
	}
	c.env = memoryShares(cfg, more)
	c.env.Mem.KeepReleased()
	c.env.Schemes, c.env.Scratch, c.env.Codec = cfg.Schemes, scratch, cfg.Codec
	// Before the loop starts: until then this goroutine owns the tracker.
	for i := range cfg.Workers {
		name := fmt.Sprintf("worker%d", i+1)
		c.nodes = append(c.nodes, name)
		c.step(&tracker.Join{Node: cluster.Spec{Name: name, MapSlots: cfg.MapSlots, ReduceSlots: cfg.ReduceSlots, Cores: cfg.cores(), MemoryBytes: cfg.Memory / int64(cfg.Workers)}})
	}
	// Before the loop, so that an observer knows the cluster when the first job ends.
	if cfg.Observer != nil {
		cfg.Observer.Started(c)
	}
	go c.loop()
	files := policyfiles.New(c, nil, cfg.FairScheduler, cfg.CapacityScheduler, cfg.PolicySet, c.warn)
	// After the loop has started, because pools and queues reach the policy through it.
	if err := files.Load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if !files.Empty() {
		go files.Follow(cfg.Reload, c.stopped)
	}
	return c, nil
}

// tracker returns the tracker's part of the configuration. Workers are goroutines here,
// so none is ever lost.
func (cfg *Config) tracker() tracker.Config {
	tc := tracker.Config{NodeTimeout: -1, CommitOutput: true, OfferAtOnce: cfg.Heartbeat == 0, Seed: cfg.Seed}
	if cfg.Explain {
		tc.WaitEvery = cfg.Tick
	}
	return tc
}

// checkPolicy refuses a policy that learns from load if no load is measured, and one that chooses
// by forecasts, which this runner does not make. Both would do nothing, without a word.
func (cfg *Config) checkPolicy(name string, p sched.Policy) error {
	if _, ok := p.(sched.Chooser); ok {
		return fmt.Errorf("policy %s chooses by forecasts, which a master and slotwise sim make: run the jobs on a cluster, or name one of its candidates", name)
	}
	hooks := sched.HooksOf(p)
	if cfg.Load == nil && hooks.Limiter != nil && len(hooks.Observers) > 0 {
		return fmt.Errorf("policy %s learns from how busy the machine is, which this program does not measure: pass nodeload.Meter() of package mapreduce/nodeload in Options.Features", name)
	}
	return nil
}

func (cfg *Config) fill() error {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.Workers, runtime.NumCPU())
	def(&cfg.MapSlots, 1)
	def(&cfg.ReduceSlots, 1)
	if cfg.Workers < 0 || cfg.MapSlots < 0 || cfg.ReduceSlots < 0 {
		return errors.New("workers and slots must be positive")
	}
	// Each factor first, because the product of large ones overflows.
	if cfg.Workers > maxSlots || cfg.MapSlots > maxSlots || cfg.ReduceSlots > maxSlots ||
		cfg.Workers*(cfg.MapSlots+cfg.ReduceSlots) > maxSlots {
		return fmt.Errorf("%d workers of %d+%d slots are too many; the most slots in all are %d",
			cfg.Workers, cfg.MapSlots, cfg.ReduceSlots, maxSlots)
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory()
	}
	// The memory is shared out by slots, and no task can work with less than MinMemory.
	if least := int64(MinMemory * cfg.Workers * (cfg.MapSlots + cfg.ReduceSlots)); cfg.Memory < least {
		return fmt.Errorf("memory of %d bytes is too little for %d workers of %d+%d slots: the least is %d",
			cfg.Memory, cfg.Workers, cfg.MapSlots, cfg.ReduceSlots, least)
	}
	// The kernel would end the process in the middle of a job.
	if total, known := KnownMemory(); known && cfg.Memory > total {
		return fmt.Errorf("memory of %d bytes for tasks: this machine (or container) has %d", cfg.Memory, total)
	}
	if cfg.Reload == 0 {
		cfg.Reload = policyfiles.ReloadEvery
	}
	if cfg.Tick == 0 {
		cfg.Tick = 100 * time.Millisecond
	}
	if cfg.Heartbeat > 0 {
		cfg.Tick = min(cfg.Tick, cfg.Heartbeat) // ticks send heartbeats
	}
	return nil
}

// tasksPerSlot bounds the tasks of a kind that a worker runs, as a multiple of its
// slots, under a policy that decides their number itself: each needs memory.
const tasksPerSlot = 4

// limitTasks sets that limit, for a policy that has one to set, and returns how
// many tasks there may be for each slot.
func (cfg *Config) limitTasks() (int, error) {
	info, err := cfg.Policies.Describe(cfg.Policy)
	if err != nil {
		return 0, err
	}
	for _, part := range info.Parts {
		for _, p := range part.Params {
			if p.Name != "max-tasks" {
				continue
			}
			slots := max(cfg.MapSlots, cfg.ReduceSlots)
			// A user who sets the limit himself decides how the memory is divided.
			if given, err := strconv.Atoi(cfg.PolicySet[p.Name]); err == nil {
				return max(1, (given+slots-1)/slots), nil
			}
			// The map belongs to the caller.
			cfg.PolicySet = maps.Clone(cfg.PolicySet)
			if cfg.PolicySet == nil {
				cfg.PolicySet = map[string]string{}
			}
			cfg.PolicySet[p.Name] = strconv.Itoa(tasksPerSlot * slots)
			return tasksPerSlot, nil
		}
	}
	return 1, nil
}

// memoryShares divides the memory: most for map outputs that stay, a third for the buffers of
// running maps, the rest for merging run files. Each task that can run at once has its share, so
// that tasks do not wait for each other's memory.
func memoryShares(cfg Config, more int) engine.Env {
	m := cfg.Memory
	mapTasks := int64(cfg.Workers * cfg.MapSlots * more)
	reduceTasks := int64(cfg.Workers * cfg.ReduceSlots * more)
	return engine.Env{
		Mem:         mem.NewPool(m),
		Resident:    mem.NewPool(m * 60 / 100),
		MapBuffer:   m * 30 / 100 / mapTasks,
		MergeBuffer: m * 10 / 100 / reduceTasks,
	}
}

// loop runs posted functions and ticks until the cluster is closed and idle.
func (c *Cluster) loop() {
	defer close(c.stopped)
	tick := time.NewTicker(c.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case f := <-c.inbox:
			f()
		case <-tick.C:
			c.tick()
		case <-c.ctx.Done():
			// Jobs that are killed still remove their staged output, and attempts still hold scratch
			// files. The loop serves them to their end.
			if len(c.attempts) == 0 && len(c.jobs) == 0 {
				return
			}
			// In each turn, because a job may have been accepted after the last one.
			c.killAll()
			select {
			case f := <-c.inbox:
				f()
			case <-tick.C:
			}
		}
	}
}

// post has the loop run f, in the order of the calls. It reports false if the loop has ended. True
// does not mean that f will run: the loop may end before it takes f. It does not end while an
// attempt or a job lives, so their calls always run. Other callers use do.
func (c *Cluster) post(f func()) bool {
	select {
	case c.inbox <- f:
		return true
	// No goroutine of the cluster is left now that could read map outputs or scratch files.
	case <-c.stopped:
		return false
	}
}

// Inspect runs f in the loop, where it may read the tracker. It returns false if the cluster
// has ended.
func (c *Cluster) Inspect(f func(t *tracker.Tracker, now time.Duration)) bool {
	return c.do(func() error { f(c.tracker, c.Now()); return nil }) == nil
}

// Epoch is the time at which the cluster was started.
func (c *Cluster) Epoch() time.Time { return c.start }

// Installed returns the installed policy with its parameters, and the registry of policies.
func (c *Cluster) Installed() (name string, set map[string]string, known *sched.Registry) {
	c.Inspect(func(*tracker.Tracker, time.Duration) { name, set = c.cfg.Policy, c.cfg.PolicySet })
	return name, set, c.cfg.Policies
}

// Close kills running attempts, waits for their ends, and removes all temporary
// files.
func (c *Cluster) Close() error {
	c.cancel()
	<-c.stopped
	c.store.Close()
	c.env.Mem.DropKept()
	return errors.Join(c.scratch.Close(), c.log.flush())
}

// killAll ends every job that is not ending already.
func (c *Cluster) killAll() {
	for id, h := range c.jobs {
		if !h.killed {
			h.killed = true
			c.step(&tracker.KillJob{Job: id, Reason: "interrupted"})
		}
	}
}

// Now is the time since the cluster was started.
func (c *Cluster) Now() time.Duration { return time.Since(c.start) }

// step hands an event to the tracker, carries out the effects, and then offers all
// nodes to the tracker if it wants to assign work at once.
func (c *Cluster) step(ev tracker.Event) {
	c.apply(ev)
	c.offer()
}

// offer sends the Offer that is due, if there is one.
func (c *Cluster) offer() {
	// Config.OfferPause is 0 here, so whatever is due is due now.
	if _, due := c.tracker.OfferDue(); due {
		c.apply(&tracker.Offer{Nodes: c.nodes})
	}
}

func (c *Cluster) apply(ev tracker.Event) {
	now := c.Now()
	effects := c.tracker.Step(now, ev)
	c.log.write(now, ev, effects)
	// The slice is the tracker's until the next step, so carryOut must not lead to one.
	for _, e := range effects {
		c.carryOut(e)
	}
}

// carryOut carries out an effect. It never blocks and never steps the tracker: work that takes
// time gets a goroutine, which posts its end.
func (c *Cluster) carryOut(e tracker.Effect) {
	switch e.Kind {
	case tracker.Launch:
		c.launch(e)
	// The goroutine sees the cancelled context and reports the attempt's end itself; the
	// tracker ignores it for an attempt that it has killed.
	case tracker.Kill, tracker.CommitDenied:
		if a := c.attempts[e.Attempt]; a != nil {
			a.stop(&stopped{e.Text})
		}
	case tracker.CommitGranted:
		// The channel has room for the one answer, so the loop never blocks, even if the attempt
		// has been cancelled.
		if a := c.attempts[e.Attempt]; a != nil {
			a.granted <- nil
		}
	case tracker.MapDone:
		c.publish(e)
	// The store makes reduces that have not fetched this output wait for the new one.
	case tracker.MapLost:
		c.store.Invalidate(int32(e.Job), int(e.Attempt.Index))
	case tracker.JobAccepted:
		c.accepted(e.Job)
	case tracker.JobRejected:
		c.rejected = e.Text
	case tracker.CommitOutput, tracker.AbortOutput:
		h := c.jobs[e.Job]
		h.output = &e
		h.finishOutput(c)
	case tracker.JobDone:
		h := c.jobs[e.Job]
		if c.cfg.Observer != nil {
			c.cfg.Observer.Ended(c.tracker, h.core)
		}
		h.ended(c, e)
	}
}

// tick sends the heartbeats that are due, then a Tick, and reports progress.
func (c *Cluster) tick() {
	now := c.Now()
	c.sample(now)
	// The ticker may be more frequent than the heartbeats, for progress.
	if now >= c.beat {
		c.beat = now + cmp.Or(c.cfg.Heartbeat, c.cfg.Tick)
		for _, n := range c.nodes {
			c.beatNode(n, false)
		}
	}
	// After the heartbeats, so that a task which has just reported is not found silent.
	c.step(&tracker.Tick{})
	for _, h := range c.jobs {
		h.report()
	}
}

// beatNode sends a node's heartbeat: attempts that have ended and attempts that
// run, of each the oldest first. An early one, which does not wait for the node's
// interval, reports only; an offer to all nodes follows.
func (c *Cluster) beatNode(node string, early bool) {
	ended := c.reports[node]
	delete(c.reports, node)
	slices.SortFunc(ended, func(a, b tracker.Report) int { return cmp.Compare(c.ended[a.Attempt].seq, c.ended[b.Attempt].seq) })
	// Clipped, so that appending the running ones does not write into the slice that the loop
	// below walks over.
	reports := slices.Clip(ended)
	for _, a := range c.running(node) {
		reports = append(reports, tracker.Report{Attempt: a.id, State: job.AttemptRunning, Progress: a.meter.Fraction(), Ticks: a.meter.Ticks.Load(),
			BytesRead: a.meter.BytesRead.Load()})
	}
	c.apply(&tracker.Heartbeat{Node: node, Load: c.load, Reports: reports, NoWork: early, Early: early})
	// After the step, whose effects publish the map outputs of these attempts.
	for _, r := range ended {
		c.release(r.Attempt)
	}
}

// loadEvery is the interval between two measurements of the machine.
const loadEvery = 500 * time.Millisecond

// sample measures the machine, at most every loadEvery. Each worker reports its
// share of a resource without an upper limit.
func (c *Cluster) sample(now time.Duration) {
	if c.cfg.Load == nil || c.sampled > 0 && now < c.sampled+loadEvery {
		return
	}
	// All workers see one machine. Without the division each would report the whole load, and a policy
	// that adds up the nodes would see it as many times as there are workers.
	part := float64(c.cfg.cores()) / float64(runtime.NumCPU())
	c.load, c.sampled = c.cfg.Load(now), now
	c.load.LoadAverage *= part
	c.load.DiskRate *= part
	c.load.NetworkRate *= part
}

// cores returns a worker's share of the machine's cores, at least one.
func (cfg *Config) cores() int { return max(1, runtime.NumCPU()/cfg.Workers) }

// TempDir is a directory that is removed, with all it holds, when the cluster
// is closed, or by a later one if this process is killed.
func (c *Cluster) TempDir() string { return c.scratch.Dir() }

// MapSlots is the number of map slots of all workers.
func (c *Cluster) MapSlots() int { return c.cfg.Workers * c.cfg.MapSlots }

// ReduceSlots is the number of reduce slots of all workers.
func (c *Cluster) ReduceSlots() int { return c.cfg.Workers * c.cfg.ReduceSlots }

// Memory is the memory in bytes that all tasks together may use.
func (c *Cluster) Memory() int64 { return c.cfg.Memory }

// MapBuffer is the memory in bytes that one map may sort in.
func (c *Cluster) MapBuffer() int64 { return c.env.MapBuffer }
