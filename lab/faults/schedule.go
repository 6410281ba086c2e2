package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan determines a run. It depends on the seed and on what the machine permits.
type plan struct {
	name       string
	seed       uint64 // 0 for a run without faults
	mix        int    // index into mixes
	workers    int    // number of workers
	storage    string // localStorage, s3Storage or hdfsStorage
	security   string // openDoors, tokens or certificates
	namespaces bool   // each worker runs in a separate network namespace
	snapshots  bool   // the master makes a snapshot whenever its journal has grown by a little
	owners     bool   // the workers run tasks as the jobs' user
	faults     []fault
}

// String describes what a seed draws beside the faults.
func (p plan) String() string {
	s := strings.Join(mixes[p.mix], ",") + " on " + p.storage + ", " + p.security
	if p.namespaces {
		s += ", namespaces"
	}
	if p.snapshots {
		s += ", snapshots"
	}
	if p.owners {
		s += ", as user"
	}
	return s
}

// base names the runs that a run's duration is compared with.
func (p plan) base() string { return fmt.Sprint(p.mix, " ", p.storage) }

// fault is one fault of a plan.
type fault struct {
	kind   *kind
	at     time.Duration // since the first submission
	worker int           // index of the target, unless the kind is central
	lasts  time.Duration
	amount uint64 // a random number for the other choices of the fault, such as the task to kill
}

// String describes the fault in one line.
func (f fault) String() string {
	target := ""
	if !f.kind.central {
		target = fmt.Sprintf(" w%d", f.worker)
	}
	return fmt.Sprintf("%s%s at %.1fs for %.1fs", f.kind.name, target, f.at.Seconds(), f.lasts.Seconds())
}

// between is the time between the submissions of a run's jobs.
const between = 400 * time.Millisecond

// nodeTimeout is the silence after which the master expires a worker.
const nodeTimeout = 1500 * time.Millisecond

// Faults begin between firstFault and lastFault. On an idle machine that is the time
// from the registration of the workers to the last reduces.
const (
	firstFault = 300 * time.Millisecond
	lastFault  = 3500 * time.Millisecond
)

// storages returns the storages that a machine permits, in the order of draws.
func (m machine) storages() []string {
	all := []string{localStorage}
	if m.s3 {
		all = append(all, s3Storage)
	}
	if m.hdfs {
		all = append(all, hdfsStorage)
	}
	return all
}

// storageDraws has each storage as often as its weight in draws. Runs on HDFS take
// three times as long as runs on local files.
var storageDraws = []string{localStorage, localStorage, localStorage, localStorage, s3Storage, s3Storage, s3Storage, hdfsStorage, hdfsStorage}

// draw returns the plan of a seed. It leaves out what the machine does not permit.
func draw(seed uint64, m machine) plan {
	r := rand.New(rand.NewPCG(seed, 0x51075))
	p := plan{name: fmt.Sprint("seed-", seed), seed: seed, mix: r.IntN(len(mixes)), workers: 3 + r.IntN(2)}
	weighted := slices.DeleteFunc(slices.Clone(storageDraws), func(s string) bool { return !slices.Contains(m.storages(), s) })
	p.storage = weighted[r.IntN(len(weighted))]
	p.security, p.snapshots = securities[r.IntN(len(securities))], r.IntN(2) == 0
	// S3 and HDFS listen on loopback, which namespaces do not share. A worker that listens
	// elsewhere requires TLS.
	p.namespaces = m.namespaces && p.storage == localStorage && p.security != openDoors && r.IntN(2) == 0
	possible, special := p.possible(m)
	for i := range 1 + r.IntN(5) {
		k := possible[r.IntN(len(possible))]
		if i == 0 && len(special) > 0 && r.IntN(2) == 0 {
			k = special[r.IntN(len(special))]
		}
		f := fault{kind: k, at: firstFault + time.Duration(r.Int64N(int64(lastFault-firstFault))), worker: r.IntN(p.workers), amount: r.Uint64()}
		f.lasts = k.least
		if k.most > k.least {
			f.lasts += time.Duration(r.Int64N(int64(k.most - k.least)))
		}
		p.faults = append(p.faults, f)
	}
	slices.SortFunc(p.faults, func(a, b fault) int { return int(a.at - b.at) })
	// The last draw, so that the seeds of earlier versions keep their faults. The account has
	// no credentials for S3 and no directory in HDFS.
	p.owners = m.owners && p.storage == localStorage && p.security != openDoors && r.IntN(2) == 0
	return p
}

