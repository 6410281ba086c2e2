package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// The values of flags with a fixed set of words.
var (
	codecs = []string{"none", "lz4", "s2", "zstd"}
)

// runFlags are the flags of run; submit has most flags, and profile some. mapreduce.Options
// describes the meaning of zero values. A flag that is a zero value unless it is given needs no
// test of whether it was: options passes it on. The field given is for flags whose zero is wrong.
type runFlags struct {
	policyFlags
	inputs, include, exclude       []string
	format, outputFormat           string
	columns, outputColumns, where  []string
	missing                        string
	output, merge                  string
	overwrite, force, sync         bool
	mapper, combiner, reducer      string
	params                         []string
	reduces                        int
	splitSize, memory              terminal.Size
	compress, outputCompress       string
	workers, mapSlots, reduceSlots int
	request                        job.Request
	tempDir, events                string
	ui, history                    string
	name, jobs, learned            string
	alone, explain, dryRun         bool
	heartbeat                      time.Duration
	storageRetry                   time.Duration
	json, quiet, noProgress        bool
	given                          func(flag string) bool // whether a flag was given; set by registerData, nil in commands without it
}

// register declares the flags in the order of the help text: the program and its data, the cluster,
// the job, and the output of the command. What a program of mapreduce.Main has, too, is declared by
// package feature, so that the two cannot differ in a name, a default or a help text.
func (f *runFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	f.registerData(s)
	s.StringVar(&f.merge, "merge", "", "write the result to this one local `file`, in the order of the parts, instead of --output")
	local := feature.LocalFlags{Memory: &f.memory, TempDir: &f.tempDir, Workers: &f.workers}
	local.Declare(jobFlagSet{s})
	s.BoolVar(&f.sync, "sync", true, "end a job when a local output would survive a power cut; --sync=false is faster")
	s.IntVar(&f.mapSlots, "map-slots", 0, "`number` of map slots of a worker (default 1)")
	s.IntVar(&f.reduceSlots, "reduce-slots", 0, "`number` of reduce slots of a worker (default 1)")
	f.policyFlags.register(c)

	s.StringVar(&f.learned, "learned", "", "`file` in which the policy keeps what it has learned from run to run")
	s.DurationVar(&f.heartbeat, "heartbeat", 0, "`time` between a worker's heartbeats (default: at once; 100ms for policies that learn from them)")

	s.StringVar(&f.jobs, "jobs", "", "run the jobs that this YAML `file` lists, side by side; slotwise formats jobmix describes it")
	s.BoolVar(&f.alone, "alone", false, "run each job of --jobs by itself first, and print its slowdown")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the input's files and bytes, the tasks and the memory of the job, and do not run it; of a chain, of its first job")
	s.BoolVar(&f.explain, "explain", false, "print at the end why each job waited longest")

	feature.DeclareRequest(jobFlagSet{s}, &f.request)

	s.StringVar(&f.events, "events", "", "write a line for each scheduling event to this `file`; one that is not empty needs --overwrite")
	// An address is optional, so --ui ADDRESS is read as --ui and an argument; --ui=ADDRESS is needed.
	s.StringVar(&f.ui, "ui", "", "show the run in a browser while it runs, at this `address` of this machine (--ui alone chooses a port)")
	s.Lookup("ui").NoOptDefVal = "127.0.0.1:0"
	s.StringVar(&f.history, "history", "", "keep a record of the ended jobs in this `directory`, for slotwise ui history:DIR and sim --workload history:DIR")
	f.registerShow(c)
	groupJobFlags(c, []string{"input", "output", "overwrite", "mapper", "reducer", "param", "reduces", "memory", "workers", "policy", "jobs", "dry-run", "explain", "ui", "print", "quiet"})
	completeJob(c)
}

