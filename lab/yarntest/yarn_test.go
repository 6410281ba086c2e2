// Package yarntest tests slotwise on a real YARN.
package yarntest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
	"github.com/slotwise/slotwise/lab/harness"
)

// patience limits every wait. The machine may be busy.
const patience = 6 * time.Minute

// cluster is a master of this test and a YARN for its workers.
type cluster struct {
	t       *testing.T
	yarn    *serverstest.YARN
	dir     string
	bin     string // directory with the slotwise program
	address string // of the master
	master  *exec.Cmd
	env     []string // more variables of commands
}

// TestYARN runs the commands of docs/yarn.md, kills a worker and the master, scales by hand and
// with the work, and makes mistakes. In the end nothing may be left on YARN and HDFS.
func TestYARN(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a YARN")
	}
	began := time.Now()
	lap := func(what string) {
		t.Logf("%6.1f s: %s", time.Since(began).Seconds(), what)
	}
	c := start(t)
	lap("YARN and the master run, slotwise is built")
	want := c.words("/yarntest/logs", 24)
	c.must("slotwise yarn up " + c.line("slotwise yarn up "))
	lap("yarn up has returned: 2 workers have joined")
	if n := len(c.workers()); n != 2 {
		t.Errorf("%d workers after yarn up", n)
	}
	c.must("slotwise submit " + c.line("slotwise submit "))
	lap("the documented word count has ended")
	c.check("/yarntest/counts", want)
	c.locality(want)
	c.mistakes()
	lap("mistakes have been refused")
	c.replaced()
	lap("a killed worker has been replaced, and its job is right")
	c.scaleByHand(want)
	lap("1 → 3 → 1 workers by hand during a job")
	c.upgraded()
	lap("during a job, the master is killed and the workers are replaced by others")
	c.must("slotwise yarn down" + c.line("slotwise yarn down"))
	c.nothingLeft("slotwise")
	c.refused("slotwise yarn down", 1, "user tester has no YARN service slotwise")
	lap("yarn down")
	c.scaleWithWork()
	lap("1 → 3 → 1 workers with the work")
	c.yarn.StopResourceManager()
	c.refused("slotwise yarn up --name other", 1, "no ResourceManager of YARN answers", "yarn.resourcemanager.webapp.address")
}

// start starts a YARN and a master.
func start(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	table := filepath.Join(dir, "racks")
	if err := os.WriteFile(table, []byte("127.0.0.2 /row1\n127.0.0.3 /row2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y := serverstest.NewYARN(t, 2, map[string]string{
		"net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping", "net.topology.table.file.name": table,
	})
	c := &cluster{t: t, yarn: y, dir: dir, bin: filepath.Join(dir, "bin")}
	if err := harness.Build(t.Context(), filepath.Join(c.bin, "slotwise")); err != nil {
		t.Fatal(err)
	}
	// A test that was killed has left its services on the shared HDFS, without a YARN.
	c.must("slotwise hadoop fs -mkdir -p /user/tester && slotwise hadoop fs -rm -r -f -skipTrash /user/tester/.yarn")
	c.must("slotwise certs " + c.line("slotwise certs "))
	c.startMaster()
	t.Cleanup(func() {
		for _, name := range []string{"slotwise", "auto"} {
			_, _ = c.run("slotwise yarn down --name " + name) // exists only if the test has failed
		}
		c.stopMaster()
		if _, err := c.run("slotwise hadoop fs -rm -r -f -skipTrash /yarntest"); err != nil {
			t.Error(err)
		}
	})
	return c
}

// certs returns the path of a certificate, or of the directory of certificates.
func (c *cluster) certs(name string) string { return filepath.Join(c.dir, "certs", name) }

// documented returns the page's command lines, with the test's own addresses and paths.
// hdfs:/// becomes a directory of the test.
func (c *cluster) documented() (lines []string) {
	c.t.Helper()
	text, err := os.ReadFile("../../docs/yarn.md")
	if err != nil {
		c.t.Fatal(err)
	}
	ours := strings.NewReplacer("10.0.0.1:7077", c.address, "certs/", c.certs("")+"/", "--dir certs", "--dir "+c.certs(""),
		"/var/lib/slotwise", filepath.Join(c.dir, "master"), "hdfs:///", "hdfs:///yarntest/", "--memory 4GiB", "--memory 512MiB", "--cpu 2", "--cpu 2 --slots 1")
	for line := range strings.Lines(string(text)) {
		if line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    "); ok {
			lines = append(lines, ours.Replace(line))
		}
	}
	return lines
}

// line returns the page's first command line that begins with a prefix, without it.
func (c *cluster) line(prefix string) string {
	c.t.Helper()
	for _, line := range c.documented() {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSuffix(rest, " &")
		}
	}
	c.t.Fatalf("docs/yarn.md has no line %q", prefix)
	return ""
}

