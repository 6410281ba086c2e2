package master

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/replica"
	"github.com/slotwise/slotwise/internal/live/policyfiles"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// Config describes a master. Every field but Dir has a default.
type Config struct {
	// Peers are the addresses of all masters of the cluster, and Self is this one's. Without
	// peers both are empty. DialPeer returns the URL of another master and a client for calls
	// to it.
	Peers []string
	// Bootstrap permits the first start of a master with peers, which makes its journal. Otherwise a
	// missing journal is an error: a master that has forgotten its votes and the jobs that it
	// acknowledged could elect a leader without them.
	Bootstrap bool
	// Join permits the first start of a master that is added to a running group. Its journal begins
	// empty, and it does not vote before it has received the others' journal. Peers are the first
	// members, which give the group its name.
	Join     bool
	Self     string
	DialPeer func(address string) (url string, client *http.Client, err error)
	// Election is as in replica.Config. Default replica.DefaultElection.
	Election time.Duration

	Dir       string            // holds the journal, files and history; no other master may use it
	Policy    string            // a name or composition; default policies.Default
	PolicySet map[string]string // its parameters, by name
	Policies  *sched.Registry   // where policies are looked up; default the built-in ones
	Seed      uint64            // of the policy's random numbers
	Schemes   *storage.Schemes  // storage of jobs' output; default local files
	// FairScheduler and CapacityScheduler name Hadoop's files of pools and of
	// queues. The master reads them when it starts and when they change, for which
	// it looks at them every Reload (default policyfiles.ReloadEvery).
	FairScheduler, CapacityScheduler string
	Reload                           time.Duration
	// NodeTimeout is the silence after which a worker is given up. Default 1
	// minute. If it is shorter than a few heartbeats, healthy workers are given up.
	// The workers of a restarted master have as long to register again. A master that was stopped itself gives them
	// half of this time (Master.tick).
	NodeTimeout time.Duration
	// Heartbeat is the longest silence that the master wants between heartbeats of a
	// worker. By default it grows with the number of workers, from half a second on.
	Heartbeat time.Duration
	// Grace limits the time for which the end of a job waits until workers confirm
	// that killed attempts have ended. Only then is the output committed or aborted.
	// Default 10 seconds.
	// It is shorter than NodeTimeout, so a worker that hangs holds the output up for Grace and not until it is
	// given up.
	Grace time.Duration
	// PublishPatience limits the time after a job's success during which the master
	// retries to commit the output if the storage fails. After that the job fails.
	// Default 24 hours. RemovePatience is the limit for removing the staged output of a
	// job that did not succeed. If it is exceeded, the staged files stay until another
	// job uses the same output directory. Default 10 minutes.
	PublishPatience, RemovePatience time.Duration
	// GraylistFaults is as in tracker.Config. Default
	// tracker.DefaultGraylistFaults; negative is never.
	GraylistFaults int
	// StorageRetry is as in tracker.Config.
	StorageRetry time.Duration
	// KeepEnded is the number of ended jobs that stay in memory with their tasks. Default
	// tracker.DefaultKeepEnded.
	KeepEnded int
	// Rack returns the rack of a host, "" for the default rack. It is called for
	// workers that do not name their rack, on any goroutine, and may block.
	Rack func(host string) string
	// Authenticates says that a guard in front of the master authenticates its clients. The
	// master then signs its requests to workers, so that workers can authenticate it.
	Authenticates bool
	// WorkerHTTP makes requests for logs to workers, with the scheme WorkerScheme. It
	// follows no redirects. Default is plain HTTP.
	WorkerHTTP   *http.Client
	WorkerScheme string
	// SnapshotBytes is the length that the journal's log must have before a snapshot
	// replaces it. Default 64 MiB.
	SnapshotBytes int64
	History       history.Limits
	Access        secure.Rules // permissions of users and groups
	// StorageRoots are URIs of directories. Jobs of users may name only files below them;
	// {user} is replaced by the job's user. Admins are not confined. Without roots, a
	// master that authenticates its clients lets only admins' jobs name files, and a
	// master without authentication lets all jobs name files. See package roots.
	StorageRoots []string
	// OwnFiles are local files and directories of the master, besides Dir, that no job may
	// name: keys, tokens, rules.
	OwnFiles []string
	Limits   Limits
	Version  string // of this program
	// Console makes the pages of a source, and a function that follows the cluster until ctx
	// ends. With nil the master serves no pages.
	Console func(ctx context.Context, s source.Source, a source.Actor) (pages http.Handler, follow func())
	Log     *slog.Logger // default: nothing is logged

	journalFS durable.FS           // set by tests
	clock     func() time.Duration // of the lease; as newClock, unless a test sets it
	lateLook  time.Duration        // as in removeStaged; a minute, unless a test sets it
	exchange  int                  // bytes of one message between masters; maxExchange, unless a test sets it
	refresh   time.Duration        // as in keepFresh; a third of freshFor, unless a test sets it
	slack     time.Duration        // added to the time limits of what-if questions; 0, unless a test sets it
}

