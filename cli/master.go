package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/data/storage/roots"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/machines"
	"github.com/slotwise/slotwise/internal/live/machines/kubernetes"
	"github.com/slotwise/slotwise/internal/live/machines/yarn"
	"github.com/slotwise/slotwise/internal/live/master"
	"github.com/slotwise/slotwise/internal/live/pages"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// masterFlags are the flags of master. master.Config describes their effects. Where 0 has another
// meaning on the command line than in Config (no history logs, no retries, no ended jobs), config
// translates it.
type masterFlags struct {
	policyFlags
	logFlags
	serverFlags
	dir, listen, addressFile string
	peers, advertise         string
	bootstrap, join          bool
	topology                 string
	// 0 leaves the heartbeat to the master, which makes it longer with more workers.
	nodeTimeout, heartbeat time.Duration
	storageRetry           time.Duration
	keepEnded              int
	poolACL                []string
	accounts               []string
	access                 string
	// Without one, a master that authenticates lets only jobs of admins name files.
	storageRoots             []string
	maxFile, maxFiles        terminal.Size
	snapshotSize             terminal.Size
	historySize, historyLogs terminal.Size
	historyAge               time.Duration
	autoscale, deployment    string
	yarnService              string
}

// newMaster returns the command that runs a master. Defaults of numbers that a flag of another type
// holds are set here; the others are written at their flags. run and submit wait --storage-retry for a
// storage before a job starts; here the same time bounds failures of its tasks.
func newMaster(setup *setup) *cobra.Command {
	f := &masterFlags{policyFlags: policyFlags{setup: setup}, maxFile: 1 << 30, maxFiles: 20 << 30, snapshotSize: 64 << 20, historySize: history.DefaultBytes, historyLogs: history.DefaultLogs}
	c := &cobra.Command{
		Use:   "master --dir DIR",
		Short: "Run the master of a cluster",
		Long: `Runs the master of a cluster. It accepts jobs from slotwise submit, assigns their
tasks to workers (slotwise worker), and commits their output. It keeps a journal in
DIR; a master that is restarted there continues with all jobs.

Each flag can also be given as a variable (SLOTWISE_NODE_TIMEOUT for
--node-timeout) or in the file of --config.`,
		Example: `  slotwise master --dir /var/lib/slotwise
  slotwise master --dir m --listen 127.0.0.1:7077 --policy fair`,
		Args: noArgs,
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.dir, "dir", "", "`directory` for the journal and other files of the master (required)")
	s.StringVar(&f.listen, "listen", defaultMaster, "`address` to serve at")
	s.StringVar(&f.addressFile, "address-file", "", "write the address served at to this `file`, for --listen with port 0")
	s.StringVar(&f.peers, "peers", "", "`addresses` of all masters of the cluster, 3 or 5, such as a:7077,b:7077,c:7077; see --advertise")
	s.BoolVar(&f.bootstrap, "bootstrap", false, "with --peers: the first start of a new cluster; without it a master whose directory is empty does not start")
	s.BoolVar(&f.join, "join", false, "with --peers: a master that is added to a running cluster (slotwise masters add); --peers are the cluster's first masters")
	s.StringVar(&f.advertise, "advertise", "", "the `address` at which the other masters, workers and commands reach this master; one of --peers, unless it joins")
	f.policyFlags.register(c)
	s.DurationVar(&f.nodeTimeout, "node-timeout", time.Minute, "a worker that is silent for this `time` is lost")
	s.DurationVar(&f.storageRetry, "storage-retry", tracker.DefaultStorageRetry, "`time` for which failures because of the storage do not count against a task")
	s.DurationVar(&f.heartbeat, "heartbeat", 0, "`time` between heartbeats of a worker (default: depends on their number)")
	s.IntVar(&f.keepEnded, "keep-ended", 100, "`number` of ended jobs that slotwise jobs --all lists")
	s.StringVar(&f.topology, "topology", "", "`file` of lines \"host rack\", or a script that prints the rack of its argument")
	f.serverFlags.register(c)
	s.StringVar(&f.access, "access", "", "`file` with the rules of who may use and manage which pools")
	s.StringArrayVar(&f.accounts, "service-account", nil, "accept the tokens of this Kubernetes service account, `NAMESPACE:NAME`, as a user (repeatable; NAME * is all of the namespace)")
	s.StringArrayVar(&f.poolACL, "pool-acl", nil, "who may use a pool, `pool=user:@group:...` (repeatable), in place of the rule in --access")
	s.StringArrayVar(&f.storageRoots, "storage-root", nil, "`URI` of a directory that users' jobs may read and write below (repeatable; {user} is the user's name)")
	s.Var(&f.maxFile, "max-file", "largest file that a job may ship")
	s.Var(&f.maxFiles, "max-files", "space for all shipped files")
	s.Var(&f.snapshotSize, "snapshot-size", "least size of the journal's log that a snapshot replaces")
	s.Var(&f.historySize, "history-size", "space for the history; the jobs that ended first are removed beyond it")
	s.DurationVar(&f.historyAge, "history-age", 0, "`time` after which an ended job is removed from the history, such as 2160h (default: none)")
	s.Var(&f.historyLogs, "history-logs", "space for the ends of attempts' logs, which are shown when their worker is gone; 0 keeps none")
	s.StringVar(&f.autoscale, "autoscale", "", "scale the workers of --worker-deployment or --yarn-service with the work: `settings` such as min=1,max=20,start-up=30s,cool-down=1m,hold=10m")
	s.StringVar(&f.deployment, "worker-deployment", "", "`name` of the Deployment of the workers, in the Kubernetes namespace in which the master runs")
	s.StringVar(&f.yarnService, "yarn-service", "", "`name` of the YARN service of the workers, whose racks are YARN's unless --topology is given; see slotwise yarn up")
	f.logFlags.register(c)
	addSettings(c, func(c *cobra.Command, _ []string) error { return f.run(c.Context(), c.ErrOrStderr()) })
	// They take no connection and no settings: they work on the directory, also while no master runs.
	c.AddCommand(newBackup(), newRestore())
	return c
}