// startMaster starts the page's master with more flags, and waits until it serves.
func (c *cluster) startMaster(flags ...string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "address")
	log, err := os.OpenFile(filepath.Join(c.dir, "master.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	if c.address == "" {
		c.address = "127.0.0.1:0"
	}
	args := slices.Concat([]string{"master"}, strings.Fields(c.line("slotwise master ")), []string{"--address-file", file}, flags)
	c.master = exec.Command(filepath.Join(c.bin, "slotwise"), args...)
	c.master.Env = append(os.Environ(), c.yarn.Env()...)
	c.master.Stdout, c.master.Stderr = log, log
	c.master.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(os.RemoveAll(file), c.master.Start()); err != nil {
		c.t.Fatal(err)
	}
	c.await("the master serves", func() bool {
		b, err := os.ReadFile(file)
		if err == nil {
			c.address = strings.TrimSpace(string(b))
		}
		return err == nil && c.address != ""
	})
	c.env = strings.Fields(c.line("export SLOTWISE_MASTER"))
	c.env[0] = "SLOTWISE_MASTER" + c.env[0]
}

// stopMaster ends the master.
func (c *cluster) stopMaster() {
	_ = c.master.Process.Signal(syscall.SIGTERM)
	_ = c.master.Wait() // the signal ends it with an error
}

// command returns a command line as a command that has not started.
func (c *cluster) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), slices.Concat(c.yarn.Env(), c.env, []string{"PATH=" + c.bin + ":" + os.Getenv("PATH")})...)
	return cmd
}

// run runs a command line and returns its standard output.
func (c *cluster) run(line string) (string, error) {
	cmd := c.command(line)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", line, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// must runs a command line and fails the test if it fails.
func (c *cluster) must(line string) string {
	c.t.Helper()
	out, err := c.run(line)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "master.log"))
		c.t.Fatalf("%v\nmaster's log:\n%s", err, log)
	}
	return out
}

// refused runs a command line that must fail with an exit status and words in its message.
func (c *cluster) refused(line string, status int, words ...string) {
	c.t.Helper()
	out, err := c.run(line)
	if err == nil {
		c.t.Errorf("%s: no error, but %s", line, out)
		return
	}
	text := err.Error()
	for _, w := range append(words, fmt.Sprintf("exit status %d", status)) {
		if !strings.Contains(text, w) {
			c.t.Errorf("no %q in the message of %s", w, text)
		}
	}
}

// await polls until a condition holds.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(c.dir, "master.log"))
			c.t.Fatalf("gave up waiting: %s\nmaster's log:\n%s", what, log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// words writes files of words to HDFS and returns the lines of their count.
func (c *cluster) words(dir string, files int) []string {
	c.t.Helper()
	in := filepath.Join(c.dir, "in")
	if err := os.Mkdir(in, 0o777); err != nil {
		c.t.Fatal(err)
	}
	for i := range files {
		var b strings.Builder
		for j := range 2000 {
			fmt.Fprintf(&b, "word%d line %d\n", (i*j)%997, j%13)
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%03d", i)), []byte(b.String()), 0o666); err != nil {
			c.t.Fatal(err)
		}
	}
	out := filepath.Join(c.dir, "want")
	c.must("slotwise run wordcount " + in + " --output " + out + " -q")
	c.must("slotwise hadoop fs -rm -r -f -skipTrash /yarntest && slotwise hadoop fs -mkdir -p /yarntest && slotwise hadoop fs -put " + in + " " + dir)
	return sorted(c.must("cat " + out + "/part-*"))
}

// sorted returns the lines of a text in order, without blanks around them.
func sorted(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

// check compares a result on HDFS with the wanted lines.
func (c *cluster) check(dir string, want []string) {
	c.t.Helper()
	if got := sorted(c.must("slotwise hadoop fs -cat '" + dir + "/part-*'")); !slices.Equal(got, want) {
		c.t.Errorf("%s: %d lines of result differ from the %d of a run in one process", dir, len(got), len(want))
	}
}

// job holds the fields of a job that the test reads.
type job struct {
	State    string `json:"state"`
	Maps     counts `json:"maps"`
	Reduces  counts `json:"reduces"`
	Locality []int  `json:"locality"`
}

// counts are the tasks of a kind.
type counts struct{ Total, Done, Failed int }

// job returns a job's status.
func (c *cluster) job(id string) (j job) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.must("slotwise job "+id+" -o json")), &j); err != nil {
		c.t.Fatal(err)
	}
	return j
}

// ended waits until a job has succeeded without a failed attempt.
func (c *cluster) ended(id string) {
	c.t.Helper()
	var j job
	c.await("job "+id+" ends", func() bool {
		j = c.job(id)
		return j.State != "waiting" && j.State != "running" && j.State != "committing"
	})
	if j.State != "succeeded" || j.Maps.Failed+j.Reduces.Failed > 0 {
		c.t.Fatalf("job %s: %+v", id, j)
	}
}

