// Package feature defines the parts that a program adds to package mapreduce
// when it needs them: storage beyond local files, more compression, clusters.
//
// A feature is a value that the program passes to mapreduce.Main or puts into
// mapreduce.Options. Only programs that name a feature link its libraries, and
// nothing registers itself by being imported. The packages mapreduce/hdfs,
// mapreduce/s3, mapreduce/compression, mapreduce/formats, mapreduce/nodeload and mapreduce/remote
// make the features.
package feature

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/sched/cluster"
)

// Feature is one optional part of a program. Only the fields of that part are
// set.
type Feature struct {
	// Scheme and Driver add a storage scheme.
	Scheme string
	Driver storage.Driver
	// Codecs adds compression codecs.
	Codecs []*compression.Codec
	// Formats adds formats of input files.
	Formats []*format.Format
	// NewLoadMeter makes a function that measures this machine at a time since
	// the function was made, for policies that learn from load.
	NewLoadMeter func() func(now time.Duration) cluster.Load
	// Observer watches the clusters that run in this process.
	Observer local.Observer
	// Cluster lets the program submit jobs to a cluster and run the attempts of
	// their tasks.
	Cluster *Cluster
}

// FeatureName implements mapreduce.Feature. It returns what the feature adds.
func (f Feature) FeatureName() string {
	switch {
	case f.Scheme != "":
		return f.Scheme + " storage"
	case f.Codecs != nil:
		return "compression"
	case f.Formats != nil:
		return "formats"
	case f.NewLoadMeter != nil:
		return "load measurement"
	case f.Cluster != nil:
		return "cluster client"
	}
	return "observer"
}

// CompileJob translates a job, a *mapreduce.Job, for the engine. files is a
// *mapreduce.Files. Package mapreduce sets the function, because its own exported names must
// not mention types of internal packages.
var CompileJob func(ctx context.Context, j, files any) (*engine.Program, error)

// Cluster is the client side and the worker side of running jobs on a cluster.
type Cluster struct {
	// Flags declares the flags that name a cluster. Once they are parsed,
	// connect returns the cluster that they name, or nil if they name none.
	Flags func(f *flag.FlagSet) (connect func() (Remote, error))
	// RunAttempt runs the attempt that a worker has started this process for
	// and returns the process's exit status.
	RunAttempt func(schemes *storage.Schemes, build Builder) int
	// RunDriver runs the function of the chain that a worker has started this
	// process for and returns the process's exit status.
	RunDriver func(schemes *storage.Schemes, drive Drive) int
}

// Drive runs the function of a chain on a target, which submits the steps.
type Drive func(ctx context.Context, c *Chain, t Target) error

// Builder makes the functions of a job from its recipe. Its errors are shown
// to users.
type Builder func(*Recipe) (*engine.Program, error)

// Recipe lets a process that did not plan a job build its functions.
type Recipe struct {
	App       string // name of the app; of the job itself for a program's own job
	Step      string // of an app that is a chain of jobs
	Params    map[string]string
	Streaming *Streaming // instead of an app
	Cuts      [][]byte   // the keys between the reduces of a total order
}

// Streaming holds the commands of a streaming job.
type Streaming struct {
	Mapper, Reducer, Combiner string
	Properties                map[string]string // of Hadoop; nil for a job that runs by our own rules
}

// AttemptVariable is the environment variable that is 1 in a process that a
// worker has started to run an attempt, and DriverValue in one that runs the driver
// of a chain.
const (
	AttemptVariable = "SLOTWISE_ATTEMPT"
	DriverValue     = "driver"
)

// Set is the sum of a program's features.
type Set struct {
	Schemes *storage.Schemes // nil for local files only
	Cluster *Cluster         // nil if the program cannot use clusters
	// NewLoadMeter is as in Feature; nil if the program measures no load.
	NewLoadMeter func() func(now time.Duration) cluster.Load
	Observer     local.Observer // nil if nothing watches
}

// Combine adds up features and enables their codecs and formats, in the whole process: those are
// tables of their packages, and enabling twice is no error. Two storages of one scheme, two clients
// of clusters, and a value that is no Feature are errors. Of load meters and observers the last
// counts.
func Combine[F interface{ FeatureName() string }](all []F) (*Set, error) {
	s := &Set{}
	for _, named := range all {
		// Another package can have a type with the method FeatureName, but it cannot know the
		// fields read here.
		f, ok := any(named).(Feature)
		if !ok {
			return nil, fmt.Errorf("the feature %v is not of a package of slotwise", any(named))
		}
		if f.Scheme != "" {
			more, err := s.Schemes.With(f.Scheme, f.Driver)
			if err != nil {
				return nil, err
			}
			s.Schemes = more
		}
		compression.Enable(f.Codecs...)
		format.Enable(f.Formats...)
		if f.NewLoadMeter != nil {
			s.NewLoadMeter = f.NewLoadMeter
		}
		if f.Observer != nil {
			s.Observer = f.Observer
		}
		if f.Cluster != nil {
			if s.Cluster != nil {
				return nil, errors.New("the feature remote.Client() is given twice")
			}
			s.Cluster = f.Cluster
		}
	}
	return s, nil
}
