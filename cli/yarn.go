package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/live/machines"
	"github.com/slotwise/slotwise/internal/live/machines/yarn"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// newYarn returns the command that runs workers on YARN. Its commands call YARN's REST API and
// HDFS; a Hadoop installation is needed for neither.
func newYarn() *cobra.Command {
	c := &cobra.Command{
		Use:   "yarn",
		Short: "Run the workers of a cluster on Hadoop's YARN",
		Long: `Starts, scales and removes workers in containers of YARN, for a master that runs
already. The addresses of YARN and HDFS come from core-site.xml, hdfs-site.xml and
yarn-site.xml in HADOOP_CONF_DIR. HADOOP_USER_NAME is the user to act as (default: you).

The way from a Hadoop cluster to a result:
` + docsURL + `yarn.md`,
		Example: `  slotwise yarn up
  slotwise yarn status
  slotwise yarn down`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newYarnUp(), newYarnScale(), newYarnStatus(), newYarnDown())
	return c
}

// yarnFlags select a service.
type yarnFlags struct{ name string }

// register declares the flags.
func (f *yarnFlags) register(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.name, "name", "slotwise", "`name` of the YARN service; its workers are NAME-0, NAME-1, …")
}

// service returns the service. It makes no call yet.
func (f *yarnFlags) service() (*yarn.Service, error) {
	if err := yarn.CheckName(f.name); err != nil {
		return nil, misuse("--name: %w", err)
	}
	s, err := yarnService(f.name)
	if err != nil {
		return nil, misuseError{err}
	}
	return s, nil
}

// yarnService returns the service with a name. It makes no call yet.
func yarnService(name string) (*yarn.Service, error) {
	c, err := yarn.Open(storages())
	if err != nil {
		return nil, err
	}
	return c.Service(name), nil
}

// yarnRacks answers with the racks that YARN reports for its nodes. It may be used by several
// goroutines; while one goroutine asks YARN the others wait, since they need the same answer.
type yarnRacks struct {
	nodes func(context.Context) (map[string]string, error)
	log   *slog.Logger

	mu    sync.Mutex
	racks map[string]string
	asked time.Time
}

// rackLimit is the time limit of one call for racks, rackInterval the least time between two calls.
const (
	rackLimit    = 5 * time.Second
	rackInterval = 10 * time.Second
)

// rack returns the rack of a host, or "" if it is unknown. For a new host it asks YARN.
func (r *yarnRacks) rack(host string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Also after an error or for a host that YARN does not know, at most one call in ten seconds: a
	// master asks for each worker that registers.
	if _, known := r.racks[host]; !known && time.Since(r.asked) >= rackInterval {
		r.asked = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), rackLimit)
		defer cancel()
		racks, err := r.nodes(ctx)
		if err != nil {
			r.log.Warn("racks of YARN", "host", host, "error", err)
			return ""
		}
		r.racks = racks
	}
	return r.racks[host]
}

// yarnUp are the flags of yarn up. slots is 0 for as many as vcores. The service of YARN has one
// component with workers containers, all alike.
type yarnUp struct {
	yarnFlags
	workers, slots, cpu int
	memory              terminal.Size
	queue, binary       string
	files               []string
	cert, key, token    string // of workers
	timeout             time.Duration
}

