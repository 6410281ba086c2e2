package mapreduce

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Options name a job's input and output and configure the run. Inputs and Output
// are required for jobs that read input; every other zero value is a default.
type Options struct {
	// Name is the name of the job for people: in progress, lists, logs and history. "" is the
	// name of its program. The job of a chain's step is called Name, "/" and the step.
	Name string

	Inputs  []string // files, directories (read recursively) or globs, as URIs or paths
	Include []string // globs of file names to read; all if empty
	Exclude []string // globs of file names to skip
	// Format is the format of Inputs if their records become lines: auto, text, csv, json,
	// parquet, avro or sequence, and options after commas. "" is the job's own choice
	// ([Format.Rows]), and auto if the job has none. Columns are the columns to read, in
	// this order; empty means all. docs/formats/input.md describes both.
	Format  string
	Columns []string
	// Where are conditions on columns, such as part=0 or fare>=2.5; records that meet all conditions are
	// read. A condition on a directory such as part=0 skips files when the job is planned, and one on a
	// column of Parquet skips row groups by the bounds in the footer. Missing is the rule for a column
	// that a file lacks: null, error, or "" for the format's own.
	Where   []string
	Missing string
	// NamedInputs are further files, directories or globs of the job's sources, by
	// [Source].Name.
	NamedInputs map[string][]string

	// Output is the directory to write. It must not exist or must be empty. With
	// Overwrite the job replaces the output of an earlier job, once it has succeeded: a
	// directory with _SUCCESS and part files, and no others. With Force it replaces the
	// directory whatever files it contains; Force implies Overwrite.
	Output           string
	Overwrite, Force bool

	Reduces   int    // number of reduce tasks; 0 for the job's own choice, else one per reduce slot
	SplitSize int64  // bytes of input for one map task; 0 to choose by input size and slots
	Compress  string // codec of intermediate data: none (default), lz4, s2, zstd
	// OutputCompress is the codec of the output: none (default), gzip, zstd, deflate, snappy, lz4 or
	// lz4-hadoop.
	OutputCompress string
	// OutputFormat is the format of the output files: text, csv, json, parquet, avro or
	// sequence, and options after commas. "" is the job's own choice ([Format.Rows] of [Job].Output),
	// and text if the job has none. OutputColumns are the columns, as word or count:int; empty
	// means key and value. docs/formats/output.md describes both.
	OutputFormat  string
	OutputColumns []string

	// Request has the job's demands on the scheduler: its user, pool and priority, retries and
	// time limits, and what a task needs. The user is the login name by default. Without a
	// SlowStart reduces start at once if all maps can run at the same time.
	Request

	Cluster ClusterOptions
	// Cluster configures the in-process cluster; Remote, if set, is the cluster that
	// runs the job instead.
	Remote Remote
	// Features add storage, compression and load measurement to the program.
	Features []Feature

	// Progress, if set, is called about ten times a second from one goroutine, and
	// once with Done when the job has ended.
	Progress func(Progress)
	// Planned, if set, is called with the plan of each job before the job starts, from the goroutine that
	// runs it. With DryRun no job starts: Run and RunApp return no result and no error behind the plan, of a
	// chain behind the plan of its first job. The chain itself must run in this process.
	Planned func(Plan)
	DryRun  bool
	// StorageRetry is the time for which the job's planning and the preparation of its
	// output are retried while the storage is unavailable. 0 is 12 minutes, a negative
	// value disables retries. Answers of the storage, such as "permission denied" or
	// "file does not exist", are final.
	StorageRetry time.Duration
	// Notify, if set, receives a sentence when the job cannot start because the storage
	// or the cluster's master has not answered for a second or two. Any goroutine may
	// call it.
	Notify func(text string)
	// Stderr receives the standard error of streaming commands; os.Stderr if nil.
	Stderr io.Writer

	chainDir string // directory of the chain's intermediate outputs; "" outside a chain
}