// workers returns the names of the workers that are alive.
func (c *cluster) workers() (names []string) {
	c.t.Helper()
	for line := range strings.Lines(c.must("slotwise nodes")) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "alive" {
			names = append(names, f[0])
		}
	}
	return names
}

// locality runs a job with a map for each file and logs the share of node-local maps.
func (c *cluster) locality(want []string) {
	c.t.Helper()
	id := c.must("slotwise submit wordcount hdfs:///yarntest/logs --output hdfs:///yarntest/near --split-size 32KiB --reduces 2 -q")
	c.ended(id)
	c.check("/yarntest/near", want)
	levels, all := c.job(id).Locality, 0
	for _, n := range levels {
		all += n
	}
	// On average 5 of 6 blocks have a replica on one of the two hosts. YARN may put both
	// workers on the same host, with replicas of half of the blocks.
	if all < 24 || levels[0] == 0 {
		c.t.Errorf("maps by locality (node, rack, off-rack, none): %v", levels)
	}
	hosts := map[string]bool{}
	for line := range strings.Lines(c.must("slotwise nodes")) {
		if f := strings.Fields(line); f[0] != "NODE" {
			hosts[regexp.MustCompile(`127\.0\.0\.\d+`).FindString(line)] = true
		}
	}
	c.t.Logf("%d of %d maps were node-local, with workers on %d of the 4 hosts", levels[0], all, len(hosts))
}

// mistakes makes mistakes, whose errors must name the object and the remedy.
func (c *cluster) mistakes() {
	c.t.Helper()
	up := "slotwise yarn up --workers 1 --memory 512MiB"
	c.refused(up, 1, "YARN service slotwise exists already", "slotwise yarn down --name slotwise")
	c.refused(up+" --name other --queue none", 1, "unknown queue: none", "--queue")
	c.refused(up+" --name other --queue "+serverstest.ClosedQueue, 1, "User tester does not have permission", "queue closed", "--queue")
	c.refused(up+" --name other --memory 64GiB", 1, "--memory 65536MiB", "yarn.scheduler.maximum-allocation-mb")
	c.refused("slotwise yarn down --name other", 1, "user tester has no YARN service other")
	c.refused("HADOOP_USER_NAME=eve slotwise yarn scale 2", 1, "slotwise")
	c.refused(up+" --name other --binary "+c.dir+"/missing", 2, "--binary", "/missing")
	c.nothingLeft("other")
	// The nodes have room for three of nine such workers.
	c.refused(up+" --name other --workers 9 --memory 2GiB --timeout 3s", 1, "not all workers have joined the master within --timeout 3s", "slotwise yarn status --name other")
	c.must("slotwise yarn down --name other")
	// This program ends at once. The status names the page with its output.
	c.interrupted(up+" --name other --binary "+c.failing(), "workers have joined")
	if status := c.must("slotwise yarn status --name other"); !strings.Contains(status, "/node/containerlogs/container_") {
		c.t.Errorf("no page with the output of a worker: %s", status)
	}
	c.must("slotwise yarn down --name other")
	c.nothingLeft("other")
}

// failing returns a program that fails.
func (c *cluster) failing() string {
	c.t.Helper()
	path := filepath.Join(c.dir, "failing")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no worker; exit 3\n"), 0o700); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// interrupted runs a command line and interrupts it, as Ctrl-C does, when it has printed a
// text. The command must exit with 130 and must not remove the service.
func (c *cluster) interrupted(line, text string) {
	c.t.Helper()
	cmd := c.command("exec " + line)
	log := filepath.Join(c.dir, "interrupted.log")
	f, err := os.Create(log)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	printed := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			c.t.Fatal(err)
		}
		return string(b)
	}
	c.await(line+" prints "+text, func() bool { return strings.Contains(printed(), text) })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 || !strings.Contains(printed(), "goes on: slotwise yarn status") {
		c.t.Errorf("%s: %v\n%s", line, err, printed())
	}
}

// process returns the number of a worker's process, or 0.
func (c *cluster) process(worker string) (pid int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(text, []byte("\x00worker\x00")) || !bytes.Contains(text, []byte("\x00--name\x00"+worker+"\x00")) {
			continue
		}
		cwd, err := os.Readlink(filepath.Join(filepath.Dir(f), "cwd"))
		if err != nil || !strings.HasPrefix(cwd, c.yarn.Dir) {
			continue // of another test
		}
		if bytes.Contains(text, []byte("token")) {
			c.t.Errorf("the command line of a worker names a token: %q", text)
		}
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err != nil {
			c.t.Fatal(err)
		}
	}
	return pid
}