// serviceAccounts returns the verifier of service accounts' tokens, nil if none is accepted. The
// master asks Kubernetes about each token, so it must run in the cluster that issued them.
func (f *masterFlags) serviceAccounts(log *slog.Logger) (*kubernetes.Accounts, error) {
	if len(f.accounts) == 0 {
		return nil, nil
	}
	if f.files.Cert == "" || f.files.CA == "" {
		return nil, misuse("--service-account needs --tls-ca, --tls-cert and --tls-key: a token must not travel without encryption, and workers need certificates")
	}
	allowed, err := parseAccounts(f.accounts)
	if err != nil {
		return nil, err
	}
	a, err := kubernetes.OpenAccounts(allowed, log)
	if err != nil {
		return nil, misuse("--service-account: %w", err)
	}
	return a, nil
}

// parseAccounts parses the values of --service-account.
func parseAccounts(list []string) (allowed []kubernetes.Account, err error) {
	for _, s := range list {
		a, err := kubernetes.ParseAccount(s)
		if err != nil {
			return nil, misuse("--service-account %w", err)
		}
		allowed = append(allowed, a)
	}
	return allowed, nil
}

// run serves until ctx ends or the master stops because its journal cannot be written. What can
// fail by a wrong flag comes first, then the listener, then the journal, and the address file last.
// Two masters on one directory cannot run: master.Open locks it.
//
// On the way down the loop that scales the workers ends first, since it calls the master, then the
// master, which fails the calls that it holds, then the server. A second interrupt during that
// skips it, and costs nothing but the answers: the journal is as complete as after a crash, and the
// next master replays it.
func (f *masterFlags) run(ctx context.Context, stderr io.Writer) error {
	cfg, err := f.config(stderr)
	if err != nil {
		return err
	}
	loop, err := f.scaling(cfg.Log)
	if err != nil {
		return err
	}
	accounts, err := f.serviceAccounts(cfg.Log)
	if err != nil {
		return err
	}
	// The listener comes before the master: an address that is in use must not cost a restore
	// of the journal, and clients wait in the listener's queue instead of failing meanwhile.
	l, guard, err := f.serve(f.listen, cfg.Log)
	if err != nil {
		return err
	}
	if accounts != nil {
		guard.Account = accounts.Identify
	}
	m, err := master.Open(cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("--dir %s: %w", f.dir, err), l.Close())
	}
	// Before the server starts: requests must not reach a guard that does not know drivers
	// yet.
	guard.Driver = m.IdentifyDriver
	guard.Browser = secure.NewBrowser(source.Root)
	guard.Public = append(append(guard.Public, "/leader"), source.Public...)
	srv := secure.NewServer(m.Handler(), guard)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	cfg.Log.Info("master is up", "address", l.Addr().String(), "dir", f.dir, "console", f.consoleURL(l.Addr()))
	// After the server has started, because scripts connect as soon as the file is there.
	if err := f.writeAddress(l.Addr().String()); err != nil {
		return errors.Join(err, stopServing(srv, m))
	}
	// Ready for systemd only now: the journal is restored, which may take minutes, and units that wait
	// for this one can connect.
	alive, end := context.WithCancel(ctx)
	defer end()
	supervised(alive, cfg.Log, m.Alive)
	stopScaling := func() {}
	if loop != nil {
		loop.Cluster, loop.Seen = m, m.SetFleet
		scaling, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			loop.Run(scaling)
		}()
		stopScaling = func() {
			stop()
			<-ended
		}
	}
	var failed error
	select {
	// The listener has failed under a running server. Without it the master is of no use.
	case failed = <-served:
	case <-m.Done(): // by itself: its journal cannot be written, or it was removed
	case <-ctx.Done():
		cfg.Log.Info("master stops", "why", context.Cause(ctx))
	}
	stopScaling() // the loop calls the master, so it ends first
	err = stopServing(srv, m)
	// As with etcd, no failure: a service manager would start it again and again.
	if errors.Is(err, master.ErrRemoved) {
		err = nil
	}
	return errors.Join(failed, err)
}

