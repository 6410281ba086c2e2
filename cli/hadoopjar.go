package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/stream"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/remote"
	"github.com/slotwise/slotwise/sched/job"
)

// The names of jars by which hadoop jar chooses the program. The files are never opened, so they
// need not have any content. mrjob searches HADOOP_HOME for hadoop*streaming*.jar and passes the
// path.
var (
	streamingJar = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)hadoop.*streaming.*\.jar$`) })
	examplesJar  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)hadoop-(mapreduce-)?examples.*\.jar$`) })
)

// jar runs hadoop jar.
func (h *hadoopCommand) jar(args []string) error {
	if len(args) == 0 {
		fmt.Fprintln(h.err, "RunJar jarFile [mainClass] args...")
		return exit(hadoopUsage)
	}
	switch name := filepath.Base(args[0]); {
	case streamingJar().MatchString(name):
		return h.streaming(args[1:])
	case examplesJar().MatchString(name):
		return h.examples(args[1:])
	}
	// Hadoop 1's and 2's words for this error, for which mrjob looks. Hadoop 3 words it differently.
	terminal.Fprintf(h.err, "Not a valid JAR: %s (slotwise runs no Java code; it knows hadoop-streaming*.jar and hadoop-mapreduce-examples*.jar by their names)\n", args[0])
	return exit(hadoopUsage)
}

// streamingUsage describes the options of a streaming job.
const streamingUsage = `Usage: hadoop jar hadoop-streaming.jar [genericOptions] [streamingOptions]
  -input PATH -output DIR [-mapper CMD] [-combiner CMD] [-reducer CMD|NONE|aggregate]
  [-numReduceTasks N] [-file FILE]... [-cmdenv NAME=VALUE]... [-inputformat CLASS]
  [-outputformat CLASS] [-partitioner CLASS] [-cacheFile URI#NAME]... [-cacheArchive URI#NAME]...
  [-io ID] [-lazyOutput] [-background] [-verbose] [-info]
Generic options stand first: -D NAME=VALUE, -conf FILE, -fs URI, -jt ADDRESS,
  -files A,B -archives A,B -libjars A,B (each PATH[#NAME])
`

// streaming runs a streaming job.
func (h *hadoopCommand) streaming(args []string) error {
	o, err := hadoop.ParseStreaming(args)
	if err == nil && o.Help {
		_, err = io.WriteString(h.out, streamingUsage)
		return err
	}
	if err != nil {
		terminal.Fprintf(h.err, "%s\nTry -help for more information\n", err)
		return h.streamingFailed(hadoopFailed)
	}
	j := &hadoopStreamingJob{hadoopCommand: h, Streaming: o, log: h.log()}
	defer j.close()
	return h.streamingFailed(j.run())
}

// streamingFailed prints the last line of a streaming job that has failed. Every status but 0 comes
// with it. mrjob takes the line out before it reads the log's records.
func (h *hadoopCommand) streamingFailed(status int) error {
	if status != 0 {
		fmt.Fprintln(h.err, "Streaming Command Failed!")
	}
	return exit(status)
}

// hadoopStreamingJob is a streaming job. Its life is prepare (properties, formats, shipped files),
// the check of the given properties, the planning by mapreduce.Streaming, and hadoopRun.run.
type hadoopStreamingJob struct {
	*hadoopCommand
	*hadoop.Streaming
	log   *hadoop.Log
	conf  hadoop.Conf // of the job
	given []string    // names of properties that the user has set
	cache string      // directory with copies of shipped files; "" without any
	ship  []string    // files to upload to a cluster
}

// close removes the copies.
func (j *hadoopStreamingJob) close() {
	if j.cache != "" {
		os.RemoveAll(j.cache)
	}
}

