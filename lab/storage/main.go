// Command storage measures how fast slotwise reads and writes HDFS and S3, beside Hadoop's
// own client and s5cmd, on real servers that it starts on this machine.
//
//	go -C lab run ./storage                 three rounds with 1 GiB (about five minutes)
//	go -C lab run ./storage -size 64 -n 1   64 MiB, to try it out
//
// A row has two contestants that move the same bytes. They run in turns. Each also runs
// on empty files, and the time of that is subtracted, because the start of a Java
// process would otherwise count as slow storage. All run on the processors that the
// servers need as well, so a client that computes less also gets a faster server.
// Before the first round the bytes that each contestant moves are compared.
//
// The servers are the same as in tests: a NameNode with four DataNodes and two replicas of a
// block, and a versitygw. Their files are in the page cache. It needs Java and Maven.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/lab/harness"
)

// minRatio is the limit for our rate divided by the other client's.
const minRatio = 0.9

// settings are the flags.
type settings struct {
	rounds int
	size   int64 // bytes of input
	only   *regexp.Regexp
	data   string // directory of inputs and servers
	json   string // file of results
}

func main() {
	harness.Main("storage", func(ctx context.Context) error {
		s, err := parseFlags(os.Args[1:])
		if err != nil {
			return err
		}
		return run(ctx, s)
	})
}

func parseFlags(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("storage", flag.ExitOnError)
	fs.IntVar(&s.rounds, "n", 3, "rounds; the median counts")
	size := fs.Int64("size", 1024, "MiB of input, in four files")
	only := fs.String("only", "", "run only rows whose name matches this regular expression")
	fs.StringVar(&s.data, "data", filepath.Join("data", "storage"), "directory of inputs and of the servers' files; emptied at the end")
	fs.StringVar(&s.json, "json", filepath.Join("data", "results", "storage.json"), "file of results")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 || s.rounds < 1 || *size < 4 {
		return nil, errors.New("usage: storage [-n ROUNDS] [-size MIB] [-only REGEXP], with at least one round and 4 MiB")
	}
	s.size = *size * harness.MiB
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if s.data, err = filepath.Abs(s.data); err != nil {
		return nil, err
	}
	return s, nil
}

func run(ctx context.Context, s *settings) (err error) {
	if err := errors.Join(os.RemoveAll(s.data), os.MkdirAll(s.data, 0o777)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.data)) }()
	b := &bench{settings: s, binary: filepath.Join(s.data, "slotwise"), s5cmd: filepath.Join(s.data, "s5cmd")}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	hdfs, err := harness.StartServers(b.keeper, "hdfs", filepath.Join(s.data, "hdfs"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hdfs.Stop()) }()
	s3, err := harness.StartServers(b.keeper, "s3", filepath.Join(s.data, "s3"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s3.Stop()) }()
	if err := b.makeDirs(ctx, hdfs); err != nil {
		return err
	}
	rows := append(b.hdfsRows(hdfs), b.s3Rows(s3)...)
	if !slices.ContainsFunc(rows, func(r row) bool { return s.only.MatchString(r.name) }) {
		return fmt.Errorf("-only: no row's name matches %q", s.only)
	}
	for _, r := range rows {
		if r.writes {
			if err := b.fill(ctx, r.ours); err != nil {
				return err
			}
		}
	}
	var results []*result
	for _, r := range rows {
		if !s.only.MatchString(r.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s\n", r.name)
		res, err := b.measure(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		results = append(results, res)
	}
	report(os.Stdout, results)
	return harness.WriteJSON(s.json, results)
}

// bench is a run of this command.
type bench struct {
	*settings
	binary, s5cmd, keeper string // programs
}

// prepare builds the programs and makes the inputs: the directories full, with four files,
// and empty, with four files of no bytes.
func (b *bench) prepare(ctx context.Context) (err error) {
	if err := harness.Build(ctx, b.binary); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.s5cmd, "github.com/peak/s5cmd/v2")
	build.Dir = filepath.Join("storage", "s5cmd")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building s5cmd: %w\n%s", err, out)
	}
	if b.keeper, err = harness.BuildKeeper(ctx, b.data); err != nil {
		return err
	}
	for _, kind := range []string{"hdfs", "s3"} {
		if err := harness.PrepareServers(b.keeper, kind); err != nil {
			return err
		}
	}
	for _, dir := range []string{"full", "empty"} {
		if err := os.Mkdir(filepath.Join(b.data, dir), 0o777); err != nil {
			return err
		}
	}
	for i, name := range files {
		made := filepath.Join(b.data, "made")
		cmd := exec.CommandContext(ctx, b.binary, "generate", "text", "--overwrite",
			"--size", strconv.FormatInt(b.size/int64(len(files)), 10), "--seed", strconv.Itoa(i+1), "--output", made)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("slotwise generate: %w\n%s", err, out)
		}
		err := errors.Join(
			os.Rename(filepath.Join(made, "text-00000.txt"), filepath.Join(b.data, "full", name)),
			os.WriteFile(filepath.Join(b.data, "empty", name), nil, 0o666))
		if err != nil {
			return err
		}
	}
	return nil
}

