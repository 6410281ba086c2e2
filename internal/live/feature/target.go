package feature

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// Remote names a cluster. Package remote implements it.
type Remote interface {
	// Connect asks the cluster's master for the cluster's size. Jobs read and
	// write the given storage schemes. o bounds the waits for the master and for the
	// storage of outputs.
	Connect(ctx context.Context, schemes *storage.Schemes, o Outages) (Target, error)
}

// Outages bound how long a submitter waits for servers that are away, and say so.
type Outages struct {
	// Storage is the time for which an operation on a storage that is unavailable is
	// retried; a negative value disables retries.
	Storage time.Duration
	// Notify, if set, receives a sentence when a server has been away for a second or
	// two. Any goroutine may call it.
	Notify func(text string)
}

// NotifyLog writes what a chain's driver waits for to the driver's log, which is its
// standard error.
func NotifyLog(text string) { fmt.Fprintln(os.Stderr, text) }

// DefaultStorageWait is the default of Outages.Storage. It is the time for which failures
// because of the storage do not count against a task.
const DefaultStorageWait = tracker.DefaultStorageRetry

// The pauses between tries to use a storage. They are longer than the pauses of the
// storage clients, which make several tries before they fail.
const (
	firstStoragePause = 500 * time.Millisecond
	lastStoragePause  = 30 * time.Second
)

// unknownHostPatience is the time of retries while DNS says that the host name of a storage
// does not exist. Such a name is almost always a mistake.
const unknownHostPatience = 20 * time.Second

// ForStorage returns the options to retry an operation on the storage of what while the
// storage is unavailable. Other errors, such as "permission denied", are final.
func (w Outages) ForStorage(what string) retry.Options {
	return retry.Options{
		What: what, Notify: w.Notify, FirstPause: firstStoragePause, LastPause: lastStoragePause,
		Patience: func(err error) time.Duration {
			switch {
			case errors.Is(err, storage.ErrUnknownHost):
				return min(w.Storage, unknownHostPatience)
			case errors.Is(err, storage.ErrUnavailable):
				return w.Storage
			}
			// Such as "permission denied" or "not found": the storage has answered.
			return -1
		},
	}
}

// Target is where jobs run: in this process or on a cluster.
type Target interface {
	Slots
	// URI returns the name by which the target finds a file or directory that
	// the user calls path.
	URI(path string) (string, error)
	// RunChain runs a chain until it has ended. drive runs the chain's function in
	// this process, with intermediate outputs in dir, by calls of Run. A target that
	// runs the function elsewhere does not call it, and returns the outcomes of the
	// steps.
	RunChain(ctx context.Context, c *Chain, drive func(ctx context.Context, dir string) error) ([]*Outcome, error)
	// Run runs a planned job until it has ended. If ctx is cancelled the job is
	// killed. The outcome is not nil once the job has been submitted.
	Run(ctx context.Context, j *PlannedJob) (*Outcome, error)
	Close() error
}

// Slots tells a planner how large a target is. The size of splits and the number
// of reduces follow from it.
type Slots interface {
	MapSlots() int    // at least 1
	ReduceSlots() int // at least 1
	// MapBuffer is the memory in bytes that one map may sort in.
	MapBuffer() int64
}

// PlannedJob is a job that can be submitted: its input is cut into splits and all choices are
// made.
type PlannedJob struct {
	Name         string
	Recipe       *Recipe // nil if no other process can build the job
	Program      *engine.Program
	Splits       []engine.SourceSplit // one map task each
	Synthetic    int                  // number of map tasks without input, instead of Splits
	Inputs       []string             // as the caller named them, of a step; Splits are their content
	FilesSkipped int                  // input files that conditions on partitions exclude
	Reduces      int
	Cuts         [][]byte        // the keys between the reduces of a total order
	Output       string          // a name that the target knows
	Replace      storage.Replace // what the output may replace
	OutCode      output.Codec
	OutputRows   string // format of output files that the user has chosen; "" for the program's
	ShuffleCodec string // codec of intermediate data, by name
	job.Request         // User is "" for the target's default
	Progress     func(local.Progress)
	Outages      Outages // of the storage of the output
}

// Chain describes a chain of jobs, for a target that runs its function in another
// process. The fields are as in mapreduce.Options.
type Chain struct {
	Name                     string
	App                      string
	Params                   map[string]string
	Inputs, Include, Exclude []string
	NamedInputs              map[string][]string
	Output                   string
	Replace                  storage.Replace // what the output may replace
	Reduces                  int
	SplitSize                int64
	Rows                     string // format of the input files whose records become lines
	OutputRows               string // as in PlannedJob
	Compress, OutputCompress string
	job.Request
	Progress func(local.Progress)
}

// FinalError is the error of a step that would be the same if the chain's function ran
// again: the job failed, the step was refused, or the function is wrong.
type FinalError struct{ Err error }

// Error returns the text of the error.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *FinalError) Unwrap() error { return e.Err }

// Outcome is a target's report on a submitted job. Times are since
// an origin of the target's choice.
type Outcome struct {
	Name, ID  string
	State     string // as in mapreduce.Result
	Output    string // of a step that another process has planned; "" if the caller knows it
	Elapsed   time.Duration
	Submitted time.Duration
	Started   time.Duration // 0 if no task was launched
	Ended     time.Duration
	Maps      int
	Reduces   int
	Failures  int    // failed attempts
	Copies    int    // speculative attempts
	Locality  [4]int // map attempts on the node of their data, in its rack, elsewhere, without location
	SlotTime  [job.Kinds]time.Duration
	Waits     []Wait
	Counters  [job.Kinds]counters.Set // of attempts that succeeded
}

// Wait is a reason why tasks of a job waited, and for how long in all.
type Wait struct {
	Kind   job.Kind
	For    time.Duration
	Reason string
}

// LoginName returns the name of the user who runs this process, or "unknown": a container may run
// under a number that no file of users has.
func LoginName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