// groupJobFlags groups the flags of run or of submit in the help, behind the common ones. One table
// serves both: a flag that the command does not have is left out, and an empty group with it.
func groupJobFlags(c *cobra.Command, common []string) {
	groups := []group{
		{"Input", []string{"include", "exclude", "format", "columns", "where", "missing", "split-size"}},
		{"Output", []string{"force", "output-format", "output-columns", "output-compress", "merge", "sync"}},
		{"Tasks", []string{"combiner", "compress", "map-slots", "reduce-slots", "temp-dir", "task-memory", "task-cpus"}},
		{"Scheduling", []string{"policy-config", "policy-set", "fair-scheduler", "capacity-scheduler", "learned", "heartbeat", "slow-start",
			"user", "pool", "priority", "deadline", "alone", "seed"}},
		{"Failures", []string{"task-timeout", "max-attempts", "storage-retry"}},
		{"Watching", []string{"name", "history", "events", "no-progress"}},
		{"Connection", []string{"tls-ca", "tls-cert", "tls-key", "token-file", "config"}},
	}
	for i := range groups {
		groups[i].flags = slices.DeleteFunc(groups[i].flags, func(name string) bool { return c.Flags().Lookup(name) == nil })
	}
	groupFlags(c, common, slices.DeleteFunc(groups, func(g group) bool { return len(g.flags) == 0 })...)
}

// jobFlagSet is a set of flags to which feature adds the flags that programs of mapreduce.Main
// have, too. Those use package flag, which links less; feature.FlagSet has the methods of both
// packages.
type jobFlagSet struct{ *pflag.FlagSet }

// Value implements feature.FlagSet.
func (s jobFlagSet) Value(v feature.FlagValue, name, usage string) { s.Var(v, name, usage) }

// registerData declares the flags about the program and its data.
func (f *runFlags) registerData(s *pflag.FlagSet) {
	f.given = s.Changed
	data := feature.DataFlags{
		Name: &f.name, Inputs: &f.inputs, Include: &f.include, Exclude: &f.exclude, Format: &f.format, Missing: &f.missing,
		Columns: &f.columns, Where: &f.where, Output: &f.output, Overwrite: &f.overwrite, Force: &f.force,
		OutputFormat: &f.outputFormat, OutputCompress: &f.outputCompress, OutputColumns: &f.outputColumns,
		Reduces: &f.reduces, SplitSize: &f.splitSize, Compress: &f.compress, StorageRetry: &f.storageRetry,
	}
	data.Declare(jobFlagSet{s})
	fromCommandLineOnly(s, "name")
	s.StringArrayVar(&f.params, "param", nil, "parameter of the app, `name=value` (repeatable)")

	s.StringVar(&f.mapper, "mapper", "", "`command` that maps, for a streaming job")
	s.StringVar(&f.combiner, "combiner", "", "`command` that combines map output (streaming)")
	s.StringVar(&f.reducer, "reducer", "", "`command` that reduces (streaming); without one, mappers write the output")

}

// registerShow declares the flags about the output of the command.
func (f *runFlags) registerShow(c *cobra.Command) {
	s := c.Flags()
	addPrint(c, &f.json)
	s.BoolVar(&f.noProgress, "no-progress", false, "do not show progress")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but results and errors")
}

// completeJob adds shell completion for the values of a job's flags. Flags without a list of words,
// such as --input, complete file names, which is the shell's default.
func completeJob(c *cobra.Command) {
	completeWords(c, "format", format.Names)
	completeWords(c, "missing", []string{format.MissingNull, format.MissingError})
	completeWords(c, "output-format", format.OutputNames)
	completeWords(c, "compress", codecs)
	completeWords(c, "output-compress", output.CodecNames)
	completeWords(c, "priority", feature.Priorities)
}

