package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/live/worker"
)

// workerFlags are the flags of worker. worker.Config describes the meaning of zero values. Sizes
// are apart from cfg, because a flag parses units into a terminal.Size.
type workerFlags struct {
	clusterFlags
	logFlags
	cfg        worker.Config
	memory     terminal.Size
	taskMemory terminal.Size
	minFree    terminal.Size
	cacheSize  terminal.Size
	logSize    terminal.Size
}

// newWorker returns the command that runs a worker. Of its directory, listener and slots the
// defaults suit a worker on the master's machine; another machine needs --listen or --advertise
// with an address of the network, and then certificates.
func newWorker() *cobra.Command {
	f := new(workerFlags)
	c := &cobra.Command{
		Use:   "worker --dir DIR",
		Short: "Run a master's tasks on this machine",
		Long: `Runs the tasks of a master, each attempt in a separate process, and serves map
outputs to reduces. While the master is down, running attempts continue. The worker
then registers again with its attempts and map outputs.

SIGTERM drains the worker: it accepts no new work, lets running attempts finish
within --drain-timeout (then returns their tasks to the master), and serves map
outputs until they are no longer needed or --serve-timeout has passed. A second
SIGTERM, or an interrupt, ends the worker and its attempts at once.

With less than --min-free on the disk of --dir the worker accepts no new work until
space is available again.` + masterNote,
		Example: `  slotwise worker --master 10.0.0.1:7077 --dir /var/lib/slotwise
  slotwise worker --master localhost:7077 --dir w1 --map-slots 4 --reduce-slots 2 --memory 12GiB --cpus 6`,
		Args: noArgs,
	}
	s := c.Flags()
	s.SortFlags = false
	f.clusterFlags.register(c)
	s.StringVar(&f.cfg.Dir, "dir", "", "the worker's `directory` for map outputs, logs and caches; a restarted worker reuses it (required)")
	s.StringVar(&f.cfg.Name, "name", "", "permanent `name` of the worker (default: a random one, stored in --dir)")
	s.StringVar(&f.cfg.Listen, "listen", "127.0.0.1:0", "`address` of its HTTP server: map outputs, logs, health, metrics")
	s.StringVar(&f.cfg.Advertise, "advertise", "", "`address` at which others reach it, host or host:port (default: determined automatically)")
	s.StringVar(&f.cfg.Tokens, "tokens", "", "`file` with the tokens of clients that may read the worker's metrics; see slotwise token")
	s.StringVar(&f.cfg.Host, "host", "", "the machine's `name` in the storage system (default: the host name)")
	s.StringVar(&f.cfg.Rack, "rack", "", "`name` of the machine's rack (default: from the master's topology)")
	// 0 is the default of Config, so "none" is -1.
	s.IntVar(&f.cfg.MapSlots, "map-slots", 0, "`number` of map slots; -1 for none (default: one for each processor, of a container its limit)")
	s.IntVar(&f.cfg.ReduceSlots, "reduce-slots", 0, "`number` of reduce slots; -1 for none (default: half as many)")
	s.IntVar(&f.cfg.Drivers, "drivers", 0, "`number` of drivers of chains that run at once, beside the slots; -1 for none (default 4)")
	s.Var(&f.memory, "memory", "memory for the processes of all tasks; each slot has an equal share (default: RAM less a tenth, at least 512MiB)")
	s.IntVar(&f.cfg.CPUs, "cpus", 0, "`number` of processors for all tasks; each slot has an equal share (default: all)")
	s.Var(&f.taskMemory, "task-memory", "limit for a task whose job asks for no memory (default: a slot's share and 256MiB, at least 1GiB, at most 7/8 of RAM)")
	s.StringVar(&f.cfg.RunAs, "run-as", "", "owner runs each task as the user of its job; needs a worker that runs as root (`user`, default: the worker's)")
	s.IntVar(&f.cfg.RunAsMinUID, "run-as-min-uid", 0, "least `uid` of the users that tasks may run as (default 1000)")
	// Not all by default: an uploaded program may keep state from one task to the next without knowing
	// it.
	s.StringVar(&f.cfg.Reuse, "reuse", "own", "`whose` processes run several tasks, one after the other: own (built-in apps and streaming), all (uploaded programs, too), off")
	// Only new work is refused, since running attempts may need the rest.
	s.Var(&f.minFree, "min-free", "free space on the disk below which the worker accepts no new work (default 256MiB)")
	s.Var(&f.cacheSize, "cache-size", "size of the cache of jobs' executables and files (default 2GiB)")
	s.Var(&f.logSize, "log-size", "size of the log kept for an attempt (default 4MiB)")
	s.DurationVar(&f.cfg.DrainTimeout, "drain-timeout", 5*time.Minute, "for how `long` attempts may run after SIGTERM")
	s.DurationVar(&f.cfg.ServeTimeout, "serve-timeout", 30*time.Minute, "for how `long` needed map outputs are served after that")
	f.logFlags.register(c)
	addSettings(c, func(c *cobra.Command, _ []string) error { return f.run(c) })
	return c
}