// possible returns the kinds of faults that a run can have. The special ones need its
// storage or its namespaces.
func (p plan) possible(m machine) (all, special []*kind) {
	for _, k := range kinds {
		if k.disk && !m.disks || k.storage != "" && k.storage != p.storage || k.namespace && !p.namespaces || k.netem && !m.netem {
			continue
		}
		all = append(all, k)
		if k.storage != "" || k.namespace {
			special = append(special, k)
		}
	}
	return all, special
}

// hitLimit is the longest time that a fault waits for a target, such as a task or a
// map output.
const hitLimit = 3 * time.Second

// kind is a kind of fault.
type kind struct {
	name, what string
	// central kinds affect the master or the client; the others affect a worker.
	central bool
	// storage is the storage that the fault affects; "" if it affects a process.
	storage string
	// namespace kinds need workers with network namespaces, and netem kinds the packet
	// scheduler netem, too.
	namespace, netem bool
	// disk kinds need workers with mounted disks.
	disk bool
	// least and most bound the duration of the fault, or its wait for a target.
	least, most time.Duration
	// inject begins the fault and returns a function that undoes it, or nil. hit is
	// false if there was no target. The target's lock is held from here until undo
	// has returned.
	inject func(c *cluster, f fault) (undo func() error, hit bool, err error)
	// causes are texts of error messages. The fault explains the failure of a job
	// whose message contains a cause; "" explains every failure.
	causes []string
	// losesRecords kinds remove durable journal records. The master may then not
	// know a job that it has accepted, and the job's staged output stays. Or it runs
	// a job again that has succeeded; the job then fails because its output exists.
	losesRecords bool
}

// masterUnreachable is the error of a client that could not reach the master for
// three seconds before planning a job.
var masterUnreachable = []string{"cannot be reached"}

// unmade is the error of a job one of whose uploads the S3 server was completing when it
// was killed: versitygw 1.8.0 then confirms the object and never makes it.
var unmade = []string{"confirmed the object but does not have it"}