// run runs the job and returns the exit status.
func (j *hadoopStreamingJob) run() int {
	if status, err := j.prepare(); err != nil {
		j.log.Line("ERROR", "streaming.StreamJob", "%s", oneLine(err))
		return status
	}
	// Only properties that the user has given are judged. A configuration of a whole cluster
	// has hundreds that mean nothing here.
	r := j.conf.Check(j.given)
	for _, text := range r.Deprecated {
		j.log.Info("Configuration.deprecation", "%s", text)
	}
	for _, text := range r.Warnings {
		j.log.Line("WARN", "streaming.StreamJob", "%s", text)
	}
	for _, text := range r.Errors {
		j.log.Line("ERROR", "streaming.StreamJob", "%s", text)
	}
	if len(r.Errors) > 0 {
		return hadoopFailed
	}
	// StreamJob's only line on standard output; the others are log lines on standard error.
	terminal.Fprintf(j.out, "packageJobJar: [%s] [] streamjob.jar tmpDir=null\n", strings.Join(j.File, ", "))
	program, err := mapreduce.Streaming(mapreduce.StreamingOptions{
		Mapper: j.Mapper, Combiner: j.Combiner, Reducer: j.Reducer, Stderr: j.err, Properties: j.conf,
	})
	if err != nil {
		j.log.Line("ERROR", "streaming.StreamJob", "%s", oneLine(err))
		return hadoopFailed
	}
	t := &hadoopRun{hadoopCommand: j.hadoopCommand, log: j.log, conf: j.conf, background: j.Background}
	output, err := j.uri(j.Output)
	var inputs []string
	// One message for all that can be wrong about locations, as StreamJob prints it, with its status 5.
	if err == nil {
		inputs, err = j.absolute(j.Inputs)
	}
	var o mapreduce.Options
	if err == nil {
		o, err = t.options(inputs, output, j.ship)
	}
	if err == nil {
		err = t.checkOutput(j.Output)
	}
	if err != nil {
		j.log.Line("ERROR", "streaming.StreamJob", "Error Launching job : %s", oneLine(err))
		return hadoopSubmission
	}
	status := t.run(func(ctx context.Context, o mapreduce.Options) ([]*mapreduce.Result, error) {
		r, err := mapreduce.Run(ctx, program, o)
		if r == nil {
			return nil, err
		}
		return []*mapreduce.Result{r}, err
	}, o)
	switch status {
	case 0:
		j.log.Info("streaming.StreamJob", "Output directory: %s", j.Output)
	case hadoopFailed:
		j.log.Line("ERROR", "streaming.StreamJob", "Job not successful!")
	}
	return status
}

// set sets a property that the user has given.
func (j *hadoopStreamingJob) set(s hadoop.Setting) {
	j.conf.Set(s.Name, s.Value)
	j.given = append(j.given, s.Name)
}