// run runs the worker until it is drained or interrupted. SIGTERM drains it; a
// second SIGTERM or an interrupt ends it at once.
//
// systemd, Kubernetes and the NodeManager of YARN end a service with SIGTERM, and kill it when
// their own time has passed, so that must be longer than --drain-timeout and --serve-timeout
// together. A person at a terminal sends SIGINT and does not want to wait for half an hour.
func (f *workerFlags) run(c *cobra.Command) error {
	if f.cfg.Dir == "" {
		return misuse("--dir is missing: the worker's own directory")
	}
	cfg := f.cfg
	var err error
	if cfg.Master, cfg.HTTP, err = f.dial(f.master); err != nil {
		return err
	}
	cfg.TLS = f.files
	cfg.Memory, cfg.TaskMemory = int64(f.memory), int64(f.taskMemory)
	cfg.MinFree, cfg.CacheSize, cfg.LogSize = int64(f.minFree), int64(f.cacheSize), int64(f.logSize)
	// Not the default of run, a quarter of RAM: a worker has the machine for itself.
	if cfg.Memory == 0 {
		cfg.Memory = local.WorkerMemory()
	}
	if err := checkKnownMemory(f.memory); err != nil {
		return err
	}
	cfg.Usable = local.UsableMemory()
	// Files that no attempt may name as an input: with the worker's token a job could act as the
	// worker.
	cfg.Version, cfg.OwnFiles, cfg.Cgroups = version(), []string{f.tokenFile, f.cfg.Tokens}, true
	if cfg.Log, err = f.logger(c.ErrOrStderr()); err != nil {
		return err
	}
	// An attempt's process may leave children behind. As their adopter the worker finds and
	// ends them.
	if err := proctree.Adopt(); err == nil {
		cfg.Adopted = true
	} else {
		cfg.Log.Warn("what tasks leave running may stay: orphans are not adopted", "err", err)
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // the handler of other commands ends them
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	// The signals are caught before, because one that comes during the start must drain the worker and
	// not kill it.
	w, err := worker.Start(cfg)
	if err != nil {
		return misuseError{err}
	}
	cfg.Log.Info("worker is up", "worker", w.Name(), "address", w.Address(), "listens", w.Listens(), "pid", os.Getpid())
	// Not cancelled by the first signal, because that one drains the worker.
	ctx, stop := context.WithCancelCause(context.WithoutCancel(c.Context()))
	defer stop(nil)
	supervised(ctx, cfg.Log, func(context.Context) error {
		w.Draining() // takes the lock of the worker's state
		return nil
	})
	go func() {
		for s := range signals {
			// The operator does not want to wait for the drain.
			if s != syscall.SIGTERM || w.Draining() {
				stop(errors.New("a second signal: ending at once"))
			}
			w.Drain()
		}
	}()
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("worker %s: %w", w.Name(), err)
	}
	return nil
}