// newYarnUp returns the command that starts workers. Flags of the connection have two meanings
// here: newUserCommand's identify this user to the master, and the workers get --worker-cert,
// --worker-key and --worker-token-file.
func newYarnUp() *cobra.Command {
	f := &yarnUp{memory: 2 << 30}
	c := &cobra.Command{
		Use:   "up --master ADDRESS",
		Short: "Start workers on YARN",
		Long: `Uploads this program to HDFS, starts workers as a YARN service, and waits until all
have joined the master. YARN replaces workers that die. The nodes of YARN must be able to
reach the address of --master, and workers need certificates (slotwise certs).

The files of --file are in the working directory of each worker. Certificates, keys and
tokens of workers are files that only you and the workers can read; they appear in no
command line.`,
		Example: `  slotwise yarn up --workers 4 --worker-cert certs/worker.pem --worker-key certs/worker-key.pem
  slotwise yarn up --name night --queue batch --cpu 2 --memory 4GiB --worker-cert certs/worker.pem --worker-key certs/worker-key.pem`,
		Args: noArgs,
	}
	f.register(c)
	s := c.Flags()
	s.IntVar(&f.workers, "workers", 2, "`number` of workers")
	s.IntVar(&f.slots, "slots", 0, "`number` of map slots of a worker, with half as many reduce slots (default: --cpu)")
	s.IntVar(&f.cpu, "cpu", 1, "`number` of vcores of a worker")
	s.Var(&f.memory, "memory", "memory of a worker; a tenth, at least 512MiB, is for the worker itself, the rest for its tasks")
	s.StringVar(&f.queue, "queue", "default", "`name` of the YARN queue")
	// The nodes may have another operating system or processor than this machine.
	s.StringVar(&f.binary, "binary", "", "slotwise for the nodes, a Linux `program` (default: this program)")
	s.StringArrayVar(&f.files, "file", nil, "`file` to put into the working directory of each worker (repeatable)")
	s.StringVar(&f.cert, "worker-cert", "", "`file` with the certificate of the workers; its authority is that of --tls-ca")
	s.StringVar(&f.key, "worker-key", "", "`file` with the key of that certificate")
	s.StringVar(&f.token, "worker-token-file", "", "`file` with the token of the workers")
	// Pulling the program and waiting for the queue take minutes on a busy cluster.
	s.DurationVar(&f.timeout, "timeout", 5*time.Minute, "`time` to wait for the workers")
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error { return f.run(ctx, u) })
	return c
}

// maxYarnFiles bounds the files of --file.
const maxYarnFiles = 100

// check checks the flags. YARN would accept most wrong values and start containers that fail, each
// with a log on another machine.
func (f *yarnUp) check() error {
	switch {
	case f.workers < 1 || f.workers > yarn.MaxWorkers:
		return misuse("--workers %d: must be from 1 to %d", f.workers, yarn.MaxWorkers)
	case f.slots < 0 || f.slots > maxPodSlots:
		return misuse("--slots %d: must be from 0 to %d", f.slots, maxPodSlots)
	case f.cpu < 1 || f.cpu > maxPodSlots:
		return misuse("--cpu %d: must be from 1 to %d", f.cpu, maxPodSlots)
	case f.memory < 256<<20 || f.memory > 1<<44:
		return misuse("--memory %v: must be from 256MiB to 16TiB", f.memory)
	case f.queue == "" || len(f.queue) > 256:
		return misuse("--queue %q: want the name of a YARN queue", f.queue)
	case len(f.files) > maxYarnFiles:
		return misuse("--file: %d files; at most %d are possible, put them into an archive", len(f.files), maxYarnFiles)
	case (f.cert == "") != (f.key == ""):
		return misuse("--worker-cert and --worker-key belong together")
	case f.timeout <= 0:
		return misuse("--timeout %v: must be positive", f.timeout)
	case f.binary == "" && runtime.GOOS != "linux":
		return misuse("--binary is missing: the nodes need slotwise for Linux, and this program is for %s", runtime.GOOS)
	}
	return nil
}

// run starts the workers. All that can fail without a trace on YARN is tried first. An application
// that has been launched is removed only if it has ended; else its workers may still come.
//
// The order is: the flags, the addresses, the master's answer, the files' names, the upload, the
// launch, the wait. A kill before the launch leaves files in HDFS, and the next yarn up with the
// name succeeds all the same. A kill after it leaves a running service, which yarn status finds by its name
// alone: nothing on this machine remembers it.
func (f *yarnUp) run(ctx context.Context, u *userCommand) error {
	if err := f.check(); err != nil {
		return err
	}
	s, err := f.service()
	if err != nil {
		return err
	}
	// Containers on other machines cannot reach a master that listens on loopback; they would
	// fail one by one.
	if err := f.reachable(u, s.Address()); err != nil {
		return err
	}
	// The master must answer before anything is uploaded or started.
	if _, err := client.Call(ctx, u.cl, u.cl.RPC().Nodes, &slotwisev1.NodesRequest{}); err != nil {
		return err
	}
	files, err := f.contents(u)
	// Also after an error, which leaves the first files open.
	for _, file := range files {
		if c, ok := file.Content.(io.Closer); ok {
			defer c.Close()
		}
	}
	if err != nil {
		return err
	}
	id, err := s.Launch(ctx, &yarn.Spec{
		Name: f.name, Queue: f.queue, Workers: f.workers, Cores: f.cpu, Memory: int(f.memory >> 20), Files: files,
		Command: "exec ./" + workerBinary + " worker --config " + workerSettings + " --dir data --name " + f.name +
			"-${COMPONENT_ID} --host $NM_HOST --listen $NM_HOST:0",
	})
	if err != nil {
		return err
	}
	// The error of an ended context is its cause, so the user reads which flag has ended the wait.
	limited, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not all workers have joined the master within --timeout %v", f.timeout))
	defer cancel()
	w := &yarnWait{u: u, s: s, name: f.name}
	if err := w.joined(limited, f.workers); err != nil {
		// The application has ended by itself, so its directory is of no use. In other cases the
		// workers may still come.
		if w.ended {
			// The clean-up must also run after an interrupt.
			return errors.Join(err, s.Remove(context.WithoutCancel(ctx)))
		}
		rest := fmt.Sprintf("%s goes on: slotwise yarn status --name %s shows its state and where its output is, yarn down --name %s removes it", id, f.name, f.name)
		return w.left(ctx, err, rest)
	}
	return printYarnStatus(ctx, u.out(), u.json(), s)
}