// prepare computes the job's properties and copies the files to ship. With an error it returns the
// exit status. The order of the properties is Hadoop's: the site's files, -conf, -D, -jobconf, and
// then the options of streaming, each of which sets a property.
func (j *hadoopStreamingJob) prepare() (status int, err error) {
	// A copy: the settings of the site are the command's, and this job adds its own.
	j.conf = hadoop.Conf{}
	for name, v := range j.hadoopCommand.conf {
		j.conf[name] = v
	}
	settings, err := givenSettings(j.Generic)
	if err != nil {
		return hadoopFailed, err
	}
	for _, s := range append(settings, j.JobConf...) {
		j.set(s)
	}
	// Before any path is resolved, since -fs and fs.defaultFS decide where a path without a scheme
	// leads.
	if uri := cmp.Or(j.FS, j.conf.Get("fs.defaultFS", "")); uri != "" {
		j.setDefault(uri)
	}
	if j.JT != "" {
		j.conf.Set("mapreduce.jobtracker.address", j.JT)
	}
	for _, refused := range []struct{ option, value, why string }{
		{"-mapdebug", j.MapDebug, "scripts after failed tasks are not run; the log of a failed attempt is in the output of this command"},
		{"-reducedebug", j.ReduceDebug, "scripts after failed tasks are not run; the log of a failed attempt is in the output of this command"},
		{"-inputreader", j.InputReader, "records that span lines, such as XML, cannot be read by a streaming job"},
	} {
		// An error is better than a job without a part of its options.
		if refused.value != "" {
			return hadoopFailed, fmt.Errorf("%s %s is not supported: %s", refused.option, refused.value, refused.why)
		}
	}
	if j.LazyOutput {
		j.conf.Set(hadoop.PropLazy, "org.apache.hadoop.mapred."+cmp.Or(j.OutputFormat, hadoop.TextOutput))
	}
	// Hadoop 1's scripts give the locations as properties.
	j.Output = cmp.Or(j.Output, j.conf.Get("mapreduce.output.fileoutputformat.outputdir", ""))
	if len(j.Inputs) == 0 {
		j.Inputs = hadoop.SplitList(j.conf.Get("mapreduce.input.fileinputformat.inputdir", ""))
	}
	// Tasks see inputs and output as Hadoop spells them, in properties that streaming programs
	// read.
	shown, err := j.display(append(j.Inputs[:len(j.Inputs):len(j.Inputs)], j.Output))
	if err != nil {
		return hadoopFailed, err
	}
	inputs, output := shown[:len(j.Inputs)], shown[len(j.Inputs)]
	j.conf.Set("mapreduce.output.fileoutputformat.outputdir", output)
	j.conf.Set("mapreduce.input.fileinputformat.inputdir", strings.Join(inputs, ","))
	j.conf.Set("mapreduce.job.user.name", j.ns.User)
	j.conf.Set(hadoop.PropStamp, strconv.FormatInt(stampOfRun(j.conf), 10))
	j.conf.Set(hadoop.PropRoot, j.ns.RootURI())
	if j.conf.Get("mapreduce.job.name", "") == "" {
		j.conf.Set("mapreduce.job.name", fmt.Sprintf("streamjob%d.jar", time.Now().UnixNano()))
	}
	// After the properties: options about classes and formats become properties, too, and win.
	if err := j.commands(); err != nil {
		return hadoopFailed, err
	}
	return j.shipFiles()
}

// display returns the URIs of paths in the words of Hadoop's tools.
func (h *hadoopCommand) display(typed []string) ([]string, error) {
	uris, err := h.absolute(typed)
	for i, uri := range uris {
		uris[i] = hadoop.DisplayURI(uri, h.ns.RootURI())
	}
	return uris, err
}

// absolute returns the storage URIs of paths as the user has typed them.
func (h *hadoopCommand) absolute(typed []string) ([]string, error) {
	uris := make([]string, len(typed))
	for i, t := range typed {
		uri, err := h.uri(t)
		if err != nil {
			return nil, err
		}
		uris[i] = absolute(uri)
	}
	return uris, nil
}

// absolute makes a local path absolute, because tasks have other working directories.
func absolute(uri string) string {
	if scheme, _ := storage.SplitURI(uri); scheme == "" {
		if abs, err := filepath.Abs(uri); err == nil {
			return abs
		}
	}
	return uri
}

// commands sets the properties that follow from the options about mapper, reducer and
// formats.
func (j *hadoopStreamingJob) commands() error {
	if err := j.conf.ApplyOptions(j.Streaming); err != nil {
		return err
	}
	for _, file := range j.File {
		// The path of a shipped file as first word means the file in the task's directory.
		for _, c := range []*string{&j.Mapper, &j.Combiner, &j.Reducer} {
			// -file dir/map.py -mapper dir/map.py is the usual form, and the task has map.py in its
			// directory.
			word, rest, _ := strings.Cut(*c, " ")
			if word == file {
				*c = strings.TrimSpace(filepath.Base(word) + " " + rest)
			}
		}
	}
	return nil
}

