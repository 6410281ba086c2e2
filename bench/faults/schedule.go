package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan is what happens in a run. It follows from a seed alone.
type plan struct {
	name    string
	seed    uint64
	mix     int
	workers int
	faults  []fault
}

// fault is one of a schedule.
type fault struct {
	kind   *kind
	at     time.Duration // from the beginning
	worker int           // whom it hits, if it hits a worker
	lasts  time.Duration
	amount uint64 // drawn anew for each fault, for what else there is to choose
}

// String tells of the fault in a line.
func (f fault) String() string {
	whom := ""
	if !f.kind.central {
		whom = fmt.Sprintf(" w%d", f.worker)
	}
	return fmt.Sprintf("%s%s at %.1fs for %.1fs", f.kind.name, whom, f.at.Seconds(), f.lasts.Seconds())
}

// between is the time between the submissions of a run's jobs.
const between = 400 * time.Millisecond

// nodeTimeout is when a silent worker is given up.
const nodeTimeout = 1500 * time.Millisecond

// firstFault and lastFault are the times between which faults begin: from the
// registration of workers to the last reduces of a run on an idle machine.
const (
	firstFault = 300 * time.Millisecond
	lastFault  = 6 * time.Second
)

// draw makes the plan of a seed.
func draw(seed uint64, disks bool) plan {
	r := rand.New(rand.NewPCG(seed, 0x51075))
	p := plan{name: fmt.Sprint("seed-", seed), seed: seed, mix: r.IntN(len(mixes)), workers: 3 + r.IntN(2)}
	able := slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool { return k.disk && !disks })
	for range 1 + r.IntN(5) {
		k := able[r.IntN(len(able))]
		f := fault{kind: k, at: firstFault + time.Duration(r.Int64N(int64(lastFault-firstFault))), worker: r.IntN(p.workers), amount: r.Uint64()}
		f.lasts = k.least
		if k.most > k.least {
			f.lasts += time.Duration(r.Int64N(int64(k.most - k.least)))
		}
		p.faults = append(p.faults, f)
	}
	slices.SortFunc(p.faults, func(a, b fault) int { return int(a.at - b.at) })
	return p
}

// hitLimit is for how long faults that need something to hit, a task or an
// output, wait for it to come.
const hitLimit = 3 * time.Second

// kind is a kind of fault.
type kind struct {
	name, what string
	// central ones hit the master or who submits; others a worker.
	central bool
	// disk says that it takes disks of the workers' own.
	disk bool
	// least and most bound how long it lasts, or waits for something to hit.
	least, most time.Duration
	// strike begins the fault and returns what ends it. It is false if there
	// was nothing to hit. Only one fault at a time hits the same process.
	strike func(c *cluster, f fault) (heal func() error, hit bool, err error)
	// excuses are texts by one of which a job's failure is explained; "" is any.
	excuses []string
	// forgets says that the master may forget what it has told: that a job was
	// accepted, whose staged output is left then, or that it has succeeded, whose
	// output is in place then although the job fails when it runs again.
	forgets bool
}

// masterAway is what who submits says after it has tried for three seconds to
// reach a master before planning.
var masterAway = []string{"cannot be reached"}

// kinds are all kinds of faults.
var kinds = []*kind{
	{name: "worker-kill", what: "SIGKILL to a worker, which is started again in its directory", most: 4 * time.Second, strike: killWorker},
	{name: "worker-lost", what: "SIGKILL to a worker, which is started again with an empty directory", most: 4 * time.Second, strike: loseWorker},
	{name: "worker-freeze", what: "SIGSTOP to a worker, SIGCONT after it was given up", least: 2 * time.Second, most: 4 * time.Second, strike: freezeWorker},
	{name: "machine-freeze", what: "SIGSTOP to a worker and all its tasks, SIGCONT after it was given up", least: 2 * time.Second, most: 4 * time.Second, strike: freezeMachine},
	{name: "worker-drain", what: "SIGTERM to a worker, which is started again when it has left", most: 2 * time.Second, strike: drainWorker},
	{name: "task-kill", what: "SIGKILL to a task's process", least: hitLimit, strike: killTask},
	{name: "disk-full", what: "a worker's disk runs full", disk: true, least: time.Second, most: 4 * time.Second, strike: fillDisk, excuses: []string{"no space left on device"}},
	{name: "output-flip", what: "a bit of a finished map's output is turned over", least: hitLimit, strike: flipOutput},
	{name: "output-short", what: "a finished map's output is truncated", least: hitLimit, strike: truncateOutput},
	{name: "output-gone", what: "a finished map's output is removed", least: hitLimit, strike: removeOutput},
	{name: "shuffle-cut", what: "nobody reaches a worker's map outputs, connections are reset", least: 500 * time.Millisecond, most: 4 * time.Second, strike: onLink(serving, (*link).cut)},
	{name: "shuffle-hold", what: "a worker's map outputs stop coming, connections stay", least: 500 * time.Millisecond, most: 4 * time.Second, strike: onLink(serving, (*link).hold)},
	{name: "shuffle-slow", what: "each piece of a worker's map outputs is delayed", least: time.Second, most: 4 * time.Second, strike: onLink(serving, slowly)},
	{name: "rpc-cut", what: "a worker and the master cannot reach each other, connections are reset", least: 500 * time.Millisecond, most: 4 * time.Second, strike: onLink(calling, (*link).cut)},
	{name: "rpc-hold", what: "nothing passes between a worker and the master, connections stay", least: 500 * time.Millisecond, most: 4 * time.Second, strike: onLink(calling, (*link).hold)},
	{name: "rpc-slow", what: "each message between a worker and the master is delayed", least: time.Second, most: 4 * time.Second, strike: onLink(calling, slowly)},
	{name: "reset", what: "all connections of all processes are reset once", central: true, strike: resetAll},
	{name: "client-cut", what: "who submits cannot reach the master", central: true, least: 500 * time.Millisecond, most: 2 * time.Second, strike: onLink(submitting, (*link).cut), excuses: masterAway},
	{name: "master-kill", what: "SIGKILL to the master, which is started again", central: true, most: 3 * time.Second, strike: killMaster, excuses: masterAway},
	{name: "master-stop", what: "SIGTERM to the master, which is started again when it has ended", central: true, most: time.Second, strike: stopMaster, excuses: masterAway},
	{name: "master-freeze", what: "SIGSTOP to the master, SIGCONT later", central: true, least: 500 * time.Millisecond, most: 3 * time.Second, strike: freezeMaster, excuses: masterAway},
	{name: "journal-torn", what: "SIGKILL to the master, a batch that was not written whole at the end of its journal", central: true, most: time.Second, strike: tearJournal, excuses: masterAway},
	{name: "journal-cut", what: "SIGKILL to the master, bytes that were durable are missing at the end of its journal", central: true, most: time.Second, strike: cutJournal, excuses: []string{""}, forgets: true},
}
