package mapreduce

import (
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/feature"
	"github.com/slotwise/slotwise/internal/local"
	"github.com/slotwise/slotwise/sched"
)

// Options say where a job's data are and how it is run on this machine. The
// zero value of every field but Inputs is a sensible default.
type Options struct {
	Inputs  []string // files, directories (with all below them) or globs, as URIs or paths
	Include []string // globs of file names to take; all if empty
	Exclude []string // globs of file names to leave out

	// Output is the directory to write; it must not exist, or be empty, unless
	// Overwrite, which replaces it only when the job has succeeded.
	Output    string
	Overwrite bool

	Reduces   int    // number of reduce tasks; 0 takes the job's or a default
	SplitSize int64  // bytes of input for one map task; 0 chooses
	Compress  string // codec of intermediate data: none (default), lz4, s2, zstd
	// OutputCompress is the codec of text output: none (default), gzip, zstd.
	OutputCompress string

	// TaskTimeout fails an attempt that makes no progress for so long; 10
	// minutes if 0, never if negative.
	TaskTimeout time.Duration
	// MaxAttempts is how many failed attempts of one task fail the job; 4 if 0.
	MaxAttempts int

	// SlowStart is the fraction of the maps that must have finished before reduces
	// start, from 0 to 1; nil for the default, 0.05.
	SlowStart *float64

	User     string // whose job it is; the login name by default
	Pool     string
	Priority string // very-low, low, normal, high, very-high

	// Profile rates how heavy the job's map and reduce tasks are, for policies
	// that learn which jobs suit which nodes.
	Profile Profile

	Cluster ClusterOptions
	// Remote, if set, is the cluster that runs the job, instead of this process.
	Remote Remote
	// Features are what the program needs beyond local files.
	Features []Feature

	// Progress, if set, is called now and then from one goroutine, and once at
	// the end.
	Progress func(Progress)
	// Stderr takes what child processes print; os.Stderr if nil.
	Stderr io.Writer

	chainDir string // where a chain keeps what goes from step to step
}

// Remote names a cluster of machines, such as a *remote.Cluster.
type Remote = feature.Remote

// Profile rates a job's tasks.
type Profile struct {
	Map, Reduce Load
}

// Load rates the use of four resources from 1 (light) to 10 (heavy); 0 is
// unknown.
type Load struct {
	CPU, Memory, Disk, Network uint8
}

// ClusterOptions describe the in-process cluster that runs jobs.
type ClusterOptions struct {
	Workers     int               // nodes; the number of cores by default
	MapSlots    int               // map slots of a worker, 1 by default
	ReduceSlots int               // reduce slots of a worker, 1 by default
	Memory      int64             // bytes for all tasks together; a quarter of RAM by default
	Policy      string            // a policy's name or composition; fifo by default
	PolicySet   map[string]string // its parameters, by name
	Policies    []sched.Table     // policies of your own, in addition to the built-in ones
	// FairScheduler and CapacityScheduler name Hadoop's files of pools and of
	// queues, for policies that know either. They are read again when they
	// change; a bad one changes nothing. Warn is told of what is odd in them.
	FairScheduler, CapacityScheduler string
	Warn                             func(string)
	// Heartbeat is how often workers report and get work. 0 is at once, but
	// every 100 ms for policies that judge their decisions by the next report.
	Heartbeat time.Duration
	// Explain has the reasons gathered why jobs wait, for [Result.Waits].
	Explain bool
	TempDir string    // for spills; the system's by default
	Events  io.Writer // takes a line for each scheduling event, if set
	Seed    uint64
}

// Progress is a snapshot of a running job.
type Progress = local.Progress
