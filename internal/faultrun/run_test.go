package faultrun

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/storage/faultfs"
)

var (
	seeds = flag.Uint64("seeds", 400, "how many clusters to play")
	first = flag.Uint64("first", 1, "the first seed")
	seed  = flag.Uint64("seed", 0, "play this one alone and, with -v, print what happens")
)

const (
	second      = time.Second
	trouble     = 150 * second // how long things go wrong
	patience    = 3600 * second
	nodeTimeout = 30 * second
)

// TestClusters plays clusters until one breaks a promise, whose seed it prints.
func TestClusters(t *testing.T) {
	if *seed > 0 {
		r := play(*seed, testing.Verbose())
		if t.Logf("%+v", r.did); r.broken != "" {
			t.Fatal(r.broken)
		}
		return
	}
	var next atomic.Uint64
	var mu sync.Mutex
	var sum counts
	var group sync.WaitGroup
	next.Store(*first)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for s := next.Add(1) - 1; s < *first+*seeds && !t.Failed(); s = next.Add(1) - 1 {
				r := play(s, false)
				if r.broken != "" {
					t.Errorf("%s\n%s\nto play it again: go test ./internal/faultrun -v -seed %d", r.broken, strings.Join(r.tail, "\n"), s)
				}
				mu.Lock()
				sum.add(&r.did)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("%d clusters: %+v", *seeds, sum)
	if !t.Failed() && *seeds >= 100 {
		sum.check(t)
	}
}

// counts are what happened, to see that enough did.
type counts struct {
	Events, Launches, Copies, Restarts, Torn, Full, Crashes, Freezes, Zombies, Lost, Commits, Succeeded, Failed, Killed, Snapshots int
}

func (c *counts) add(o *counts) {
	for i, p := range c.all() {
		*p += *o.all()[i]
	}
}

func (c *counts) all() []*int {
	return []*int{&c.Events, &c.Launches, &c.Copies, &c.Restarts, &c.Torn, &c.Full, &c.Crashes, &c.Freezes, &c.Zombies, &c.Lost,
		&c.Commits, &c.Succeeded, &c.Failed, &c.Killed, &c.Snapshots}
}

// check fails if something never happened that the test is there for.
func (c *counts) check(t *testing.T) {
	for _, p := range c.all() {
		if *p == 0 {
			t.Errorf("something never happened: %+v", *c)
			return
		}
	}
}

// run is one cluster.
type run struct {
	rng     *rand.Rand
	now     time.Duration
	queue   events
	seq     int
	disk    *faultfs.Disk
	records []any // what the records of the journal mean, by number
	master  *master
	workers []*worker
	clients []*client
	storage *storage
	calm    bool
	did     counts
	print   bool
	tail    []string
	broken  string

	// What really happened to attempts, to check what is said of them.
	specs   map[job.ID]job.Spec
	started map[job.AttemptID]bool
	done    map[job.TaskID]success
	refused map[job.AttemptID]bool // outputs that somebody could not fetch
}

// success is a finished task whose worker knows that the master knows.
type success struct {
	attempt job.AttemptID
	worker  *worker
	life    int
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push adds an event.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop removes the last one.
func (q *events) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// play plays one cluster to its end.
func play(seed uint64, print bool) *run {
	r := &run{rng: rand.New(rand.NewPCG(seed, 6)), disk: faultfs.NewDisk(), print: print, specs: map[job.ID]job.Spec{}, started: map[job.AttemptID]bool{},
		done: map[job.TaskID]success{}, refused: map[job.AttemptID]bool{}}
	r.storage = &storage{r: r, parts: map[job.TaskID]job.AttemptID{}, verdicts: map[job.ID]job.State{}}
	r.startMaster()
	for i := range 2 + r.rng.IntN(3) {
		w := newWorker(r, fmt.Sprint("w", i))
		r.workers = append(r.workers, w)
		w.start(nil)
	}
	for i := range 1 + r.rng.IntN(5) {
		c := &client{r: r, request: i, maps: r.rng.IntN(6), reduces: r.rng.IntN(3), tries: 1 + r.rng.IntN(6)}
		r.clients = append(r.clients, c)
		r.after(r.upTo(60*second), c.submit)
	}
	r.misfortune()
	r.after(trouble, r.recover)
	for r.broken == "" && len(r.queue) > 0 && !r.over() {
		e := heap.Pop(&r.queue).(event)
		r.now = e.at
		r.did.Events++
		e.do()
	}
	return r
}

func (r *run) after(d time.Duration, do func()) {
	r.seq++
	heap.Push(&r.queue, event{r.now + d, r.seq, do})
}

func (r *run) upTo(d time.Duration) time.Duration { return time.Duration(r.rng.Int64N(int64(d))) }

func (r *run) chance(percent int) bool { return r.rng.IntN(100) < percent }

func (r *run) logf(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", r.now.Seconds()) + fmt.Sprintf(format, args...)
	if r.print {
		fmt.Println(line)
	}
	if r.tail = append(r.tail, line); len(r.tail) > 400 {
		r.tail = append(r.tail[:0], r.tail[200:]...)
	}
}

// breaks notes that a promise was broken.
func (r *run) breaks(format string, args ...any) {
	if r.broken == "" {
		r.broken = fmt.Sprintf("at %v: ", r.now) + fmt.Sprintf(format, args...)
		r.logf("BROKEN: %s", r.broken)
	}
}

// send delivers a message: late, and in trouble never, or twice if that may be.
func (r *run) send(twice bool, deliver func()) {
	delay := func() time.Duration {
		if !r.calm && r.chance(5) {
			return r.upTo(8 * second)
		}
		return time.Millisecond + r.upTo(30*time.Millisecond)
	}
	if !r.calm && r.chance(4) {
		return
	}
	r.after(delay(), deliver)
	if twice && !r.calm && r.chance(4) {
		r.after(delay(), deliver)
	}
}

// misfortune strikes now and then, until things are calm.
func (r *run) misfortune() {
	if r.calm {
		return
	}
	r.after(r.upTo(6*second), r.misfortune)
	w := r.workers[r.rng.IntN(len(r.workers))]
	switch r.rng.IntN(12) {
	case 0, 1:
		w.crash()
	case 2, 3:
		w.freeze()
	case 4:
		if r.master != nil {
			r.master.die("is killed")
		}
	case 5, 6:
		r.disk.StopAfter(r.rng.IntN(12))
	case 7:
		r.disk.Limit(r.size() + r.rng.Int64N(600))
		r.after(r.upTo(10*second), func() { r.disk.Limit(-1) })
		r.did.Full++
	case 8:
		r.admin(w)
	}
}

// size is how many bytes the disk holds.
func (r *run) size() (size int64) {
	for _, name := range r.disk.Names() {
		size += int64(len(r.disk.Bytes(name)))
	}
	return size
}

// recover ends the trouble.
func (r *run) recover() {
	r.logf("calm")
	r.calm = true
	r.disk.Limit(-1)
	r.disk.StopAfter(1 << 30)
	for i, w := range r.workers {
		if i > 1 && r.chance(40) {
			w.crash()
			w.gone = true
			continue
		}
		w.thaw()
		if !w.up {
			w.start(w.disk)
		}
	}
	if r.master != nil && r.chance(50) {
		r.master.die("is killed") // with nodes that will not come back
	}
	r.undrain()
	r.after(patience, func() { r.breaks("still not over: %s", r.state()) })
	r.look()
}

// look checks now and then whether all is over, and waits a little for the rest to
// be cleared away.
func (r *run) look() {
	for _, c := range r.clients {
		if c.verdict == 0 {
			r.after(second, r.look)
			return
		}
	}
	r.after(20*second, r.checkEnd)
}

// over reports whether the end was checked.
func (r *run) over() bool { return r.calm && r.master != nil && r.master.finished }

// state says what is left to do.
func (r *run) state() string {
	if r.master == nil {
		return "no master"
	}
	var b strings.Builder
	for _, j := range r.master.tracker.Jobs().Live() {
		fmt.Fprintf(&b, "%v %v %+v; ", j.ID(), j.State(), j.Tally())
	}
	for _, c := range r.clients {
		fmt.Fprintf(&b, "client %d %v %v; ", c.request, c.job, c.verdict)
	}
	return b.String()
}

// checkEnd checks what must hold once all jobs have ended.
func (r *run) checkEnd() {
	m := r.master
	if m == nil {
		r.after(second, r.checkEnd)
		return
	}
	for _, w := range r.workers {
		for _, a := range w.inOrder() {
			r.breaks("%v still runs on %s", a.id, w.name)
		}
		if w.up && len(w.outputs) > 0 {
			r.breaks("%s still holds %v", w.name, w.outputs)
		}
	}
	for _, j := range m.tracker.Jobs().Live() {
		r.breaks("%v was never submitted by a client that waits, and lives", j.ID())
	}
	for _, c := range r.clients {
		c.check()
	}
	m.finished = true
}
