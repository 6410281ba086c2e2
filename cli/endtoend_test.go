package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/big"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/detector"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// endToEndSize is the size of the input of each job of TestEndToEnd.
var endToEndSize = sizeFlag("endtoend.size", 16<<20, "how many bytes each job of TestEndToEnd reads")

// wholeSize is the input size from which TestEndToEnd checks the measured
// shares against those expected of long jobs.
const wholeSize = 512 << 20

func sizeFlag(name string, size terminal.Size, usage string) *terminal.Size {
	flag.Var(&size, name, usage)
	return &size
}

// TestEndToEnd runs a master and four workers, each a process, and on
// them WordCount, TeraSort with its validator, and a streaming job: on local
// files, on a real HDFS whose four DataNodes stand where the workers do, and on
// a real S3 server. The test compares the results with its own counts, and with the
// files of the same word count in a single process. It also replaces an output, has
// an existing output refused, and on HDFS checks where the maps ran.
//
//	go test ./cli -run TestEndToEnd -v -timeout 1h -endtoend.size 512MiB
//
// prints the table of lab/results/end-to-end.md.
func TestEndToEnd(t *testing.T) {
	if detector.On {
		t.Skip("takes minutes under the race detector; .ci/run runs it without, and TestCluster and TestRemoteStorage run the same processes with it")
	}
	type target struct {
		name, title, base string
		hosts             []string
	}
	storages := []target{{"local", "local files", "", nil}}
	// A server that cannot be had skips or fails its own subtest only. The variables
	// belong to this test, because parallel subtests must not set any.
	var env []string
	t.Run("hdfs server", func(t *testing.T) {
		h := serverstest.HDFS(t)
		env = append(env, h.Env()...)
		storages = append(storages, target{"hdfs", "HDFS", h.URI("/e2e-" + storage.NewToken()), h.Hosts})
	})
	t.Run("s3 server", func(t *testing.T) {
		s := serverstest.S3(t)
		env = append(env, s.Env()...)
		storages = append(storages, target{"s3", "S3", s.URI("e2e-" + storage.NewToken()), nil})
	})
	serverstest.Setenv(t, env)
	in := newEndToEnd(t, int64(*endToEndSize))
	tables := make([]strings.Builder, len(storages))
	t.Run("storages", func(t *testing.T) {
		for i, at := range storages {
			t.Run(at.name, func(t *testing.T) {
				if in.size < wholeSize {
					t.Parallel() // times of small inputs say nothing
				}
				in.run(t, &tables[i], at.title, at.base, at.hosts)
			})
		}
	})
	var table strings.Builder
	table.WriteString("| storage | job | input | maps | time | MiB/s | maps beside their data |\n|---|---|---|---|---|---|---|\n")
	for i := range tables {
		table.WriteString(tables[i].String())
	}
	t.Logf("four workers of one map and one reduce slot:\n%s", table.String())
}

// endToEnd holds the inputs of TestEndToEnd and the expected results.
type endToEnd struct {
	size    int64
	dir     string            // has the directories text and records
	counts  map[string]int64  // of the words in text
	parts   map[string]string // the output files of a word count in a single process
	records int64
	sum     string // of all records, as teravalidate prints it
}

// inputFiles is the number of equal pieces of an input. Each piece of the records is
// a separate file, so that HDFS has at least as many blocks.
const inputFiles = 16

// joinedPieces is the number of pieces of the text that form its first file. At the
// default size that file has 10 MiB: two blocks of HDFS and two parts of an S3 upload,
// with lines across the borders of splits and blocks. The other pieces are files.
const joinedPieces = 10