// files are the names of an input's files. Where two clients run at once, one reads the
// files a* and the other b*.
var files = []string{"a0", "a1", "b0", "b1"}

// A row compares slotwise with one other client.
type row struct {
	name         string
	ours, theirs contestant
	same         bool // both write the files' bytes to standard output
	writes       bool // our client writes the files that the other rows read
}

// contestant has the commands that a client runs at the same time for an input, which is
// "full" or "empty".
type contestant struct {
	name     string
	commands func(input string) [][]string
	env      []string
}

// makeDirs makes the directories of HDFS that clients write to.
func (b *bench) makeDirs(ctx context.Context, s *harness.Servers) error {
	argv := []string{"hadoop", "fs", "-mkdir", "-p"}
	for _, dir := range []string{"full", "empty"} {
		argv = append(argv, hdfsRoot(s)+"/"+dir, hdfsRoot(s)+"/"+theirs+dir)
	}
	cmd := exec.CommandContext(ctx, b.binary, argv...)
	cmd.Env = append(os.Environ(), s.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making directories: %w\n%s", err, out)
	}
	return nil
}

// fill writes the files that rows read.
func (b *bench) fill(ctx context.Context, c contestant) error {
	for _, input := range []string{"full", "empty"} {
		if _, _, err := once(ctx, c, input, nil); err != nil {
			return err
		}
	}
	return nil
}

// hdfsRoot returns the URI of the root directory.
func hdfsRoot(s *harness.Servers) string { return "hdfs://" + s.Cluster.Address }

// theirs begins the names of the directories that the other clients write.
const theirs = "theirs-"

// hdfsRows returns the rows of HDFS and needs its server. The blocks have 128 MiB, as they
// have by default, and not the 8 MiB of the tests.
func (b *bench) hdfsRows(s *harness.Servers) []row {
	block := "-Ddfs.blocksize=134217728"
	ours := append([]string{b.binary, "hadoop", "fs"}, block)
	// These are the options of Hadoop's own script, apart from the script.
	hadoop := []string{
		"java", "-Xmx1g", "-Dhadoop.root.logger=WARN,console", "-cp", s.Cluster.ConfDir + ":" + s.Cluster.JarsDir + "/*",
		"org.apache.hadoop.fs.FsShell", block,
	}
	return b.rows("hdfs", hdfsRoot(s), s.Env, "hdfs dfs", ours, hadoop, []string{"-cat"}, []string{"-put", "-f"})
}

// s3Rows returns the rows of S3.
func (b *bench) s3Rows(s *harness.Servers) []row {
	ours := []string{b.binary, "hadoop", "fs"}
	s5cmd := []string{b.s5cmd, "--endpoint-url", s.Server.Endpoint}
	return b.rows("s3", "s3://"+s.Server.Bucket, s.Env, "s5cmd", ours, s5cmd, []string{"cat"}, []string{"cp"})
}

// rows returns the rows of a storage whose files are below root. cat and put are the
// commands of the other client.
func (b *bench) rows(storage, root string, env []string, client string, ours, other, cat, put []string) []row {
	// read returns the commands that read the files of the given patterns at the same time.
	read := func(argv []string, patterns ...string) func(string) [][]string {
		return func(input string) (all [][]string) {
			for _, p := range patterns {
				all = append(all, slices.Concat(argv, []string{root + "/" + input + "/" + p}))
			}
			return all
		}
	}
	// write returns the command that writes an input's files to a directory.
	write := func(argv []string, to string) func(string) [][]string {
		return func(input string) [][]string {
			local := []string{filepath.Join(b.data, input, "*")} // s5cmd expands it itself
			if argv[0] != b.s5cmd {
				local = local[:0]
				for _, name := range files {
					local = append(local, filepath.Join(b.data, input, name))
				}
			}
			return [][]string{slices.Concat(argv, local, []string{root + "/" + to + input + "/"})}
		}
	}
	grep := func(input string) [][]string {
		return [][]string{{
			b.binary, "run", "grep", "--param", "regex=no such words", "--quiet", "--workers", "2",
			"--input", root + "/" + input, "--output", "-",
		}}
	}
	ourCat := slices.Concat(ours, []string{"-cat"})
	otherCat := slices.Concat(other, cat)
	return []row{
		{
			name: storage + ": write", writes: true,
			ours:   contestant{"slotwise", write(slices.Concat(ours, []string{"-put", "-f"}), ""), env},
			theirs: contestant{client, write(slices.Concat(other, put), theirs), env},
		},
		{
			name: storage + ": read", same: true,
			ours:   contestant{"slotwise", read(ourCat, "*"), env},
			theirs: contestant{client, read(otherCat, "*"), env},
		},
		{
			name:   storage + ": a job of two workers reads",
			ours:   contestant{"slotwise", grep, env},
			theirs: contestant{"two of " + client, read(otherCat, "a*", "b*"), env},
		},
	}
}