// kinds are all kinds of faults in the order of the report.
var kinds = []*kind{
	{name: "worker-kill", what: "SIGKILL to a worker, which is started again in its directory", most: 4 * time.Second, inject: killWorker},
	{name: "worker-lost", what: "SIGKILL to a worker, which is started again with an empty directory", most: 4 * time.Second, inject: loseWorker},
	{name: "worker-freeze", what: "SIGSTOP to a worker, SIGCONT after it has expired", least: 2 * time.Second, most: 4 * time.Second, inject: freezeWorker},
	{name: "machine-freeze", what: "SIGSTOP to a worker and all its tasks, SIGCONT after it has expired", least: 2 * time.Second, most: 4 * time.Second, inject: freezeMachine},
	{name: "worker-drain", what: "SIGTERM to a worker, which is started again when it has drained and ended", most: 2 * time.Second, inject: drainWorker},
	{name: "task-kill", what: "SIGKILL to a task's process", least: hitLimit, inject: killTask},
	{name: "disk-full", what: "a worker's disk runs full", disk: true, least: time.Second, most: 4 * time.Second, inject: fillDisk, causes: []string{"no space left on device"}},
	{name: "output-flip", what: "one bit of a finished map's output is inverted", least: hitLimit, inject: flipOutput},
	{name: "output-short", what: "a finished map's output is truncated", least: hitLimit, inject: truncateOutput},
	{name: "output-gone", what: "a finished map's output is removed", least: hitLimit, inject: removeOutput},
	{name: "shuffle-cut", what: "connections to a worker's map outputs are reset", least: 500 * time.Millisecond, most: 4 * time.Second, inject: onLink(serving, (*link).cut)},
	{name: "shuffle-hold", what: "a worker's map outputs stop arriving, connections stay open", least: 500 * time.Millisecond, most: 4 * time.Second, inject: onLink(serving, (*link).hold)},
	{name: "shuffle-slow", what: "each piece of a worker's map outputs is delayed by 150 ms", least: time.Second, most: 4 * time.Second, inject: onLink(serving, slowly)},
	{name: "rpc-cut", what: "connections between a worker and the master are reset", least: 500 * time.Millisecond, most: 4 * time.Second, inject: onLink(calling, (*link).cut)},
	{name: "rpc-hold", what: "no data passes between a worker and the master, connections stay open", least: 500 * time.Millisecond, most: 4 * time.Second, inject: onLink(calling, (*link).hold)},
	{name: "rpc-slow", what: "each message between a worker and the master is delayed by 150 ms", least: time.Second, most: 4 * time.Second, inject: onLink(calling, slowly)},
	{name: "reset", what: "all connections of all processes are reset once", central: true, inject: resetAll},
	{name: "client-cut", what: "the client cannot reach the master", central: true, least: 500 * time.Millisecond, most: 2 * time.Second, inject: onLink(submitting, (*link).cut), causes: masterUnreachable},
	{name: "master-kill", what: "SIGKILL to the master, which is started again", central: true, most: 3 * time.Second, inject: killMaster, causes: masterUnreachable},
	{name: "master-stop", what: "SIGTERM to the master, which is started again when it has ended", central: true, most: time.Second, inject: stopMaster, causes: masterUnreachable},
	{name: "master-freeze", what: "SIGSTOP to the master, SIGCONT later", central: true, least: 500 * time.Millisecond, most: 3 * time.Second, inject: freezeMaster, causes: masterUnreachable},
	{name: "journal-torn", what: "SIGKILL to the master, an incomplete batch at the end of its journal", central: true, most: time.Second, inject: tearJournal, causes: masterUnreachable},
	{name: "journal-cut", what: "SIGKILL to the master, durable bytes are missing at the end of its journal", central: true, most: time.Second, inject: cutJournal, causes: []string{""}, losesRecords: true},
	{name: "rpc-lossy", what: "a fifth of the data between a worker and the master arrive 200 ms late, as with lost packets", least: time.Second, most: 4 * time.Second, inject: onLink(calling, (*link).lose)},
	{name: "shuffle-lossy", what: "a fifth of the data of a worker's map outputs arrive 200 ms late, as with lost packets", least: time.Second, most: 4 * time.Second, inject: onLink(serving, (*link).lose)},
	{name: "net-down", what: "all packets from and to a worker vanish, connections become half-open", namespace: true, least: 500 * time.Millisecond, most: 4 * time.Second, inject: cutCable},
	{name: "net-mute", what: "all packets that a worker sends vanish, the others arrive", namespace: true, least: 500 * time.Millisecond, most: 4 * time.Second, inject: muteWorker},
	{name: "net-lossy", what: "a tenth of the packets that a worker sends vanish, the others are delayed by 20 to 60 ms (netem)", namespace: true, netem: true, least: time.Second, most: 4 * time.Second, inject: loseAtRandom},
	{name: "worker-dir-gone", what: "an empty directory hides a worker's directory, which returns later", least: 500 * time.Millisecond, most: 3 * time.Second, inject: replaceWorkerDir},
	{name: "master-dir-gone", what: "the master's directory is moved away; the master must exit, and is started again when the directory is back", central: true, most: time.Second, inject: moveMasterDir, causes: append([]string{"the file could not be stored", "upload it first"}, masterUnreachable...)},
	{name: "s3-kill", what: "SIGKILL to the S3 server, which is started again with its objects", central: true, storage: s3Storage, most: 3 * time.Second, inject: killS3, causes: unmade},
	{name: "s3-freeze", what: "SIGSTOP to the S3 server, SIGCONT later", central: true, storage: s3Storage, least: 500 * time.Millisecond, most: 4 * time.Second, inject: freezeS3},
	{name: "s3-errors", what: "three of ten S3 requests get status 500 or 503", central: true, storage: s3Storage, least: time.Second, most: 4 * time.Second, inject: onS3(failS3)},
	{name: "s3-reset", what: "three of ten S3 requests end with a reset, before or after the server carries them out", central: true, storage: s3Storage, least: time.Second, most: 4 * time.Second, inject: onS3(resetS3)},
	{name: "s3-slow", what: "each S3 request is delayed by 400 ms", central: true, storage: s3Storage, least: time.Second, most: 4 * time.Second, inject: onS3(slowS3)},
	{name: "datanode-kill", what: "SIGKILL to a DataNode, which is started again with its blocks", central: true, storage: hdfsStorage, least: time.Second, most: 6 * time.Second, inject: killDataNode},
	{name: "datanode-freeze", what: "SIGSTOP to a DataNode, SIGCONT later", central: true, storage: hdfsStorage, least: time.Second, most: 6 * time.Second, inject: freezeDataNode},
}