// consoleURL returns the address of the console's pages.
func (f *masterFlags) consoleURL(at net.Addr) string {
	scheme := "http://"
	if f.files.Given() {
		scheme = "https://"
	}
	return scheme + at.String() + source.Root
}

// scaling returns the loop that scales the workers, without its cluster. It returns nil
// if the workers are not to be scaled.
func (f *masterFlags) scaling(log *slog.Logger) (*machines.Loop, error) {
	flag := "worker-deployment"
	if f.yarnService != "" {
		flag = "yarn-service"
	}
	switch {
	case f.autoscale == "" && f.deployment == "" && f.yarnService == "":
		return nil, nil
	case f.deployment != "" && f.yarnService != "":
		return nil, misuse("--worker-deployment and --yarn-service exclude each other")
	// One flag without the other would leave the workers unscaled, silently.
	case f.autoscale == "":
		return nil, misuse("--%s needs --autoscale, such as min=1,max=20", flag)
	case f.deployment == "" && f.yarnService == "":
		return nil, misuse("--autoscale needs --worker-deployment, the Deployment whose pods are the workers, or --yarn-service, the YARN service of the workers")
	case f.yarnService != "" && yarn.CheckName(f.yarnService) != nil:
		return nil, misuse("--yarn-service: %w", yarn.CheckName(f.yarnService))
	case f.deployment != "" && !objectName().MatchString(f.deployment):
		return nil, misuse("--worker-deployment %q: not the name of a Kubernetes object (small letters, digits and hyphens)", f.deployment)
	}
	cfg, err := autoscale.Parse(f.autoscale)
	if err != nil {
		return nil, misuse("--autoscale: %w", err)
	}
	scaler, err := autoscale.New(cfg)
	if err != nil {
		return nil, misuse("--autoscale: %w", err)
	}
	loop := &machines.Loop{Scaler: scaler, Log: log}
	if f.deployment != "" {
		loop.Provider, err = kubernetes.InCluster(f.deployment)
	} else {
		loop.Provider, err = yarnService(f.yarnService)
	}
	if err != nil {
		return nil, misuse("--%s: %w", flag, err)
	}
	return loop, nil
}

// stopServing closes the master first, so that pending requests get answers, and then its server.
// Close fails the requests that the master holds, such as waits for a job, and two
// seconds are enough to write these answers. Shutdown alone would wait for the jobs.
func stopServing(srv *http.Server, m *master.Master) error {
	err := m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
	return err
}

// writeAddress writes the address to the file of --address-file, atomically: a script that waits
// for the file reads it as soon as it exists. A file of an earlier master is replaced.
func (f *masterFlags) writeAddress(address string) error {
	if f.addressFile == "" {
		return nil
	}
	if err := writeFile(f.addressFile, 0o666, true, durable.Bytes(address+"\n")); err != nil {
		return misuse("--address-file: %w", err)
	}
	return nil
}

// maxStorageRetry is the longest --storage-retry. A task may occupy a slot again and
// again for that long.
const maxStorageRetry = 7 * 24 * time.Hour

