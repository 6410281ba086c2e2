package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/sched/job"
)

// Config holds a worker's settings. A zero field gets the default that its comment
// states.
type Config struct {
	// Master is the master's base URL, or a list of masters with commas that begins with one.
	Master string
	// Dir is the worker's own directory for logs, map outputs and downloaded files.
	// It is created if it does not exist. A worker that restarts in it serves the
	// map outputs that it finds there.
	Dir string
	// Name identifies the worker to the master across restarts: letters, digits,
	// dots, hyphens and underscores, at most 100. The default is a random name that
	// is stored in Dir, so it does not change with the host name.
	Name string
	// Listen is the address of the HTTP server, host:port; port 0 chooses a free
	// port. Default 127.0.0.1:0.
	Listen string
	// Advertise is the address under which others reach that server. Default: the
	// address it listens on; if that means all interfaces, the address of the
	// interface towards the master.
	Advertise string
	// Host is the machine's name as storage reports it in block locations, for
	// locality; default: the system's host name. Rack is the machine's rack; ""
	// leaves it to the master's topology.
	Host, Rack string
	// MapSlots and ReduceSlots are the numbers of attempts of each kind that run at
	// once; negative means none. Default: one map slot per processor that this process may use, and half as
	// many reduce slots.
	MapSlots, ReduceSlots int
	// Drivers is the number of drivers of chains that run at once, beside the slots;
	// negative means none. Default 4.
	Drivers int
	// Memory is the memory in bytes for the processes of all attempts together. Each
	// slot has an equal share; see limits. Default 1 GiB.
	Memory int64
	// Usable is the memory in bytes that the worker's and its attempts' processes may use:
	// the machine's, or the limit of the container. 0 means unknown.
	Usable int64
	// CPUs is the number of processors for all attempts together, of which each slot
	// has an equal share. Default: the machine's.
	CPUs int
	// TaskMemory is the memory limit in bytes of attempts whose job asks for no memory;
	// above it the attempt is killed. Negative means no limit. Default: the slot's
	// share of Memory, plus memorySlack, at least leastLimit, at most 7/8 of Usable.
	TaskMemory int64
	// Cgroups makes the worker limit attempts with control groups if it can. Without
	// them it measures their memory.
	Cgroups bool
	// RunAs is RunAsOwner to run each attempt and driver as the operating system's user with
	// the name of the job's user. This needs a worker that runs as root, Linux, and a master
	// that authenticates its clients. "" runs them as the worker's user.
	RunAs string
	// RunAsMinUID is the least uid of such a user, to keep jobs from running as accounts of
	// the system. Default 1000.
	RunAsMinUID int
	// Reuse says whose processes run several attempts of a job, one after the other:
	// ReuseOwn, ReuseAll or ReuseOff. Default ReuseOwn.
	Reuse string
	// MinFree is the number of bytes that must be free on Dir's disk for the worker
	// to take new work. Default 256 MiB; negative means no limit.
	MinFree int64
	// CacheSize bounds the downloaded executables and shipped files in bytes. Files
	// in use stay even beyond it. Default 2 GiB.
	CacheSize int64
	// LogSize bounds one attempt's log in bytes (default 4 MiB); the oldest part is
	// removed. LogsSize bounds all logs together (default 512 MiB); the logs of the
	// attempts that ended first are removed.
	LogSize, LogsSize int64
	// DrainTimeout is the time for which attempts may run after Drain. Then the worker kills
	// them, and their tasks run on other nodes. Default 5 minutes.
	DrainTimeout time.Duration
	// ServeTimeout is the additional time for which a drained worker serves map
	// outputs that jobs still need. Default 30 minutes.
	ServeTimeout time.Duration
	// KillGrace is the time between asking an attempt to stop and SIGKILL. Default
	// 1 second.
	KillGrace time.Duration
	// Executable is the path of the program that runs attempts of built-in jobs.
	// Default: the program of this process.
	Executable string
	// Arg0 is the program name (argv[0]) of attempts. Default: the name of this
	// process.
	Arg0 string
	// HTTP sends calls to the master. Default: a client of the worker's own.
	HTTP *http.Client
	// TLS names the worker's certificate, key and authority. The HTTP server uses
	// them, and attempts verify other workers against the authority. They are
	// required if the master speaks TLS. Without them the server speaks plain HTTP
	// and must listen on loopback.
	TLS secure.Files
	// Tokens is a file with the tokens of users who may read the worker's metrics; "" for
	// none. Logs are served to the master only.
	Tokens string
	// OwnFiles are local files that no attempt may name as input or output, in addition
	// to Dir and the TLS files.
	OwnFiles []string
	// Adopted states that this process is a subreaper (it adopts orphans of its
	// descendants) and has no children but attempts. The worker then kills every
	// other child, since an attempt left it behind.
	Adopted bool
	// Version is the program's version, which the master shows.
	Version string
	// Log receives the worker's log. Default slog.Default().
	Log *slog.Logger

	// fill parses Master: the URL of the first one, and the hosts of all.
	masterURL   string
	masterHosts []string

	openGroups func(id string) (*cgroup.Tree, error) // set by tests; default cgroup.Open
}

