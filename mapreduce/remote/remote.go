// Package remote runs a program's jobs on a cluster of machines.
//
// A program whose main function is [mapreduce.Main] passes [Client] to it and
// then has the flag -master:
//
//	mapreduce.Main(job, remote.Client())
//
// A program that calls [mapreduce.Run] names the cluster in its options, and
// calls [mapreduce.RunAttempt] first thing, because workers run the program
// itself for each task:
//
//	mapreduce.RunAttempt(apps.Lookup, remote.Client())
//	…
//	mapreduce.RunApp(ctx, app, params, mapreduce.Options{Remote: &remote.Cluster{Master: "host:port"}, …})
//
// The master and its workers are daemons: slotwise master, slotwise worker.
package remote

import (
	"flag"
	"net/http"
	"strings"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/mapreduce"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Cluster names a cluster and how jobs are submitted to it. Its workers build
// jobs themselves, so only apps, streaming jobs and the job of a program's Main
// can run there.
type Cluster struct {
	Master string       // host:port or URL of the master
	HTTP   *http.Client // makes the requests; nil for plain HTTP
	Token  string       // authenticates the user; "" for clusters without users
	// Files are put into the working directory of each attempt, under their
	// base names.
	Files []string
	// Accepted, if set, is called with the id of the job or chain that the master has
	// accepted.
	Accepted func(id string)
	// Detach makes Run and RunApp return as soon as the job or chain is submitted.
	Detach bool
}

// Client returns the feature that lets a program submit its jobs to a cluster
// and lets a worker run them.
func Client() mapreduce.Feature {
	return feature.Feature{Cluster: &feature.Cluster{Flags: clusterFlags, RunAttempt: runAttempt, RunDriver: runDriver}}
}

// runAttempt runs the attempt that a worker has started this process for.
func runAttempt(schemes *storage.Schemes, build feature.Builder) int {
	return attempt.Main(schemes, func(p *slotwisev1.Program) (*engine.Program, error) { return build(recipe(p)) })
}

// recipe translates the description of a job that the worker sends.
func recipe(p *slotwisev1.Program) *feature.Recipe {
	r := &feature.Recipe{App: p.GetApp(), Step: p.GetStep(), Params: p.GetParams(), Cuts: p.GetCuts()}
	if s := p.GetStreaming(); s != nil {
		r.Streaming = &feature.Streaming{Mapper: s.GetMapper(), Reducer: s.GetReducer(), Combiner: s.GetCombiner(), Properties: s.GetProperties()}
	}
	return r
}

// clusterFlags declares the flags of [mapreduce.Main] that name a cluster.
func clusterFlags(f *flag.FlagSet) (connect func() (feature.Remote, error)) {
	var master, tokenFile string
	var tls secure.Files
	var files fileList
	f.StringVar(&master, "master", "", "`address` of a cluster's master, host:port (default: run here)")
	f.Var(&files, "file", "`file` to put into the working directory of tasks on a cluster; may be repeated")
	f.StringVar(&tls.CA, "tls-ca", "", "`file` with the certificate of the authority that signed the master's certificate")
	f.StringVar(&tls.Cert, "tls-cert", "", "`file` with your own certificate")
	f.StringVar(&tls.Key, "tls-key", "", "`file` with the key of your certificate")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that identifies you")
	return func() (feature.Remote, error) {
		// nil is this process.
		if master == "" {
			return nil, nil
		}
		url, httpClient, err := secure.Dial(master, tls, tokenFile)
		if err != nil {
			return nil, err
		}
		return connector{&Cluster{Master: url, HTTP: httpClient, Files: files}}, nil
	}
}

// fileList is the value of -file, which may be repeated.
type fileList []string

// String joins the values.
func (l *fileList) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *fileList) Set(s string) error {
	*l = append(*l, s)
	return nil
}