// completeFirst completes the first argument of a command to one of names, and the others as rest says.
func completeFirst(names func() []string, rest cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, rest
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords makes a flag's value complete to one of words.
func completeWords(c *cobra.Command, flag string, words []string) {
	completeWith(c, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeWith makes a flag's value complete to the results of f.
func completeWith(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the only error is a flag that does not exist
	}
}

// options checks the flags and returns the options of a run. args are further inputs. It touches no
// input and no output; check does. So a wrong value is reported before a call to a storage, which
// may take a minute to answer.
func (f *runFlags) options(args []string) (mapreduce.Options, error) {
	o := mapreduce.Options{
		Name:     f.name,
		Features: features(),
		// The slice is cut to its capacity, so that append copies it: f.inputs must stay as the
		// user gave them.
		Inputs:         append(f.inputs[:len(f.inputs):len(f.inputs)], args...),
		Include:        f.include,
		Exclude:        f.exclude,
		Format:         f.format,
		Columns:        f.columns,
		Where:          f.where,
		Missing:        f.missing,
		Output:         f.output,
		Overwrite:      f.overwrite,
		Force:          f.force,
		Reduces:        f.reduces,
		SplitSize:      int64(f.splitSize),
		Compress:       f.compress,
		OutputCompress: f.outputCompress,
		OutputFormat:   f.outputFormat,
		OutputColumns:  f.outputColumns,
		Request:        f.request,
		// 0 turns the wait off on the command line, and is the default in Options, where -1 turns it
		// off.
		StorageRetry: cmp.Or(f.storageRetry, -1),
		Cluster: mapreduce.ClusterOptions{
			Workers:     f.workers,
			MapSlots:    f.mapSlots,
			ReduceSlots: f.reduceSlots,
			Memory:      int64(f.memory),
			TempDir:     f.tempDir,
			Seed:        f.seed,
			Heartbeat:   f.heartbeat,
			Policies:    f.setup.tables,

			FairScheduler:     f.fairScheduler,
			CapacityScheduler: f.capacityFile,
			Explain:           f.explain,
			NoSync:            !f.sync,
		},
	}
	if err := f.checkValues(); err != nil {
		return o, err
	}
	set, err := f.policySettings()
	if err != nil {
		return o, err
	}
	o.Cluster.Policy, o.Cluster.PolicySet = f.policy, set
	// In this order: a policy that cannot be built would be reported as one that does not take the
	// file.
	if err := f.checkPolicy(set); err != nil {
		return o, err
	}
	return o, f.checkHadoopFiles(nil)
}

// outputRows returns the format of the output files, nil for the job's own.
func (f *runFlags) outputRows() (*format.Output, error) {
	// By itself first, so that the error names the flag that is wrong; then with the columns, which are
	// a part of the format's text.
	if _, err := format.ParseOutput(f.outputFormat); err != nil {
		return nil, misuse("--output-format %w", err)
	}
	if len(f.outputColumns) == 0 {
		return format.ParseOutput(f.outputFormat)
	}
	columns := strings.Join(f.outputColumns, ",")
	rows, err := format.ParseOutput(f.outputFormat + ",columns=" + columns)
	if err != nil {
		return nil, misuse("--output-columns %s: %w", columns, err)
	}
	return rows, nil
}

// checkOutputFormat returns an error for a wrong --output-format or --output-columns, or a codec
// that does not go with the format. Whether part files can be joined to one stream depends on both.
func (f *runFlags) checkOutputFormat() error {
	rows, err := f.outputRows()
	if err != nil || rows == nil {
		return err
	}
	if err := rows.CheckCodec(f.outputCompress); err != nil {
		return misuse("--output-compress %s: %w", f.outputCompress, err)
	}
	flag := "--output -"
	switch {
	case f.merge != "":
		flag = "--merge " + f.merge
	case f.output == "":
		flag = "standard output"
	case f.output != standard:
		return nil
	}
	switch {
	// Such a file has its own header and footer, and a reader looks for one of each.
	case rows.InParts():
		return misuse("%s: files of format %s cannot be joined: use --output DIR, with --reduces 1 for one file", flag, rows.Name)
	// print skips the header of later parts, and cannot do so within compressed bytes.
	case rows.Name == format.CSV && !rows.NoHeader && f.outputCompress != "none":
		return misuse("%s: compressed CSV files with headers cannot be joined: use --output-format csv,header=no", flag)
	}
	return nil
}

// checkFormat returns an error for a wrong --format, --missing, --where or --columns.
func (f *runFlags) checkFormat() error {
	choice := format.Choice{Format: f.format, Missing: f.missing, Where: f.where, Columns: f.columns}
	if _, err := choice.Spec(); err != nil {
		return misuseError{err}
	}
	return nil
}

// inputFlag returns the name of a flag that chooses files or records of the input, or "" if none is given.
func (f *runFlags) inputFlag() string {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"include", len(f.include) > 0}, {"exclude", len(f.exclude) > 0}, {"format", f.format != ""},
		{"columns", len(f.columns) > 0}, {"where", len(f.where) > 0}, {"missing", f.missing != ""},
	} {
		if flag.given {
			return flag.name
		}
	}
	return ""
}