// reachable returns an error if YARN is on other machines and its workers could not reach the
// master, or refuse to serve there without certificates.
func (f *yarnUp) reachable(u *userCommand, server string) error {
	master := u.cl.Address()
	switch {
	// YARN on this machine alone, as in a test: its containers reach loopback.
	case isLoopback(server):
		return nil
	case isLoopback(master):
		return misuse("--master %s: the nodes of YARN cannot reach this address; start the master with --listen and an address of the network", master)
	case f.cert == "" || u.files.CA == "":
		return misuse("--worker-cert, --worker-key and --tls-ca are missing: workers serve map outputs to other machines only with certificates; slotwise certs makes them")
	}
	return nil
}

// isLoopback reports whether a URL is one of this machine alone.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// The names of files of a worker's container.
const (
	workerBinary   = "slotwise"
	workerSettings = "worker.yaml"
)

// contents returns the files of a worker's container. The caller closes them. Settings go into a
// file and not into the command, which every user of YARN can read.
func (f *yarnUp) contents(u *userCommand) ([]yarn.File, error) {
	slots := cmp.Or(f.slots, f.cpu)
	settings := map[string]string{
		"master": u.cl.Address(), "map-slots": strconv.Itoa(slots), "reduce-slots": strconv.Itoa((slots + 1) / 2),
		"cpus": strconv.Itoa(f.cpu), "memory": strconv.FormatInt(local.WorkerMemoryOf(int64(f.memory)), 10),
	}
	binary := f.binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	var files []yarn.File
	add := func(flag, path, name string, mode os.FileMode) error {
		// All files share the directory of the container.
		if slices.ContainsFunc(files, func(f yarn.File) bool { return f.Name == name }) || name == workerSettings || name == "data" {
			return misuse("--%s %s: a worker has another file with the name %s", flag, path, name)
		}
		file, err := os.Open(path)
		if err != nil {
			return misuse("--%s %s: %w", flag, path, reason(err))
		}
		files = append(files, yarn.File{Name: name, Mode: mode, Content: file})
		return nil
	}
	if err := add("binary", binary, workerBinary, 0o500); err != nil {
		return files, err
	}
	for _, s := range []struct{ flag, path, setting, name string }{
		{"tls-ca", u.files.CA, "tls-ca", "worker-ca.pem"}, {"worker-cert", f.cert, "tls-cert", "worker-cert.pem"},
		{"worker-key", f.key, "tls-key", "worker-key.pem"}, {"worker-token-file", f.token, "token-file", "worker-token"},
	} {
		if s.path == "" {
			continue
		}
		if err := add(s.flag, s.path, s.name, 0o400); err != nil {
			return files, err
		}
		settings[s.setting] = s.name
	}
	for _, path := range f.files {
		if err := add("file", path, filepath.Base(path), 0o500); err != nil {
			return files, err
		}
	}
	text, err := yaml.Marshal(settings)
	return append(files, yarn.File{Name: workerSettings, Mode: 0o400, Content: bytes.NewReader(text)}), err
}

// yarnWait waits for workers and prints each change.
type yarnWait struct {
	u     *userCommand
	s     *yarn.Service
	name  string
	last  string // printed
	ended bool   // the application has ended
}