func newEndToEnd(t *testing.T, size int64) *endToEnd {
	in := &endToEnd{size: size, dir: t.TempDir(), counts: map[string]int64{}}
	sum := new(big.Int)
	for i := range inputFiles {
		for _, kind := range []string{"text", "records"} {
			dir := filepath.Join(in.dir, "made")
			slotwise(t, "generate", kind, "--quiet", "--overwrite", "--size", fmt.Sprint(size/inputFiles+1), "--seed", fmt.Sprint(i), "--output", dir)
			made, err := filepath.Glob(filepath.Join(dir, kind+"-*"))
			if err != nil || len(made) != 1 {
				t.Fatalf("%s: %q, %v", kind, made, err)
			}
			number := i
			if kind == "text" {
				countWords(t, made[0], in.counts)
				number = max(0, i-joinedPieces+1)
			} else {
				in.records += sumRecords(t, made[0], sum)
			}
			appendFile(t, filepath.Join(in.dir, kind, fmt.Sprint(number)), made[0])
		}
	}
	in.sum = sum.Text(16)
	local := filepath.Join(in.dir, "local")
	slotwise(t, "run", "wordcount", filepath.Join(in.dir, "text"), "--quiet", "--output", local, "--reduces", "3")
	in.parts = partFiles(t, local)
	if len(in.parts) != 3 {
		t.Fatalf("the local output has %d part files, want 3", len(in.parts))
	}
	return in
}