// checkGlobs returns an error for a wrong --include or --exclude.
func (f *runFlags) checkGlobs() error {
	for _, g := range []struct {
		flag  string
		globs []string
	}{{"include", f.include}, {"exclude", f.exclude}} {
		for _, glob := range g.globs {
			// Match reports a bad pattern for any name.
			if _, err := path.Match(glob, ""); err != nil {
				return misuse("--%s %s: %w", g.flag, glob, err)
			}
		}
	}
	return nil
}

// checkValues returns an error for values that no job can have. Each error names the flag, so that
// a user does not see the name of a field, and a task does not fail hours later.
func (f *runFlags) checkValues() error {
	if err := cmp.Or(bounds.CheckName("--name", f.name), bounds.CheckName("--user", f.request.User), bounds.CheckName("--pool", f.request.Pool)); err != nil {
		return misuseError{err}
	}
	if err := f.checkFormat(); err != nil {
		return err
	}
	if err := f.checkOutputFormat(); err != nil {
		return err
	}
	if err := f.checkGlobs(); err != nil {
		return err
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"reduces", f.reduces},
		{"workers", f.workers},
		{"map-slots", f.mapSlots},
		{"reduce-slots", f.reduceSlots},
	} {
		// 0 is the default of these flags and means "the job's choice". A user who types 0 means
		// something else.
		if n.flag == "reduces" && n.value == 0 && f.given != nil && f.given(n.flag) {
			return misuse("--reduces 0: must be positive; a streaming job without --reducer has maps only")
		}
		if n.value < 0 || n.value == 0 && f.given != nil && f.given(n.flag) {
			return misuse("--%s %d: must be positive", n.flag, n.value)
		}
	}
	if f.reduces > mapreduce.MaxReduces {
		return misuse("--reduces %d: at most %d; each reduce writes a file", f.reduces, mapreduce.MaxReduces)
	}
	// Tasks would fail one by one, each with an error about a scratch file.
	if f.tempDir != "" {
		info, err := os.Stat(f.tempDir)
		switch {
		// Also a storage that stays away: the job cannot start, and another output may.
		case err != nil:
			return misuse("--temp-dir %s: %w", f.tempDir, reason(err))
		case !info.IsDir():
			return misuse("--temp-dir %s: is a file, and a directory is needed", f.tempDir)
		}
	}
	if f.heartbeat < 0 {
		return misuse("--heartbeat %v: must not be negative", f.heartbeat)
	}
	if f.storageRetry < 0 || f.storageRetry > maxStorageRetry {
		return misuse("--storage-retry %v: must be from 0 to %v", f.storageRetry, maxStorageRetry)
	}
	for _, w := range []struct {
		flag, value string
		known       []string
	}{
		{"compress", f.compress, codecs},
		{"output-compress", f.outputCompress, output.CodecNames},
	} {
		if err := oneOf(w.flag, w.value, w.known); err != nil {
			return err
		}
	}
	return f.checkMemory()
}

// oneOf returns an error if a flag's value is not one of the known words.
func oneOf(flag, value string, known []string) error {
	for _, k := range known {
		if k == value {
			return nil
		}
	}
	return unknown("--"+flag+" value", value, known)
}