// check returns an error that names a field whose value is invalid.
func (o *Options) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Reduces", int64(o.Reduces)}, {"SplitSize", o.SplitSize},
		{"Cluster.Workers", int64(o.Cluster.Workers)}, {"Cluster.Memory", o.Cluster.Memory},
	} {
		if f.value < 0 {
			return fmt.Errorf("the field Options.%s is %d; it must not be negative", f.name, f.value)
		}
	}
	if err := o.Request.Check(); err != nil {
		return fmt.Errorf("the field Options.Request: %w", err)
	}
	return cmp.Or(bounds.CheckName("the field Options.Name", o.Name), bounds.CheckName("the field Options.User", o.User),
		bounds.CheckName("the field Options.Pool", o.Pool))
}

// outages returns the bounds of waits for servers.
func (o *Options) outages() feature.Outages {
	return feature.Outages{Storage: cmp.Or(o.StorageRetry, feature.DefaultStorageWait), Notify: o.Notify}
}

// Remote names a cluster of machines, such as a *remote.Cluster.
type Remote interface {
	// Connector returns the object by which slotwise connects to the cluster. Only package
	// remote makes such objects.
	Connector() any
}

// Request has the demands of a job on the scheduler, all of its description but its work.
type Request = job.Request

// ClusterOptions configure the in-process cluster that runs jobs.
type ClusterOptions struct {
	Workers     int               // nodes; the number of cores by default
	MapSlots    int               // map slots of a worker, 1 by default
	ReduceSlots int               // reduce slots of a worker, 1 by default
	Memory      int64             // bytes for all tasks together; a quarter of RAM by default
	Policy      string            // a policy's name or composition; fifo by default
	PolicySet   map[string]string // its parameters, by name
	Policies    []sched.Table     // policies of your own, in addition to the built-in ones
	// FairScheduler and CapacityScheduler name Hadoop's files of pools and of
	// queues, for policies that have pools or queues. They are read again when
	// they change; a version with an error is ignored. Warn is called with each
	// warning about them, from any goroutine.
	FairScheduler, CapacityScheduler string
	Warn                             func(string)
	// Heartbeat is the interval at which workers report and get work. With 0 they
	// report at every change, or every 100 ms under policies that learn from the
	// next report whether an assignment was good.
	Heartbeat time.Duration
	// Explain collects the reasons why jobs wait, for [Result.Waits].
	Explain bool
	TempDir string    // for spills; the system's by default
	Events  io.Writer // receives a line for each scheduling event; may be nil
	Seed    uint64    // of the policy's random numbers
	// NoSync lets a job on local files succeed before the disk has its output. A power
	// cut soon after may take the output away. Without it a job ends when its output
	// would survive.
	NoSync bool
}

// Progress is a snapshot of a running job.
type Progress struct {
	Job            string // name
	ID             string // j1
	State          string // pending, running, committing, aborting, succeeded, failed or killed
	Maps           int    // tasks
	MapsDone       int
	MapsRunning    int
	Reduces        int
	ReducesDone    int
	ReducesRunning int
	MapFrac        float64 // of the work, 0 to 1
	ReduceFrac     float64
	BytesIn        int64 // bytes of input in all
	BytesRead      int64 // bytes of input read so far
	Elapsed        time.Duration
	Failed         int    // failed attempts so far
	LastError      string // of the latest failure
	Done           bool   // the last snapshot of the job
	Expected       Expected
}

// Expected is a forecast of a job's end by a cluster's master. The zero value means that there
// is none, as in runs in one process. It is an alias, because Go converts the internal type of a
// Progress to Progress only if the types of all their fields are identical.
type Expected = struct {
	Known bool
	// Left is the median of the time until the end, Early and Late its 10th and 90th
	// percentiles.
	Left, Early, Late time.Duration
	// Position is the position of a waiting job in the order of starts; 0 if an attempt runs
	// or the position is unknown. Start is the time until its start.
	Position int
	Start    time.Duration
}

// progress returns the function that calls Options.Progress, or nil.
func (o *Options) progress() func(local.Progress) {
	if o.Progress == nil {
		return nil
	}
	return func(p local.Progress) { o.Progress(Progress(p)) }
}