// shipFiles copies the files and archives that the options name, from any storage, to a
// directory of this run. Tasks of this process link the copies, so that no task can change
// the originals; a cluster gets them uploaded.
func (j *hadoopStreamingJob) shipFiles() (status int, err error) {
	var files, archives []string
	// Each list is an option or property of Hadoop. Some name files, others archives that are
	// unpacked.
	for _, list := range []struct {
		paths []string
		to    *[]string
	}{
		{j.Files, &files}, {j.Generic.Jars, &files}, {j.File, &files}, {j.CacheFiles, &files},
		{hadoop.SplitList(j.conf.Get("tmpfiles", "")), &files}, {hadoop.SplitList(j.conf.Get("mapreduce.job.cache.files", "")), &files},
		{j.Archives, &archives}, {j.CacheArchives, &archives},
		{hadoop.SplitList(j.conf.Get("tmparchives", "")), &archives}, {hadoop.SplitList(j.conf.Get("mapreduce.job.cache.archives", "")), &archives},
	} {
		for _, item := range list.paths {
			// The name after # is the link in the task's directory.
			path, name, _ := strings.Cut(item, "#")
			name = cmp.Or(name, filepath.Base(strings.TrimSuffix(path, "/")))
			local, err := j.copyIn(path, list.to == &archives, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return hadoopFailed, fmt.Errorf("File %s does not exist.", path) //nolint:staticcheck // Hadoop's words
			case err != nil:
				return hadoopFailed, fmt.Errorf("%s: %w", path, err)
			}
			*list.to = append(*list.to, local+"#"+name)
		}
	}
	if err := distinct(append(files[:len(files):len(files)], archives...)); err != nil {
		return hadoopFailed, err
	}
	j.conf.Set("mapreduce.job.cache.files", strings.Join(files, ","))
	j.conf.Set("mapreduce.job.cache.archives", strings.Join(archives, ","))
	return 0, nil
}

// distinct returns an error if two shipped files have one name.
func distinct(items []string) error {
	seen := map[string]bool{}
	for _, item := range items {
		_, name, _ := strings.Cut(item, "#")
		if seen[name] {
			return fmt.Errorf("two shipped files have the name %s in the directory of the task; #NAME after a path gives another one", name)
		}
		seen[name] = true
	}
	return nil
}

// copyIn copies a file or an archive into the cache. It returns the path for the tasks of
// this process, or the name under which a cluster's workers provide the file.
func (j *hadoopStreamingJob) copyIn(path string, archive bool, name string) (string, error) {
	var err error
	if j.cache == "" {
		if j.cache, err = os.MkdirTemp("", "slotwise-cache-"); err != nil {
			return "", err
		}
	}
	// Files without a scheme are local, whatever the default file system is.
	uri := path
	if strings.Contains(path, ":") {
		if uri, err = j.uri(path); err != nil {
			return "", err
		}
	}
	l, err := j.locateURI(uri)
	if err != nil {
		return "", err
	}
	to := filepath.Join(j.cache, fmt.Sprintf("cache-%d", len(j.ship)))
	info, err := l.fs.Stat(j.ctx, l.path)
	if err != nil {
		return "", err
	}
	j.ship = append(j.ship, to)
	if info.Dir {
		if clusterAddress() != "" {
			return "", errors.New("is a directory; a cluster gets directories as archives (-archives)")
		}
		return to, copyDirectory(l, to)
	}
	// Executable for all: mappers are shipped as files, and a storage such as S3 keeps no mode.
	if err := j.copyFile(l, to, 0o555); err != nil {
		return "", err
	}
	switch {
	case clusterAddress() != "":
		return filepath.Base(to), nil
	case archive:
		dir := to + "-unpacked"
		return dir, stream.Unpack(to, dir, filepath.Base(path))
	}
	return to, nil
}

// copyDirectory copies a local directory that is shipped. The path of another storage is no local
// path, and must not lead to a directory of this machine that happens to have the name.
func copyDirectory(l *location, to string) error {
	if _, local := l.fs.(storage.Local); !local {
		return errors.New("is a directory of a storage; ship its files, or an archive of it (-archives)")
	}
	return os.CopyFS(to, os.DirFS(l.path))
}