// appendFile appends the content of a file to another one, which it creates with its
// directory if necessary.
func appendFile(t *testing.T, name, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(readFile(t, from))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// partFiles returns the files of a complete output without _SUCCESS, which names the
// job's staging directory and so differs between jobs.
func partFiles(t *testing.T, uri string) map[string]string {
	t.Helper()
	files := fetch(t, uri)
	if _, whole := files[storage.SuccessFile]; !whole {
		t.Fatalf("%s has no %s: %q", uri, storage.SuccessFile, slices.Sorted(maps.Keys(files)))
	}
	delete(files, storage.SuccessFile)
	return files
}

// countWords adds the words of a file.
func countWords(t *testing.T, name string, counts map[string]int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Few of many words are new: this lookup allocates no string for a known
	// one.
	known := map[string]*int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		for w := range bytes.FieldsSeq(lines.Bytes()) {
			n := known[string(w)]
			if n == nil {
				n = new(int64)
				known[string(w)] = n
			}
			*n++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for w, n := range known {
		counts[w] += *n
	}
}

// sumRecords returns how many records of 100 bytes a file has and adds their
// CRC-32 to sum.
func sumRecords(t *testing.T, name string, sum *big.Int) (n int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, record := bufio.NewReaderSize(f, 1<<20), make([]byte, 100)
	for ; ; n++ {
		switch _, err := io.ReadFull(r, record); err {
		case nil:
			sum.Add(sum, big.NewInt(int64(crc32.ChecksumIEEE(record))))
		case io.EOF:
			return n
		default:
			t.Fatal(err)
		}
	}
}

// run runs the jobs on one storage. hosts are the machines that hold the data,
// with a worker on each; nil if locations are unknown.
func (in *endToEnd) run(t *testing.T, table *strings.Builder, name, base string, hosts []string) {
	c := newTestCluster(t, "--policy", "fifo")
	c.Patience = 20 * time.Minute
	for i := range 4 {
		at := []string{"--host", fmt.Sprint("host", i)}
		if hosts != nil {
			at = []string{"--host", hosts[i], "--listen", hosts[i] + ":0"}
		}
		c.StartWorker(fmt.Sprint("w", i), at...)
	}
	text, records, out := base+"/text", base+"/records", base
	if base == "" {
		text, records, out = filepath.Join(in.dir, "text"), filepath.Join(in.dir, "records"), c.Dir
	} else {
		in.store(t, base)
	}
	s := &endToEndStorage{c: c, in: in, name: name, hosts: hosts, table: table}
	s.job("WordCount", "wordcount", text, "--output", out+"/counts", "--reduces", "3")
	in.checkCounts(t, out+"/counts")
	in.checkParts(t, out+"/counts")
	s.job("TeraSort", "terasort", records, "--output", out+"/sorted", "--reduces", "4")
	s.job("TeraValidate", "teravalidate", out+"/sorted", "--output", out+"/valid")
	want := fmt.Sprintf("records\t%d\nchecksum\t%s\nmisordered\t0\n", in.records, in.sum)
	if got := joined(t, out+"/valid"); got != want {
		t.Errorf("the validator says\n%s\nwant\n%s", got, want)
	}
	s.job("streaming, awk", "--mapper", `awk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print w "\t" n[w] }'`,
		"--reducer", `awk -F '\t' '$1 != w { if (NR > 1) print w "\t" n; w = $1; n = 0 } { n += $2 } END { if (NR) print w "\t" n }'`,
		"--input", text, "--output", out+"/streamed", "--reduces", "3")
	in.checkCounts(t, out+"/streamed")
	s.checkShare()
	s.checkReplacing(text, out+"/counts")
}

// checkReplacing has a word count replace its output, and has another one refused
// because its output exists.
func (s *endToEndStorage) checkReplacing(text, output string) {
	t := s.c.T
	t.Helper()
	s.c.Must("wordcount", text, "--output", output, "--reduces", "3", "--overwrite")
	s.in.checkParts(t, output)
	if status, said := s.c.Submit("wordcount", text, "--output", output); status == 0 {
		t.Errorf("%s exists and was accepted as an output:\n%s", output, said)
	}
}

// checkParts compares the files of a word count's output with the files of the same job in
// a single process.
func (in *endToEnd) checkParts(t *testing.T, uri string) {
	t.Helper()
	if got := partFiles(t, uri); !maps.Equal(got, in.parts) {
		t.Errorf("%s differs from the local run's files: got %d files, want %d\n%.2000s", uri, len(got), len(in.parts), cmp.Diff(in.parts, got))
	}
}

// store copies the inputs to a directory of a storage and has it removed in the end.
func (in *endToEnd) store(t *testing.T, base string) {
	t.Helper()
	files, p, err := storages().Resolve(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := files.Remove(context.Background(), p); err != nil {
			t.Error(err)
		}
	})
	for _, kind := range []string{"text", "records"} {
		upload(t, filepath.Join(in.dir, kind), base+"/"+kind)
	}
}

// checkCounts compares the output of a word count with the test's own counts.
func (in *endToEnd) checkCounts(t *testing.T, uri string) {
	t.Helper()
	got := map[string]int64{}
	for line := range strings.Lines(joined(t, uri)) {
		w, count, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.ParseInt(count, 10, 64)
		if _, twice := got[w]; err != nil || twice {
			t.Fatalf("%s: the line %q: again %t, %v", uri, line, twice, err)
		}
		got[w] = n
	}
	if !maps.Equal(got, in.counts) {
		t.Errorf("%s has %d words, want %d, or other counts", uri, len(got), len(in.counts))
	}
}

// joined returns the concatenated files of a complete output.
func joined(t *testing.T, uri string) string {
	t.Helper()
	files := partFiles(t, uri)
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(path.Base(name), "_") {
			all.WriteString(files[name])
		}
	}
	return all.String()
}

// endToEndStorage runs jobs on one storage and adds up where their maps ran.
type endToEndStorage struct {
	c     *testCluster
	in    *endToEnd
	name  string
	hosts []string
	table *strings.Builder
	local int // maps that started beside their data
	maps  int
}