// policyFlags select the scheduling policy of a run or of a cluster. A master and run share them,
// so a policy is tried on one machine with the command line that a cluster will have.
type policyFlags struct {
	setup *setup
	// "" is the default policy.
	policy, policyConfig        string
	policySet                   []string
	fairScheduler, capacityFile string
	// Any number, 0 included.
	seed uint64
}

// register declares the flags.
func (f *policyFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.policy, "policy", "", "scheduling `policy` (slotwise policies lists them; default fifo)")
	s.StringVar(&f.policyConfig, "policy-config", "", "`file` with parameters of the policy: a YAML mapping of names to values")
	s.StringArrayVar(&f.policySet, "policy-set", nil, "one parameter of the policy, `name=value` (repeatable)")
	s.StringVar(&f.fairScheduler, "fair-scheduler", "", "Hadoop's allocation `file` of pools, for the policy fair; reloaded when it changes")
	s.StringVar(&f.capacityFile, "capacity-scheduler", "", "Hadoop's `file` of queues, for the policy capacity; reloaded when it changes")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of random numbers in scheduling")
	completeWith(c, "policy", f.setup.completePolicies)
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	// --set of slotwise policy sets a parameter, and users type it here, too.
	if _, own := c.Annotations[elsewhere+"set"]; !own {
		c.Annotations[elsewhere+"set"] = "--policy-set name=value sets a parameter of the policy"
	}
}

// policySettings returns the policy's parameters. --policy-config names a YAML
// file with a mapping of names to values; --policy-set overrides it.
func (f *policyFlags) policySettings() (map[string]string, error) {
	set := map[string]string{}
	if f.policyConfig != "" {
		text, err := os.ReadFile(f.policyConfig)
		if err != nil {
			return nil, misuse("--policy-config %s: %w", f.policyConfig, reason(err))
		}
		// YAML turns numbers and booleans into their text here, so a value needs no quotes.
		if err := yaml.Unmarshal(text, &set); err != nil {
			return nil, misuse("--policy-config %s: %w", f.policyConfig, err)
		}
	}
	given, err := parseAssignments("policy-set", f.policySet)
	if err != nil {
		return nil, err
	}
	// After the file, because the command line is nearer to the user.
	maps.Copy(set, given)
	return set, nil
}

// checkPolicy returns an error for a policy that cannot be built, before anything is started. No
// policy and no parameters is the default policy, which need not be built twice.
func (f *policyFlags) checkPolicy(set map[string]string) error {
	if f.policy == "" && len(set) == 0 {
		return nil
	}
	spec := f.policy
	if spec == "" {
		spec = policies.Default
	}
	_, err := f.setup.policies().Build(spec, sched.Options{Seed: f.seed, Set: set, Live: true})
	if err == nil {
		return nil
	}
	// Built again without the parameters, to find which of the two flags is wrong: the error of Build
	// does not say.
	if _, bare := f.setup.policies().Build(spec, sched.Options{Seed: f.seed, Live: true}); bare != nil {
		return misuse("--policy %s: %w", spec, bare)
	}
	flag := "--policy-set"
	if f.policyConfig != "" {
		flag = fmt.Sprintf("--policy-set or --policy-config %s", f.policyConfig)
	}
	return misuse("%s: %w", flag, err)
}

// checkHadoopFiles returns an error that names the flag if one of Hadoop's
// configuration files cannot be read, is not valid, or suits no policy, of this one and of others.
//
// The file is read again when the cluster starts. Here a mistake costs nothing and names the flag.
func (f *policyFlags) checkHadoopFiles(others []string) error {
	specs := []string{cmp.Or(f.policy, policies.Default)}
	for _, o := range others {
		if o != specs[0] {
			specs = append(specs, o)
		}
	}
	list := study.NewPolicies(f.setup.policies(), specs)
	for _, x := range []struct {
		flag, path string
		use        func(file string) (warnings []string, err error)
	}{
		{"fair-scheduler", f.fairScheduler, list.UsePools},
		{"capacity-scheduler", f.capacityFile, list.UseQueues},
	} {
		if x.path == "" {
			continue
		}
		// The parser's error for a missing file would not name the flag's value first.
		if _, err := os.Stat(x.path); err != nil {
			return misuse("--%s %s: %w", x.flag, x.path, reason(err))
		}
		if _, err := x.use(x.path); err != nil {
			return misuse("--%s %w", x.flag, err)
		}
	}
	return nil
}