// clusterAddress returns the address of the cluster's master, "" for this process.
func clusterAddress() string { return os.Getenv(envPrefix + "MASTER") }

// stampOfRun returns the number in the middle of the ids of a job: a constant on a cluster, whose
// jobs are numbered, and the time in a process. A given stamp is the one of an outer run, which has
// been printed already.
func stampOfRun(conf hadoop.Conf) int64 {
	if clusterAddress() != "" || conf.Get(hadoop.PropStamp, "") != "" {
		return hadoop.ClusterStamp
	}
	return time.Now().UnixMilli()
}

// hadoopRun runs a job and prints what Hadoop's client prints. The methods of progress are called
// by one goroutine at a time, and report after the last one.
//
// The lines come in this order: the splits, the ids and the address (begin); map and reduce in per
// cent, at most once a second and only on a change (progress); each failed attempt with the end of
// its log (attemptFailed); the outcome and, after a success, the counters (report); last, from the
// caller, Output directory or Job not successful! All go to standard error. What mrjob and Luigi
// look for in them is said at each one; a line that looks like another log line would end the
// record before it.
type hadoopRun struct {
	*hadoopCommand
	log        *hadoop.Log
	conf       hadoop.Conf
	background bool // do not wait for the job
	number     hadoop.JobNumber
	started    bool
	last       string // the last line of progress
	at         time.Time
	failed     int // failed attempts that were reported
}

// options returns the options of the run. A property that is read here must be in the table of
// package hadoop as one that acts. Else Conf.Check warns users that it has no effect.
func (t *hadoopRun) options(inputs []string, output string, ship []string) (mapreduce.Options, error) {
	c := t.conf
	o := mapreduce.Options{
		Features: features(), Inputs: inputs, Output: output, Stderr: t.err,
		// One reduce is Hadoop's default, unlike the choice of slotwise by the size of the input.
		Reduces: c.Int("mapreduce.job.reduces", 1),
		Request: mapreduce.Request{
			Pool:        hadoopQueue(c),
			MaxAttempts: max(c.Int("mapreduce.map.maxattempts", 0), c.Int("mapreduce.reduce.maxattempts", 0)),
		},
		Notify: notifyOn(t.err, "hadoop"), Progress: t.progress,
	}
	if v := c.Get("mapreduce.job.priority", ""); v != "" {
		var ok bool
		if o.Priority, ok = job.ParsePriority(v); !ok {
			return o, fmt.Errorf("mapreduce.job.priority=%s: must be one of VERY_LOW, LOW, NORMAL, HIGH and VERY_HIGH", v)
		}
	}
	if v := c.Get(hadoop.PropDeadline, ""); v != "" {
		var err error
		if o.Deadline, err = feature.ParseDeadline(v); err != nil {
			return o, fmt.Errorf("%s=%s: %w", hadoop.PropDeadline, v, err)
		}
	}
	// 0 means no limit to Hadoop, and the default to slotwise.
	if ms := c.Int("mapreduce.task.timeout", -1); ms == 0 {
		o.TaskTimeout = -1
	} else if ms > 0 {
		o.TaskTimeout = time.Duration(ms) * time.Millisecond
	}
	if v := c.Get("mapreduce.job.reduce.slowstart.completedmaps", ""); v != "" {
		share, err := strconv.ParseFloat(v, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return o, fmt.Errorf("mapreduce.job.reduce.slowstart.completedmaps=%s: must be from 0 to 1", v)
		}
		o.SlowStart = job.StartAfter(share)
	}
	// The codec of intermediate data is not visible to jobs, so Hadoop's choice of a class is
	// not needed.
	if c.Bool("mapreduce.map.output.compress", false) {
		o.Compress = "lz4"
	}
	var err error
	if o.OutputCompress, err = outputCodec(c); err != nil {
		return o, err
	}
	master := clusterAddress()
	// The rest concerns a cluster only: tasks of this process share its memory.
	if master == "" {
		return o, nil
	}
	// slotwise has one request for both kinds of tasks, so the larger one counts.
	o.TaskMemory = int64(max(c.Int("mapreduce.map.memory.mb", 0), c.Int("mapreduce.reduce.memory.mb", 0))) << 20
	o.TaskCPUs = max(c.Int("mapreduce.map.cpu.vcores", 0), c.Int("mapreduce.reduce.cpu.vcores", 0))
	r, err := clusterFromEnvironment(master)
	if err != nil {
		return o, err
	}
	r.Files, r.Detach, r.Accepted = ship, t.background, t.accepted
	o.Remote = r
	return o, nil
}