// config checks the flags and returns the configuration of the master. It opens files of rules and
// policies and changes nothing, so a wrong flag leaves the directory unchanged.
func (f *masterFlags) config(stderr io.Writer) (master.Config, error) {
	var none master.Config
	log, err := f.logger(stderr)
	if err != nil {
		return none, err
	}
	switch {
	case f.dir == "":
		return none, misuse("--dir is missing: the directory of the master's own files")
	case f.nodeTimeout <= 0:
		return none, misuse("--node-timeout %v: must be positive", f.nodeTimeout)
	case f.heartbeat < 0:
		return none, misuse("--heartbeat %v: must not be negative", f.heartbeat)
	case f.storageRetry < 0 || f.storageRetry > maxStorageRetry:
		return none, misuse("--storage-retry %v: must be from 0 to %v", f.storageRetry, maxStorageRetry)
	case f.keepEnded < 0:
		return none, misuse("--keep-ended %d: must not be negative", f.keepEnded)
	// A snapshot after every few records would keep the disk busy with snapshots alone; tests use the
	// least size.
	case f.snapshotSize < 1<<10 || f.snapshotSize > 1<<40:
		return none, misuse("--snapshot-size %v: must be between 1KiB and 1TiB", f.snapshotSize)
	// Less is not room for one job of many tasks, which would be removed at once.
	case f.historySize < 1<<20 || f.historySize > 1<<40:
		return none, misuse("--history-size %v: must be between 1MiB and 1TiB", f.historySize)
	case f.historyLogs < 0 || f.historyLogs > 1<<40:
		return none, misuse("--history-logs %v: must be from 0 to 1TiB", f.historyLogs)
	case f.historyAge < 0:
		return none, misuse("--history-age %v: must not be negative", f.historyAge)
	}
	set, err := f.policySettings()
	if err != nil {
		return none, err
	}
	if err := f.checkPolicy(set); err != nil {
		return none, err
	}
	// Who gives both files will switch between policies that use them. One file that the policy does
	// not use is a mistake.
	var later []string
	if f.fairScheduler != "" && f.capacityFile != "" {
		later = []string{"fair", "capacity"}
	}
	if err := f.checkHadoopFiles(later); err != nil {
		return none, err
	}
	rules, err := f.rules()
	if err != nil {
		return none, err
	}
	cfg := master.Config{
		Schemes: storages(),
		Dir:     f.dir, Policy: f.policy, PolicySet: set, Policies: f.setup.policies(), Seed: f.seed, NodeTimeout: f.nodeTimeout, Heartbeat: f.heartbeat,
		Console: func(ctx context.Context, s source.Source, a source.Actor) (http.Handler, func()) {
			shown := console.New(ctx, s, a, pages.Visitor, version())
			shown.Simulator = consoleSimulator{f.setup, s, a}
			return shown, shown.Follow
		},
		FairScheduler: f.fairScheduler, CapacityScheduler: f.capacityFile, KeepEnded: f.keepEnded, Version: version(), Log: log, Access: rules,
		Authenticates: f.files.CA != "" || f.tokens != "",
		// Jobs must not read the master's secrets, even below a storage root.
		StorageRoots: f.storageRoots, OwnFiles: []string{
			f.tokens, f.access, f.files.Cert, f.files.Key, f.files.CA, f.topology, f.fairScheduler, f.capacityFile,
		},
		Limits:        master.Limits{File: int64(f.maxFile), Files: int64(f.maxFiles)},
		SnapshotBytes: int64(f.snapshotSize),
		History:       history.Limits{Bytes: int64(f.historySize), Age: f.historyAge, Logs: int64(f.historyLogs)},
	}
	// 0 is "none" on the command line and "the default" in Config.
	if f.historyLogs == 0 {
		cfg.History.Logs = -1
	}
	// The master checks the roots again. Here the error can name the flag.
	if _, err := roots.New(cfg.Schemes, f.storageRoots, nil); err != nil {
		return none, misuse("--storage-root: %w", err)
	}
	if cfg.WorkerHTTP, cfg.WorkerScheme, err = f.workers(); err != nil {
		return none, err
	}
	if cfg.StorageRetry = f.storageRetry; f.storageRetry == 0 {
		cfg.StorageRetry = -1
	}
	if f.keepEnded == 0 {
		cfg.KeepEnded = -1
	}
	if err := f.group(&cfg); err != nil {
		return none, err
	}
	cfg.Rack, err = f.racks(log)
	return cfg, err
}