// checkInput returns an error if an input does not exist, before anything is started. The
// error begins with what, which says where the input is named, and the input. Of a glob it
// checks only that the pattern is valid; planning finds its files.
func checkInput(ctx context.Context, what, uri string, w feature.Outages) error {
	// Listing a bucket for a pattern may take minutes, and planning does it anyway.
	if strings.ContainsAny(uri, `*?[{`) {
		if err := input.CheckGlob(uri); err != nil {
			return misuse("%s %s: %w", what, uri, err)
		}
		return nil
	}
	files, path, err := storages().Resolve(uri)
	if err != nil {
		return misuse("%s: %w", what, err)
	}
	if _, err := retry.Do(ctx, w.ForStorage("the storage of "+what+" "+uri), func(ctx context.Context) (storage.Info, error) { return files.Stat(ctx, path) }); err != nil {
		return misuse("%s %s: %w", what, uri, reason(err))
	}
	return nil
}

// checkMemory returns an error for a memory limit that is too small for the tasks or greater than
// the machine's memory. The cluster would refuse both, in terms of bytes and without the flags that
// change the numbers.
func (f *runFlags) checkMemory() error {
	workers, maps, reduces := cmp.Or(f.workers, runtime.NumCPU()), cmp.Or(f.mapSlots, 1), cmp.Or(f.reduceSlots, 1)
	least := terminal.Size(local.MinMemory * workers * (maps + reduces))
	// The default is a share of this machine, so it is not the user's mistake if it is too little.
	if f.memory != 0 && f.memory < least {
		return misuse("--memory %s: too little for %s of %d+%d slots; the least is %s",
			f.memory, terminal.Plural(workers, "worker"), maps, reduces, least)
	}
	return checkKnownMemory(f.memory)
}

// checkKnownMemory returns an error if the value of --memory is more than this machine has.
func checkKnownMemory(memory terminal.Size) error {
	if total, known := local.KnownMemory(); known && int64(memory) > total {
		return misuse("--memory %s: this machine (or container) has %s; name less, or leave the flag out for a share of that",
			memory, terminal.Bytes(total))
	}
	return nil
}

// checkOutput returns an error if replacing the output directory would lose
// data. A chain of jobs would otherwise fail after hours.
//
// Only a directory that does not exist, or is empty, needs no permission. The commit looks again:
// another job may have written there meanwhile.
func checkOutput(ctx context.Context, uri string, replace storage.Replace, w feature.Outages) error {
	files, path, err := storages().Resolve(uri)
	if err != nil {
		return misuse("--output: %w", err)
	}
	wait := w.ForStorage("the storage of --output " + uri)
	info, err := retry.Do(ctx, wait, func(ctx context.Context) (storage.Info, error) { return files.Stat(ctx, path) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return misuse("--output %s: %w", uri, reason(err))
	case !info.Dir:
		return misuse("--output %s: is a file, not a directory", uri)
	}
	// CheckOutput applies the rule of the commit to the files in the directory.
	_, err = retry.Do(ctx, wait, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, storage.CheckOutput(ctx, files, path, replace)
	})
	switch {
	case errors.Is(err, fs.ErrExist) && replace == storage.ReplaceNothing:
		return misuse("--output %s: exists and is not empty; --overwrite replaces an earlier job's output", uri)
	case err != nil:
		return misuse("--output %s: %w", uri, reason(err))
	}
	return nil
}

// reason removes the path from an error, because the caller names it already.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