// clusterFromEnvironment returns the cluster of SLOTWISE_MASTER and the variables beside it, which
// have the names of the flags of slotwise submit. Scripts of Hadoop name a cluster by
// HADOOP_CONF_DIR, in files that say nothing about a slotwise master.
func clusterFromEnvironment(master string) (*remote.Cluster, error) {
	files := secure.Files{CA: os.Getenv(envName("tls-ca")), Cert: os.Getenv(envName("tls-cert")), Key: os.Getenv(envName("tls-key"))}
	url, client, err := secure.Dial(master, files, os.Getenv(envName("token-file")))
	if err != nil {
		return nil, err
	}
	return &remote.Cluster{Master: url, HTTP: client}, nil
}

// hadoopQueue returns the pool or queue of a job, "" for the default. default is the queue that
// Hadoop's Capacity Scheduler has without a file; here a pool of that name need not exist.
func hadoopQueue(c hadoop.Conf) string {
	q := c.Get("mapreduce.job.queuename", c.Get("mapred.fairscheduler.pool", ""))
	if q == "default" {
		return ""
	}
	return q
}

// outputCodec returns the codec of the job's output files. Only the last part of the class counts,
// since scripts write it with and without the package. The default is Hadoop's, zlib with the
// suffix .deflate.
func outputCodec(c hadoop.Conf) (string, error) {
	if !c.Bool("mapreduce.output.fileoutputformat.compress", false) {
		return "none", nil
	}
	switch class := c.Get("mapreduce.output.fileoutputformat.compress.codec", "DefaultCodec"); hadoop.SimpleName(class) {
	case "DefaultCodec", "DeflateCodec":
		return "deflate", nil
	case "GzipCodec":
		return "gzip", nil
	case "ZStandardCodec":
		return "zstd", nil
	case "SnappyCodec":
		return "snappy", nil
	case "Lz4Codec":
		return "lz4-hadoop", nil
	default:
		return "", fmt.Errorf("mapreduce.output.fileoutputformat.compress.codec=%s: output can be compressed by DefaultCodec, GzipCodec, SnappyCodec, Lz4Codec and ZStandardCodec of org.apache.hadoop.io.compress only", class)
	}
}