// group sets the masters of the cluster. All masters must be started with the same --peers: the
// list is the first configuration of raft, and masters with different lists could elect two
// leaders.
func (f *masterFlags) group(cfg *master.Config) error {
	if f.peers == "" {
		if f.advertise != "" || f.join || f.bootstrap {
			return misuse("--advertise, --bootstrap and --join need --peers, the addresses of all masters")
		}
		return nil
	}
	seen := map[string]bool{}
	for a := range strings.SplitSeq(f.peers, ",") {
		switch err := master.CheckAddress(a); {
		case err != nil:
			return misuse("--peers %s: %w", f.peers, err)
		case seen[a]:
			return misuse("--peers %s: %s occurs twice", f.peers, a)
		}
		seen[a] = true
		cfg.Peers = append(cfg.Peers, a)
	}
	switch {
	// An even number survives no more failures than one less.
	case len(cfg.Peers) != 3 && len(cfg.Peers) != 5:
		return misuse("--peers %s: name 3 or 5 masters", f.peers)
	case f.bootstrap && f.join:
		return misuse("--bootstrap and --join exclude each other: a master begins a new cluster or joins one")
	// A master that was added later is not in --peers. It needs --join at its first start only: with the
	// flag a lost journal would go unnoticed.
	case !seen[f.advertise] && !f.join && (f.bootstrap || !master.HasJournal(f.dir)):
		return misuse("--advertise %q: set it to this master's address in --peers %s", f.advertise, f.peers)
	case !f.bootstrap && master.CheckAddress(f.advertise) != nil:
		return misuse("--advertise: %w", master.CheckAddress(f.advertise))
	// There are no tokens for masters, and a client that may send entries of the journal decides about all
	// jobs.
	case f.tokens != "" && f.files.CA == "":
		return misuse("--peers with --tokens needs --tls-ca, --tls-cert and --tls-key: masters identify themselves to each other by certificates")
	}
	cfg.Self, cfg.Bootstrap, cfg.Join = f.advertise, f.bootstrap, f.join
	cfg.DialPeer = func(address string) (string, *http.Client, error) { return secure.Dial(address, f.files, "") }
	return nil
}

// racks opens the topology, which is YARN's for workers on YARN unless another one is given.
// It returns nil if there is none.
func (f *masterFlags) racks(log *slog.Logger) (func(host string) string, error) {
	if f.topology == "" && f.autoscale != "" && f.yarnService != "" && f.deployment == "" {
		// YARN's nodes mostly are HDFS's DataNodes, and one script names the racks of both.
		s, err := yarnService(f.yarnService)
		if err != nil {
			return nil, misuse("--yarn-service: %w", err)
		}
		r := &yarnRacks{nodes: s.Racks, log: log}
		return r.rack, nil
	}
	if f.topology == "" {
		return nil, nil
	}
	t, err := machines.OpenTopology(f.topology)
	if err != nil {
		return nil, misuse("--topology %s: %w", f.topology, reason(err))
	}
	return func(host string) string {
		// A host without a rack gets work all the same: it is near no data.
		rack, err := t.Rack(host)
		if err != nil {
			log.Warn("topology", "host", host, "error", err)
		}
		return rack
	}, nil
}

// rules reads who may use which pools. A pool of --pool-acl keeps the managers that the file of
// --access names; only who may submit is replaced.
func (f *masterFlags) rules() (secure.Rules, error) {
	var r secure.Rules
	if f.access != "" {
		var err error
		if r, err = secure.LoadRules(f.access); err != nil {
			return r, misuse("--access: %w", err)
		}
	}
	pools, err := parseAssignments("pool-acl", f.poolACL)
	if err != nil {
		return r, err
	}
	if r.Pools == nil {
		r.Pools = map[string]secure.Pool{}
	}
	for pool, who := range pools {
		p := r.Pools[pool]
		// A colon, because commas part the values of a variable.
		p.Submit = strings.Split(who, ":")
		r.Pools[pool] = p
	}
	return r, nil
}

// logFlags configure the log of a long-running process.
type logFlags struct{ logFormat, logLevel string }

// The values of logFlags.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// register declares the flags.
func (f *logFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.logFormat, "log-format", "text", "`format` of the log on standard error: text or json")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "least `level` of what is logged: debug, info, warn or error")
	completeWords(c, "log-format", logFormats)
	completeWords(c, "log-level", logLevels)
}

// logger returns the log, which writes to w, the escaped standard error: names of jobs and errors
// of workers are parts of its lines.
func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	// Both mistakes at once.
	if err := errors.Join(oneOf("log-format", f.logFormat, logFormats), oneOf("log-level", f.logLevel, logLevels)); err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, misuse("--log-level: %w", err)
	}
	o := &slog.HandlerOptions{Level: level}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