// goodName matches worker names, which become parts of paths and URLs.
var goodName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`) })

// fill sets defaults and validates the settings. Errors name the flag of the worker
// command that sets the field.
func (c *Config) fill() error {
	if c.Master == "" || c.Dir == "" {
		return errors.New("a worker needs the address of a master (--master) and a directory (--dir)")
	}
	var err error
	if c.masterURL, c.masterHosts, err = secure.ParseMasters(c.Master); err != nil {
		return fmt.Errorf("--master: %w", err)
	}
	if strings.HasPrefix(c.masterURL, "https:") && !c.TLS.Given() {
		return errors.New("the master speaks TLS, so the worker needs a certificate of its own: set --tls-cert and --tls-key")
	}
	if c.Name != "" && !goodName().MatchString(c.Name) {
		return fmt.Errorf("worker name %q (--name): use at most 100 letters, digits, dots, hyphens and underscores", c.Name)
	}
	for flag, name := range map[string]string{"--host": c.Host, "--rack": c.Rack} {
		if err := bounds.CheckName("the name of the worker's "+flag[2:]+" ("+flag+")", name); err != nil {
			return err
		}
	}
	cores := runtime.GOMAXPROCS(0) // a container may have fewer processors than its machine
	c.MapSlots = max(0, cmp.Or(c.MapSlots, cores))
	c.ReduceSlots = max(0, cmp.Or(c.ReduceSlots, max(1, cores/2)))
	// Without a slot the worker would register and never get work.
	if c.MapSlots+c.ReduceSlots == 0 || c.MapSlots+c.ReduceSlots > maxSlots {
		return fmt.Errorf("%d map slots and %d reduce slots (--map-slots, --reduce-slots): their sum must be from 1 to %d", c.MapSlots, c.ReduceSlots, maxSlots)
	}
	if c.Drivers = max(0, cmp.Or(c.Drivers, 4)); c.Drivers > maxDrivers {
		return fmt.Errorf("%d drivers (--drivers) are too many: the most are %d", c.Drivers, maxDrivers)
	}
	c.Memory = cmp.Or(c.Memory, 1<<30)
	if least := int64(c.MapSlots+c.ReduceSlots) * minShare; c.Memory < least {
		return fmt.Errorf("%d bytes of memory (--memory) are too little for %d map and %d reduce slots, which need at least %d", c.Memory, c.MapSlots, c.ReduceSlots, least)
	}
	if c.Memory > job.MaxTaskMemory {
		return fmt.Errorf("%d bytes of memory (--memory) are too much; the most are %d", c.Memory, int64(job.MaxTaskMemory))
	}
	if c.CPUs < 0 || c.CPUs > job.MaxTaskCPUs {
		return fmt.Errorf("%d processors (--cpus): must be from 1 to %d", c.CPUs, job.MaxTaskCPUs)
	}
	c.CPUs = cmp.Or(c.CPUs, cores)
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.CacheSize = cmp.Or(c.CacheSize, 2<<30)
	c.LogSize = cmp.Or(c.LogSize, 4<<20)
	c.LogsSize = cmp.Or(c.LogsSize, 512<<20)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Minute)
	c.ServeTimeout = cmp.Or(c.ServeTimeout, 30*time.Minute)
	c.KillGrace = cmp.Or(c.KillGrace, time.Second)
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Executable = cmp.Or(c.Executable, "/proc/self/exe")
	c.RunAsMinUID = cmp.Or(c.RunAsMinUID, 1000)
	c.Reuse = cmp.Or(c.Reuse, ReuseOwn)
	if err := errors.Join(c.checkRunAs(), c.checkReuse()); err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// maxSlots bounds the slots of one worker: each running attempt is a process.
const maxSlots = 1 << 12

// maxDrivers bounds the drivers of one worker.
const maxDrivers = 1000

// minShare is the least buffer memory of one attempt, in bytes.
const minShare = 4 << 20