// checkOutput returns an error if the output exists. Hadoop accepts not even an empty
// directory.
func (t *hadoopRun) checkOutput(typed string) error {
	l, err := t.locate(typed)
	if err != nil {
		return err
	}
	_, err = l.fs.Stat(t.ctx, l.path)
	switch {
	case err == nil:
		return fmt.Errorf("Output directory %s already exists", typed) //nolint:staticcheck // Hadoop's words
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// run runs a job and returns the exit status.
func (t *hadoopRun) run(start func(context.Context, mapreduce.Options) ([]*mapreduce.Result, error), o mapreduce.Options) int {
	ctx := t.ctx
	type ended struct {
		results []*mapreduce.Result
		err     error
	}
	if o.Remote != nil {
		ctx = context.WithoutCancel(ctx) // an interrupt leaves the job running, as under Hadoop
	}
	// The job of a cluster is awaited in a goroutine, because an interrupt ends this command and not
	// the job. The channel has room, so the goroutine can end after that.
	done := make(chan ended, 1)
	go func() {
		r, err := start(ctx, o)
		done <- ended{r, err}
	}()
	var e ended
	select {
	case e = <-done:
	case <-t.interrupted(o.Remote != nil):
		return exitInterrupted
	}
	switch {
	// Before the case of an error: an interrupted submission is no failed one.
	case len(e.results) == 0 && t.ctx.Err() != nil:
		return exitInterrupted
	// Status 5 is StreamJob's for a missing input and for an output that exists alike; scripts that
	// test for one test for both.
	case len(e.results) == 0:
		t.log.Line("ERROR", "streaming.StreamJob", "Error Launching job : %s", oneLine(e.err))
		// The same command would fail again, unlike one that met an unavailable cluster.
		if errors.Is(e.err, input.ErrUnreadable) {
			return exitMisuse
		}
		return hadoopSubmission
	case t.background:
		return 0
	}
	status := t.report(e.results[len(e.results)-1], e.err)
	// A job that has succeeded in spite of the interrupt keeps its status.
	if status != 0 && t.ctx.Err() != nil {
		return exitInterrupted
	}
	return status
}

// interrupted returns a channel that is closed by an interrupt. For a job of this process,
// which the interrupt kills, it never is.
func (t *hadoopRun) interrupted(isRemote bool) <-chan struct{} {
	if isRemote {
		return t.ctx.Done()
	}
	return nil
}

// accepted prints the id of a job of a cluster.
func (t *hadoopRun) accepted(id string) { t.begin(id, 0) }

// begin prints the first lines about a job. mrjob and Luigi read the ids of the job and of the
// application from them, and Luigi the address to track it. It kills a job by these ids.
func (t *hadoopRun) begin(id string, maps int) {
	if t.started {
		return
	}
	t.started = true
	stamp, err := strconv.ParseInt(t.conf.Get(hadoop.PropStamp, ""), 10, 64)
	if err != nil {
		stamp = hadoop.ClusterStamp
	}
	// The lines below name the job by its number, and such an id has none.
	if t.number, err = hadoop.NumberOf(stamp, id); err != nil {
		return
	}
	// Unknown when a cluster accepts the job; the first progress comes too late for this line.
	if maps > 0 {
		t.log.Info("mapreduce.JobSubmitter", "number of splits:%d", maps)
	}
	t.log.Info("mapreduce.JobSubmitter", "Submitting tokens for job: %s", t.number.Job())
	t.log.Info("impl.YarnClientImpl", "Submitted application %s", t.number.Application())
	// Luigi shows the address to its users; without a cluster there is no page, and the line must be
	// there.
	url := "http://localhost/"
	if master := clusterAddress(); master != "" {
		url = "http://" + strings.TrimPrefix(strings.TrimPrefix(master, "https://"), "http://") + "/"
	}
	t.log.Info("mapreduce.Job", "The url to track the job: %s", url)
	t.log.Info("mapreduce.Job", "Running job: %s", t.number.Job())
}

// progressEvery is the interval of progress lines.
const progressEvery = time.Second

// progress prints the state of the job.
func (t *hadoopRun) progress(p mapreduce.Progress) {
	t.begin(p.ID, p.Maps)
	if p.Failed > t.failed {
		t.failed = p.Failed
		t.attemptFailed(p.LastError)
	}
	now := time.Now()
	// The first line comes at once, and later ones on a change, at most one a second, as from Hadoop's
	// client.
	if t.last != "" && now.Sub(t.at) < progressEvery {
		return
	}
	reduces := 0
	if p.Reduces > 0 {
		reduces = hadoop.Percent(p.ReduceFrac, p.ReducesDone == p.Reduces)
	}
	t.percent(hadoop.Percent(p.MapFrac, p.MapsDone == p.Maps), reduces, now)
}

// percent prints a line of progress, unless it equals the previous line. The blank at its beginning
// is Hadoop's.
func (t *hadoopRun) percent(maps, reduces int, now time.Time) {
	line := fmt.Sprintf(" map %d%% reduce %d%%", maps, reduces)
	if line != t.last {
		t.last, t.at = line, now
		t.log.Info("mapreduce.Job", "%s", line)
	}
}

// attemptFailed prints the failure of an attempt, with the end of its log in lines of their own.
// The diagnostics have no prefix: mrjob joins such lines to the record before them, and prints them
// as the probable cause of the failure.
func (t *hadoopRun) attemptFailed(text string) {
	id, why, _ := strings.Cut(text, ": ")
	// An id of another form, such as a driver's, is printed unchanged.
	name := id
	if parts := strings.Split(id, "_"); len(parts) == 4 {
		index, err1 := strconv.Atoi(parts[2])
		try, err2 := strconv.Atoi(parts[3])
		if err1 == nil && err2 == nil {
			name = t.number.Attempt(parts[1][0], index, try)
		}
	}
	t.log.Info("mapreduce.Job", "Task Id : %s, Status : FAILED", name)
	// Hadoop's words for a command that has failed, PipeMapRed's exception in Java. The lines of the
	// log follow it; " | " parts them in the message of the attempt.
	io.WriteString(t.err, "Error: java.lang.RuntimeException: "+strings.ReplaceAll(why, " | ", "\n")+"\n")
}

// report prints the end of a job and its counters, and returns the exit status.
func (t *hadoopRun) report(r *mapreduce.Result, err error) int {
	t.begin(r.ID, r.Maps)
	if r.State != "succeeded" {
		// The attempt that has failed the job: its failure comes with the end of the job, and not as
		// progress.
		if r.Failures > t.failed && err != nil {
			t.attemptFailed(attemptIn(err.Error()))
		}
		t.log.Info("mapreduce.Job", "Job %s failed with state %s due to: %s", t.number.Job(), strings.ToUpper(r.State), oneLine(cmp.Or(err, errors.New("unknown"))))
		return hadoopFailed
	}
	reduces := 0
	if r.Reduces > 0 {
		reduces = 100
	}
	// Always, also for a job that was too fast for a report: log readers take the last line for the
	// progress.
	t.percent(100, reduces, time.Now())
	t.log.Info("mapreduce.Job", "Job %s completed successfully", t.number.Job())
	s := hadoop.Stats{
		Maps: r.Maps, Reduces: r.Reduces, Failures: r.Failures, Local: r.Locality.Node, Rack: r.Locality.Rack,
		MapMillis: r.SlotTime.Map.Milliseconds(), ReduceMillis: r.SlotTime.Reduce.Milliseconds(), Counters: r.Counters, User: r.User,
	}
	// mrjob takes lines without a prefix behind the counters for more counters, so only lines of the
	// log may follow.
	t.log.WriteCounters(s.Groups())
	for _, text := range terminal.Warnings(r.ID, r.User) {
		t.log.Line("WARN", "mapreduce.Job", "%s", text)
	}
	return 0
}

// attemptID finds the id of an attempt in a message.
var attemptID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`j\d+_[mr]_\d+_\d+`) })

// attemptIn returns the part of a message that begins with the id of an attempt.
func attemptIn(text string) string {
	if i := attemptID().FindStringIndex(text); i != nil {
		return text[i[0]:]
	}
	return text
}

// locateURI resolves a URI of a storage.
func (h *hadoopCommand) locateURI(uri string) (*location, error) {
	fsys, path, err := storages().Resolve(uri)
	return &location{typed: uri, fs: fsys, path: path}, err
}

// copyFile copies a file to a new local one with the given permissions.
func (h *hadoopCommand) copyFile(l *location, to string, mode os.FileMode) error {
	f, err := l.fs.Open(h.ctx, l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Writable while it is copied; Chmod takes the right away at the end.
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(f, 0, f.Size()))
	return errors.Join(err, w.Chmod(mode), w.Close())
}