// replaced kills a worker in the middle of a job.
func (c *cluster) replaced() {
	c.t.Helper()
	id := c.must("slotwise submit sleep --output hdfs:///yarntest/slept --param maps=16x500ms -q")
	c.await("some maps are done", func() bool { return c.job(id).Maps.Done >= 2 })
	victim := c.process("slotwise-0")
	if victim == 0 {
		c.t.Fatal("worker slotwise-0 has no process")
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	c.await("YARN replaces the worker", func() bool {
		pid := c.process("slotwise-0")
		return pid != 0 && pid != victim
	})
	c.ended(id)
	c.await("both workers are alive", func() bool { return len(c.workers()) == 2 })
}

// scaleByHand scales 1 → 3 → 1 while a job runs.
func (c *cluster) scaleByHand(want []string) {
	c.t.Helper()
	c.must("slotwise yarn scale 1")
	id := c.must("slotwise submit sleep --output hdfs:///yarntest/slept2 --param maps=12x1s -q")
	c.must("slotwise yarn scale 3")
	if n := len(c.workers()); n != 3 {
		c.t.Errorf("%d workers after yarn scale 3", n)
	}
	c.await("several maps are done", func() bool { return c.job(id).Maps.Done >= 4 })
	c.must("slotwise yarn scale 1 --hold 0s")
	c.ended(id)
	c.await("one worker is alive", func() bool { return len(c.workers()) == 1 })
	c.must("slotwise submit wordcount hdfs:///yarntest/logs --output hdfs:///yarntest/again --wait -q")
	c.check("/yarntest/again", want)
}

// upgraded kills the master during a job and starts another one with its directory. Then it
// runs the commands under Upgrades in docs/yarn.md.
func (c *cluster) upgraded() {
	c.t.Helper()
	id := c.must("slotwise submit sleep --output hdfs:///yarntest/slept4 --param maps=16x500ms -q")
	c.await("a map is done", func() bool { return c.job(id).Maps.Done >= 1 })
	if err := c.master.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.master.Wait() // the signal ends it with an error
	c.startMaster("--autoscale", "min=1,max=3,cool-down=2s,start-up=1s", "--yarn-service", "auto")
	c.must("slotwise yarn up --name auto" + strings.Replace(c.line("slotwise yarn up --name next"), "--workers 2", "--workers 1", 1))
	c.must("slotwise yarn scale 0" + c.line("slotwise yarn scale 0"))
	c.ended(id)
}

// scaleWithWork lets the master scale the service that upgraded has started, 1 → 3 → 1 with the
// work.
func (c *cluster) scaleWithWork() {
	c.t.Helper()
	key, err := os.Stat(fmt.Sprintf("/proc/%d/cwd/worker-key.pem", c.process("auto-0")))
	if err != nil || key.Mode().Perm()&0o077 != 0 {
		c.t.Errorf("the worker's key: %v (%v)", key, err)
	}
	id := c.must("slotwise submit sleep --output hdfs:///yarntest/slept3 --param maps=40x500ms -q")
	c.await("the work has three workers", func() bool { return len(c.workers()) == 3 })
	if nodes := c.must("slotwise nodes"); !strings.Contains(nodes, "/row1") || !strings.Contains(nodes, "/row2") {
		c.t.Errorf("no racks of YARN:\n%s", nodes)
	}
	c.ended(id)
	c.await("one worker stays", func() bool { return len(c.workers()) == 1 })
	c.await("YARN has one worker", func() bool {
		return strings.Contains(c.must("slotwise yarn status --name auto -o json"), `"wanted":1`)
	})
	c.must("slotwise yarn down --name auto")
	c.nothingLeft("auto")
}

// nothingLeft checks that HDFS and YARN have nothing of a service, and no process runs.
func (c *cluster) nothingLeft(name string) {
	c.t.Helper()
	if out, err := c.run("slotwise hadoop fs -ls /user/tester/.yarn/services"); err == nil && strings.Contains(out, "/"+name) {
		c.t.Errorf("HDFS still has files of service %s:\n%s", name, out)
	}
	out := c.must("slotwise hadoop fs -ls -R /user/tester")
	if name == "auto" && strings.Contains(out, "slotwise") { // no other service is left
		c.t.Errorf("HDFS still has files:\n%s", out)
	}
	resp, err := http.Get(c.yarn.HTTP + "/ws/v1/cluster/apps?states=NEW,SUBMITTED,ACCEPTED,RUNNING")
	if err != nil {
		c.t.Fatal(err)
	}
	apps, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil || bytes.Contains(apps, []byte(`"name":"`+name+`"`)) {
		c.t.Errorf("YARN still has applications (%v): %s", err, apps)
	}
	c.await("all processes of service "+name+" have ended", func() bool {
		for i := range 8 {
			if c.process(fmt.Sprintf("%s-%d", name, i)) != 0 {
				return false
			}
		}
		return true
	})
}
