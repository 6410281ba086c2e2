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
	"time"

	"github.com/slotwise/slotwise/internal/secure"
)

// Config describes a worker. What is zero gets the default that is said.
type Config struct {
	// Master is the master's base URL.
	Master string
	// Dir is the worker's own directory: logs, map outputs, cached files. It is
	// made if need be. A worker started again there keeps what is in it.
	Dir string
	// Name is the worker's name for life, by which the master knows it again;
	// letters, digits, dots, hyphens and underscores. The default is kept in
	// Dir, so that it does not depend on the host.
	Name string
	// Listen is the address of the HTTP server, host:port; port 0 takes a free
	// one. Default 127.0.0.1:0.
	Listen string
	// Advertise is the address under which others reach that server; by
	// default the one it listens on, with the host's address towards the master
	// in place of an unspecified one.
	Advertise string
	// Host is the machine's name as storage knows it, for locality (default:
	// the system's host name); Rack where it stands ("": the master says).
	Host, Rack string
	// MapSlots and ReduceSlots are how many tasks of each kind run at once;
	// negative is none. Default: a map for each core, half as many reduces.
	MapSlots, ReduceSlots int
	// Memory is how many bytes all attempts together may sort, merge and fetch
	// in. It is divided among the slots.
	Memory int64
	// TaskMemory is the resident memory in bytes, of an attempt's processes
	// together, beyond which the attempt is killed. Negative is never. The
	// default leaves an attempt its share of Memory thrice and 1 GiB more.
	TaskMemory int64
	// MinFree is how many bytes must be free on Dir's disk: with less there
	// the worker takes no new work. Default 256 MiB; negative is none.
	MinFree int64
	// CacheSize is how many bytes of executables and shipped files are kept
	// (default 2 GiB); those in use are kept in any case.
	CacheSize int64
	// LogSize bounds one attempt's log in bytes (default 4 MiB), LogsSize all
	// logs (default 512 MiB): the newest is kept.
	LogSize, LogsSize int64
	// DrainTimeout is how long attempts may go on when the worker drains
	// (default 5 minutes). Those that still run then are handed back.
	DrainTimeout time.Duration
	// ServeTimeout is how long a drained worker goes on to serve map outputs
	// that are needed (default 30 minutes).
	ServeTimeout time.Duration
	// KillGrace is how long an attempt has to end after it was told to (default
	// 1 second).
	KillGrace time.Duration
	// Executable is the path of the executable that attempts of built-in jobs
	// run; default this process's own.
	Executable string
	// Arg0 is the name under which attempts are started; default as this
	// process was.
	Arg0 string
	// HTTP carries calls to the master; nil is a client of the worker's own.
	HTTP *http.Client
	// TLS are the worker's certificates, with which its HTTP server speaks TLS
	// and its attempts know other workers; needed if the master speaks TLS. None
	// is plain HTTP, which only this machine may listen to.
	TLS secure.Files
	// Adopted says that this process adopts its descendants' orphans and has no
	// children but the worker's: then what an attempt leaves behind is killed.
	Adopted bool
	// Version is told to the master.
	Version string
	Log     *slog.Logger
}

// goodName is what may be part of file names and paths.
var goodName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

func (c *Config) fill() error {
	if c.Master == "" || c.Dir == "" {
		return errors.New("a worker needs a master and a directory")
	}
	if strings.HasPrefix(c.Master, "https:") && !c.TLS.Given() {
		return errors.New("a worker of a master that speaks TLS needs a certificate of its own: --tls-cert and --tls-key")
	}
	if c.Name != "" && !goodName.MatchString(c.Name) {
		return fmt.Errorf("worker name %q: want letters, digits, '.', '-' and '_', at most 100", c.Name)
	}
	cores := runtime.NumCPU()
	c.MapSlots = max(0, cmp.Or(c.MapSlots, cores))
	c.ReduceSlots = max(0, cmp.Or(c.ReduceSlots, max(1, cores/2)))
	if c.MapSlots+c.ReduceSlots == 0 || c.MapSlots+c.ReduceSlots > maxSlots {
		return fmt.Errorf("%d map and %d reduce slots: want 1 to %d in all", c.MapSlots, c.ReduceSlots, maxSlots)
	}
	c.Memory = cmp.Or(c.Memory, 1<<30)
	if least := int64(c.MapSlots+c.ReduceSlots) * minShare; c.Memory < least {
		return fmt.Errorf("memory of %d bytes is too little for %d+%d slots: the least is %d", c.Memory, c.MapSlots, c.ReduceSlots, least)
	}
	c.TaskMemory = cmp.Or(c.TaskMemory, 3*c.share()+1<<30)
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.CacheSize = cmp.Or(c.CacheSize, 2<<30)
	c.LogSize = cmp.Or(c.LogSize, 4<<20)
	c.LogsSize = cmp.Or(c.LogsSize, 512<<20)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Minute)
	c.ServeTimeout = cmp.Or(c.ServeTimeout, 30*time.Minute)
	c.KillGrace = cmp.Or(c.KillGrace, time.Second)
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Executable = cmp.Or(c.Executable, "/proc/self/exe")
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// maxSlots is the most slots of one worker: more processes help nobody.
const maxSlots = 1 << 12

// minShare is the least memory that an attempt can work with, in bytes.
const minShare = 4 << 20

// share is the memory of one slot. A policy may lend slots of one kind to the
// other, so all are alike.
func (c *Config) share() int64 { return c.Memory / int64(c.MapSlots+c.ReduceSlots) }

// Shares of a slot's memory: a map sorts in all of it; a reduce keeps fetched
// outputs in most of it and reads run files through the rest.
func (c *Config) mapBuffer() int64   { return c.share() }
func (c *Config) fetchBuffer() int64 { return c.share() * 3 / 4 }
func (c *Config) mergeBuffer() int64 { return c.share() / 4 }