// note prints a line that differs from the one before it.
func (w *yarnWait) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != w.last {
		w.last = text
		terminal.Fprintf(w.u.cmd.ErrOrStderr(), "%s\n", text)
	}
}

// left returns an error with what a failed command has left. If ctx was interrupted, it prints that,
// because the error of an interrupted command is not printed.
func (w *yarnWait) left(ctx context.Context, err error, rest string) error {
	if ctx.Err() != nil {
		w.note("%s", rest)
		return err
	}
	return fmt.Errorf("%w; %s", err, rest)
}

// workers returns the workers of the service that are registered and not lost, by name. YARN
// numbers the containers of a component, and the command of a worker makes its name from that
// number, so names connect YARN's view and the master's.
func (w *yarnWait) workers(ctx context.Context) (map[string]*slotwisev1.NodeStatus, error) {
	resp, err := client.Call(ctx, w.u.cl, w.u.cl.RPC().Nodes, &slotwisev1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	nodes := map[string]*slotwisev1.NodeStatus{}
	for _, n := range resp.Nodes {
		// Another service may be called like this one with a hyphen and more: slotwise and
		// slotwise-night.
		if number, ok := strings.CutPrefix(n.Name, w.name+"-"); ok && n.State != "lost" && n.State != "left" && n.State != "absent" {
			if _, err := strconv.Atoi(number); err == nil {
				nodes[n.Name] = n
			}
		}
	}
	return nodes, nil
}

// joined waits until n workers have joined the master. YARN says that a container runs as soon as
// its process exists, so the master's list of workers counts.
func (w *yarnWait) joined(ctx context.Context, n int) error {
	for {
		app, err := w.s.App(ctx)
		if err != nil {
			// After the time-out the error is the time-out's and not the one of the call that it has cut
			// off.
			return cmp.Or(context.Cause(ctx), err)
		}
		nodes, err := w.workers(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		switch {
		case app.Ended():
			w.ended = true
			return fmt.Errorf("YARN service %s: %s is %s: %s; check --queue, and the log of the service master at %s", w.name, app.ID, app.State, app.Reason(), app.LogsURL)
		case len(nodes) >= n:
			w.note("%s: %d of %d workers have joined", app.ID, len(nodes), n)
			return nil
		case app.State == "RUNNING":
			w.note("%s: %d of %d workers have joined", app.ID, len(nodes), n)
		default:
			w.note("%s is %s: %s", app.ID, app.State, app.Reason())
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits a moment between two looks at a cluster. It returns an error if ctx ends. Half a
// second is short for a user who watches and long for YARN.
func pause(ctx context.Context) error {
	select {
	case <-time.After(500 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newYarnScale returns the command that changes the number of workers.
func newYarnScale() *cobra.Command {
	f := &yarnFlags{}
	var hold, timeout time.Duration
	c := &cobra.Command{
		Use:   "scale N",
		Short: "Change the number of workers on YARN",
		Long: `Grows or shrinks the workers of a YARN service to N. Workers that leave are drained
first: their attempts end, and they go when the jobs that ran at that time have ended, or
after --hold. Map outputs that are still needed then are made again. The workers with
the fewest attempts leave.

It needs YARN's services API (yarn.webapp.api-service.enable). A master with --autoscale
and --yarn-service does the same with the work.`,
		Example: `  slotwise yarn scale 8 --master 10.0.0.1:7077
  slotwise yarn scale 2 --master 10.0.0.1:7077 --hold 1m`,
		Args: oneArg("number"),
	}
	f.register(c)
	c.Flags().DurationVar(&hold, "hold", 10*time.Minute, "`time` for which workers that leave keep map outputs for running jobs")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "`time` to wait for new workers")
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		n, err := strconv.Atoi(args[0])
		switch {
		case err != nil || n < 0 || n > yarn.MaxWorkers:
			return misuse("%q: the number of workers must be from 0 to %d", args[0], yarn.MaxWorkers)
		case hold < 0:
			return misuse("--hold %v: must not be negative", hold)
		case timeout <= 0:
			return misuse("--timeout %v: must be positive", timeout)
		}
		s, err := f.service()
		if err != nil {
			return err
		}
		w := &yarnWait{u: u, s: s, name: f.name}
		fleet, err := s.Fleet(ctx)
		if err != nil {
			return err
		}
		// Fewer workers take a drain first: a container that is removed takes its map outputs with
		// it.
		if n < fleet.Replicas {
			err = w.shrink(ctx, fleet, n, hold)
		} else if err = s.Scale(ctx, n); err == nil {
			limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not all workers have joined the master within --timeout %v", timeout))
			defer cancel()
			err = w.joined(limited, n)
		}
		if err != nil {
			return err
		}
		return printYarnStatus(ctx, u.out(), u.json(), s)
	})
	return c
}

// shrink drains the workers that cost least and gives them back. An interrupt leaves them drained:
// undoing that could fail as well, and the message says how.
func (w *yarnWait) shrink(ctx context.Context, fleet machines.Fleet, n int, hold time.Duration) error {
	nodes, err := w.workers(ctx)
	if err != nil {
		return err
	}
	running := func(name string) int {
		if s := nodes[name]; s != nil {
			return int(s.Maps + s.Reduces)
		}
		return -1 // not registered: it holds nothing
	}
	slices.SortStableFunc(fleet.Machines, func(a, b machines.Machine) int { return cmp.Compare(running(a.Name), running(b.Name)) })
	var leave []string
	for _, m := range fleet.Machines[:min(fleet.Replicas-n, len(fleet.Machines))] {
		leave = append(leave, m.Name)
		// A worker that has not registered cannot be drained and has no attempts.
		if nodes[m.Name] == nil {
			continue
		}
		if _, err := client.Call(ctx, w.u.cl, w.u.cl.RPC().Drain, &slotwisev1.DrainRequest{Node: m.Name}); err != nil {
			return err
		}
	}
	if err := w.drained(ctx, leave, hold); err != nil {
		return w.left(ctx, err, fmt.Sprintf("workers %s stay drained: end that with slotwise nodes drain NODE --undo, or repeat the command", strings.Join(leave, ", ")))
	}
	if err := w.s.Scale(ctx, n, leave...); err != nil {
		return err
	}
	// YARN removes containers after it has answered. The command ends when they are gone.
	for {
		now, err := w.s.Fleet(ctx)
		if err != nil {
			return err
		}
		if len(now.Machines) <= n {
			w.note("removed: %s", strings.Join(leave, ", "))
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// drained waits until the workers have no attempts, and then until the jobs that are live
// now have ended, at most for hold.
func (w *yarnWait) drained(ctx context.Context, leave []string, hold time.Duration) error {
	// Jobs that start later never have map outputs on these workers.
	before, err := w.jobs(ctx)
	if err != nil {
		return err
	}
	var idle time.Time // since when they have had no attempts
	for {
		nodes, err := w.workers(ctx)
		if err != nil {
			return err
		}
		attempts := 0
		for _, name := range leave {
			if s := nodes[name]; s != nil {
				attempts += int(s.Maps + s.Reduces)
			}
		}
		// idle is not set back: a drained worker gets no new attempts.
		if attempts > 0 {
			w.note("draining %s: %d attempts run there", strings.Join(leave, ", "), attempts)
		} else {
			// hold counts from the end of the last attempt.
			if idle.IsZero() {
				idle = time.Now()
			}
			now, err := w.jobs(ctx)
			if err != nil {
				return err
			}
			now = slices.DeleteFunc(now, func(id string) bool { return !slices.Contains(before, id) })
			if len(now) == 0 || time.Since(idle) >= hold {
				return nil
			}
			w.note("drained %s: %d jobs may need the map outputs there", strings.Join(leave, ", "), len(now))
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// jobs returns the ids of the live jobs.
func (w *yarnWait) jobs(ctx context.Context) (ids []string, err error) {
	jobs, err := w.u.cl.Jobs(ctx, &slotwisev1.JobsRequest{})
	for _, j := range jobs {
		ids = append(ids, j.Id)
	}
	return ids, err
}

// newYarnStatus returns the command that shows a service.
func newYarnStatus() *cobra.Command {
	f := &yarnFlags{}
	asJSON := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the workers on YARN",
		Long: `Shows the application of a YARN service, and its workers if YARN's services API is on
(yarn.webapp.api-service.enable). It does not contact a master: slotwise nodes shows
what the workers do.`,
		Example: `  slotwise yarn status
  slotwise yarn status --name night -o json`,
		Args: noArgs,
	}
	f.register(c)
	addListingPrint(c, &asJSON)
	addSettings(c, func(c *cobra.Command, _ []string) error {
		s, err := f.service()
		if err != nil {
			return err
		}
		return printYarnStatus(c.Context(), c.OutOrStdout(), asJSON, s)
	})
	return c
}

// yarnStatus is a service in JSON. Numbers are YARN's at the moment of the answer: containers
// include the service's own master, and wanted are the workers that YARN has the order to run.
type yarnStatus struct {
	Name        string       `json:"name"`
	Application string       `json:"application"`
	State       string       `json:"state"`
	Reason      string       `json:"reason,omitempty"`
	Queue       string       `json:"queue"`
	Containers  int          `json:"containers"`
	MemoryMiB   int          `json:"memory_mib"`
	VCores      int          `json:"vcores"`
	Wanted      int          `json:"wanted"`
	Workers     []yarnWorker `json:"workers"`
	Logs        string       `json:"logs"` // URL of a worker's output
	Trouble     string       `json:"trouble,omitempty"`
}

// yarnWorker is a worker of a service in JSON.
type yarnWorker struct {
	Name    string `json:"name"`
	Leaving bool   `json:"leaving"`
}

// printYarnStatus prints the state of a service.
func printYarnStatus(ctx context.Context, out io.Writer, asJSON bool, s *yarn.Service) error {
	app, err := s.App(ctx)
	if err != nil {
		return err
	}
	st := yarnStatus{
		Name: s.Name(), Application: app.ID, State: app.State, Reason: app.Reason(), Queue: app.Queue,
		Containers: max(0, app.Containers), MemoryMiB: max(0, app.Memory), VCores: max(0, app.Cores), Workers: []yarnWorker{},
	}
	// Before and after that state there is no service master that could answer.
	if app.State == "RUNNING" {
		fleet, err := s.Fleet(ctx)
		// The services API may be off. The rest of the status is still of use.
		if err != nil {
			fleet.Trouble = err.Error()
		}
		st.Wanted, st.Trouble = fleet.Replicas, fleet.Trouble
		for _, m := range fleet.Machines {
			st.Workers = append(st.Workers, yarnWorker{m.Name, m.Leaving})
		}
		if st.Logs, err = s.LogsURL(ctx); err != nil {
			return err
		}
	}
	if asJSON {
		return encode(out, st)
	}
	terminal.Fprintf(out, "%s: %s is %s in queue %s with %d containers, %d MiB, %d vcores\n", st.Name, st.Application, st.State, st.Queue, st.Containers, st.MemoryMiB, st.VCores)
	for _, text := range []string{st.Reason, st.Trouble} {
		if text != "" {
			terminal.Fprintf(out, "%s\n", text)
		}
	}
	if len(st.Workers) > 0 {
		names := make([]string, 0, len(st.Workers))
		for _, w := range st.Workers {
			names = append(names, w.Name)
		}
		terminal.Fprintf(out, "workers: %s\n", strings.Join(names, ", "))
	}
	if st.Logs != "" {
		_, err = terminal.Fprintf(out, "output of a worker: %s\n", st.Logs)
	}
	return err
}

// newYarnDown returns the command that removes a service.
func newYarnDown() *cobra.Command {
	f, asJSON := &yarnFlags{}, false
	c := &cobra.Command{
		Use:   "down",
		Short: "Remove the workers from YARN",
		Long: `Ends all workers of a YARN service and removes its files from HDFS. Attempts that run
on them are lost: slotwise yarn scale 0 drains the workers first.`,
		Example: `  slotwise yarn down
  slotwise yarn down --name night`,
		Args: noArgs,
	}
	f.register(c)
	addPrint(c, &asJSON)
	addSettings(c, func(c *cobra.Command, _ []string) error {
		s, err := f.service()
		if err != nil {
			return err
		}
		// It waits until the containers are gone, so that the next yarn up may take the name at once.
		if err := s.Remove(c.Context()); err != nil {
			return err
		}
		if asJSON {
			return encode(c.OutOrStdout(), map[string]string{"name": f.name, "state": "removed"})
		}
		_, err = terminal.Fprintf(c.OutOrStdout(), "%s is removed\n", f.name)
		return err
	})
	return c
}