// Limits bound memory and connections, so that overload rejects requests instead of
// killing the master. A message names the limit that was reached. The defaults are the
// constants of package bounds.
type Limits struct {
	Inbox        int   // requests that wait for the loop
	Jobs         int   // jobs that have not ended
	JobTasks     int   // tasks of one job
	Tasks        int   // tasks of all jobs that have not ended
	Specs        int   // bytes of the descriptions of jobs and chains that have not ended
	Nodes        int   // workers
	Waiting      int   // requests of users that wait for a change
	File         int64 // bytes of one uploaded file
	Files        int64 // bytes of all uploaded files
	Message      int   // bytes of one message
	SlotsPerNode int   // slots of one worker, of each kind
}

// fill sets defaults.
func (l *Limits) fill() {
	l.Inbox = cmp.Or(l.Inbox, bounds.Inbox)
	l.Jobs = cmp.Or(l.Jobs, bounds.Jobs)
	l.JobTasks = cmp.Or(l.JobTasks, bounds.JobTasks)
	l.Tasks = cmp.Or(l.Tasks, bounds.Tasks)
	l.Specs = cmp.Or(l.Specs, bounds.Specs)
	l.Nodes = cmp.Or(l.Nodes, bounds.Nodes)
	l.Waiting = cmp.Or(l.Waiting, bounds.Waiting)
	l.File = cmp.Or(l.File, bounds.File)
	l.Files = cmp.Or(l.Files, bounds.Files)
	l.Message = cmp.Or(l.Message, bounds.Message)
	l.SlotsPerNode = cmp.Or(l.SlotsPerNode, bounds.Slots)
}

// fill sets defaults.
func (cfg *Config) fill() {
	// 0 and "" are defaults throughout, so a field cannot be set to 0. Where a user may want none, a negative
	// number says so.
	cfg.Policy = cmp.Or(cfg.Policy, policies.Default)
	if cfg.Policies == nil {
		cfg.Policies = policies.Builtin()
	}
	cfg.Election = cmp.Or(cfg.Election, replica.DefaultElection)
	cfg.exchange = cmp.Or(cfg.exchange, maxExchange)
	cfg.refresh = cmp.Or(cfg.refresh, freshFor/3)
	if cfg.clock == nil {
		cfg.clock = newClock()
	}
	cfg.lateLook = cmp.Or(cfg.lateLook, time.Minute)
	if cfg.DialPeer == nil {
		cfg.DialPeer = func(address string) (string, *http.Client, error) {
			return "http://" + address, secure.Client(nil, ""), nil
		}
	}
	cfg.Reload = cmp.Or(cfg.Reload, policyfiles.ReloadEvery)
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.PublishPatience = cmp.Or(cfg.PublishPatience, 24*time.Hour)
	cfg.RemovePatience = cmp.Or(cfg.RemovePatience, 10*time.Minute)
	cfg.GraylistFaults = cmp.Or(cfg.GraylistFaults, tracker.DefaultGraylistFaults)
	cfg.KeepEnded = cmp.Or(cfg.KeepEnded, tracker.DefaultKeepEnded)
	// A copy, because the caller may use the client elsewhere.
	workers := *cmp.Or(cfg.WorkerHTTP, secure.Client(nil, ""))
	workers.CheckRedirect = refuseRedirect
	cfg.WorkerHTTP = &workers
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

// configured returns the configured policy with its parameters as one line.
func (cfg *Config) configured() string {
	words := []string{cfg.Policy}
	// Sorted, because the line is compared with the one in the journal: another order would look like a new
	// configuration, and the policy that a user has installed would be dropped.
	for _, k := range slices.Sorted(maps.Keys(cfg.PolicySet)) {
		words = append(words, k+"="+cfg.PolicySet[k])
	}
	return strings.Join(words, " ")
}