// job submits a job that must succeed, and adds a line to the table.
func (s *endToEndStorage) job(what string, args ...string) {
	t := s.c.T
	t.Helper()
	split := max(s.in.size/inputFiles, 1) // a file, or a block of one
	start := time.Now()
	// Without --quiet, words about a busy server would be among the lines of JSON.
	status, out := s.c.Submit(append(args, "-o", "json", "--quiet", "--split-size", fmt.Sprint(min(split+1, 8<<20)))...)
	took := time.Since(start)
	if status != 0 {
		t.Fatalf("%s: exit status %d\n%s", what, status, out)
	}
	var done struct {
		Jobs []struct {
			ID       string
			SlotTime struct {
				Map time.Duration `json:"map_ns"`
			} `json:"slot_time"`
		}
	}
	if err := json.Unmarshal([]byte(out), &done); err != nil || len(done.Jobs) != 1 || done.Jobs[0].SlotTime.Map <= 0 {
		t.Fatalf("%s: %v\n%s", what, err, out)
	}
	var tasks []task
	s.c.asksJSON(&tasks, "tasks", done.Jobs[0].ID, "--kind", "map")
	share := "not known"
	if s.hosts != nil {
		n := s.placed(tasks)
		s.local, s.maps = s.local+n, s.maps+len(tasks)
		share = fmt.Sprintf("%d of %d, %.0f %%", n, len(tasks), 100*float64(n)/float64(len(tasks)))
	}
	fmt.Fprintf(s.table, "| %s | %s | %s | %d | %.1f s | %.0f | %s |\n", s.name, what, terminal.Bytes(s.in.size), len(tasks),
		took.Seconds(), float64(s.in.size)/(1<<20)/took.Seconds(), share)
}

// task is a line of `slotwise tasks -o json`.
type task struct {
	ID       string
	Hosts    []string
	Attempts []struct {
		ID, Node, Level string
		Speculative     bool
		Started         int64 `json:"started_ms"`
	}
}

// placed returns the number of maps that started on a host of their data. It
// checks the master's level of each map against the location of the data. It
// also checks the policy: no map starts away from its data while a pending map
// has its data there.
func (s *endToEndStorage) placed(tasks []task) (local int) {
	s.c.T.Helper()
	for _, k := range tasks {
		if len(k.Hosts) == 0 || len(k.Attempts) == 0 {
			s.c.T.Fatalf("no data or no attempt: %+v", k)
		}
		first := k.Attempts[0]
		host := s.host(first.Node)
		near := slices.Contains(k.Hosts, host)
		if near != (first.Level == "NODE") {
			s.c.T.Errorf("%s ran on %s, its data are on %v, and it is said to be %s", first.ID, host, k.Hosts, first.Level)
		}
		if near {
			local++
			continue
		}
		for _, other := range tasks {
			if other.Attempts[0].Started > first.Started && slices.Contains(other.Hosts, host) {
				s.c.T.Errorf("%s was started on %s, away from its data, while %s waited that has its data there", first.ID, host, other.ID)
			}
		}
	}
	return local
}

// host returns the machine of a worker.
func (s *endToEndStorage) host(worker string) string {
	i, err := strconv.Atoi(strings.TrimPrefix(worker, "w"))
	if err != nil {
		s.c.T.Fatal(err)
	}
	return s.hosts[i]
}

// checkShare checks that data locality influences placement, and that the master's
// summary of each job agrees with its list of tasks. Two of four
// DataNodes hold a block, so that half of the maps would be local by chance. In
// a job of few tasks the last ones run on any free slot.
func (s *endToEndStorage) checkShare() {
	if s.hosts == nil {
		return
	}
	if node, all := s.c.locality(); node != s.local || all != s.maps {
		s.c.T.Errorf("the jobs list %d of %d maps as node-local, the tasks %d of %d", node, all, s.local, s.maps)
	}
	least := 0.5
	if s.in.size >= wholeSize {
		least = 0.8
	}
	if share := float64(s.local) / float64(s.maps); share <= least {
		s.c.T.Errorf("%d of %d maps ran beside their data, a share of %.2f, want more than %.2f", s.local, s.maps, share, least)
	}
}

// locality adds up where the maps of all jobs were launched, as slotwise jobs reports it.
func (c *testCluster) locality() (node, all int) {
	c.T.Helper()
	var jobs []struct {
		Locality []int `json:"locality"`
	}
	c.asksJSON(&jobs, "jobs", "--all")
	for _, j := range jobs {
		for level, n := range j.Locality {
			all += n
			if level == 0 {
				node += n
			}
		}
	}
	return node, all
}
