package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	"github.com/slotwise/slotwise/sched/job"
)

// homeWithLogs returns a directory that has room for logs alone.
func homeWithLogs(t *testing.T) *home {
	h := &home{path: t.TempDir()}
	if err := os.Mkdir(h.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDrainWaitsForLogs: a worker without attempts and outputs has drained only when the master has its logs, also
// a log that is being sent.
func TestDrainWaitsForLogs(t *testing.T) {
	w := &Worker{cfg: Config{DrainTimeout: time.Hour, ServeTimeout: time.Hour}, home: homeWithLogs(t), log: slog.New(slog.DiscardHandler), logs: logSender{wake: make(chan struct{}, 1)}}
	w.mu.agent = agent.New()
	log, err := w.home.newLog("j1_m_0_0", 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.Write([]byte("a line\n"))
	drained := func(want bool, when string) {
		t.Helper()
		if w.isDrained(0) != want {
			t.Errorf("drained is %v %s", !want, when)
		}
	}
	drained(true, "without a log")
	w.logs.add(endedLog{name: "j1_m_0_0", run: "j1", log: log})
	drained(false, "while a log waits")
	batch := w.logs.take()
	drained(false, "while a log is sent")
	w.logs.putBack(batch)
	drained(false, "while a log waits again")
	if !w.isDrained(2 * time.Hour) {
		t.Error("a log holds the worker for ever")
	}
	w.logs.take()
	w.logs.take() // the batch before has been kept
	drained(true, "when the logs are kept")
}

// TestSilentLogs verifies that attempts that print nothing leave no files and have an empty
// log, and that a removed log is distinguished from an empty one while the name is remembered.
func TestSilentLogs(t *testing.T) {
	h := homeWithLogs(t)
	run := func(name, output string) {
		l, err := h.newLog(name, 1000)
		if err != nil {
			t.Fatal(err)
		}
		l.Write([]byte(output))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) (string, error) {
		var b strings.Builder
		err := h.copyLog(name, &b)
		return b.String(), err
	}
	run("loud", "a line\n")
	run("turns", "first\n")
	run("turns", "")
	for i := range mostSilent {
		run(fmt.Sprint("silent", i), "")
	}
	run("silent7", "")
	run("silent8", "not any more\n")
	for name, want := range map[string]string{"loud": "a line\n", "silent7": "", "silent8": "not any more\n", fmt.Sprint("silent", mostSilent-1): ""} {
		if got, err := read(name); got != want || err != nil {
			t.Errorf("the log of %s is %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"unknown", "turns"} { // of turns even the name has left the memory
		if got, err := read(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the log of %s is %q, %v, want none", name, got, err)
		}
	}
	files, err := os.ReadDir(h.logs())
	if err != nil || len(files) != 2 {
		t.Errorf("%d files, %v, want 2", len(files), err)
	}
}

// TestLogBounded writes more than the limit of a log. At least the newest half must
// be readable, in order, and the files must stay within the limit.
func TestLogBounded(t *testing.T) {
	h := homeWithLogs(t)
	path := h.logPath("a")
	l, err := h.newLog("a", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i := range 700 {
		line := strings.Repeat(string(rune('a'+i%26)), i%37) + "\n"
		all.WriteString(line)
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		var got bytes.Buffer
		if err := l.copyTo(t.Context(), &got, false, func() {}); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(all.Bytes(), got.Bytes()) || got.Len() < min(all.Len(), 500) || got.Len() > 1000 {
			t.Fatalf("after %d bytes the log has %d: %q", all.Len(), got.Len(), got.String())
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, p := range []string{path, path + ".old"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 1000 {
		t.Errorf("the files have %d bytes", size)
	}
	if tail := l.tail(40); !strings.HasSuffix(strings.ReplaceAll(all.String(), "\n", " | "), tail+" | ") || len(tail) < 30 {
		t.Errorf("tail %q", tail)
	}
}

// TestLogFollowed follows a log while its files are replaced again and again. The
// follower must read lines in order, up to the last one.
func TestLogFollowed(t *testing.T) {
	h := homeWithLogs(t)
	l, err := h.newLog("a", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	go func() {
		for i := range 5000 {
			l.Write([]byte(strings.Repeat("x", i%19) + "\n"))
		}
		l.Close()
	}()
	for i := range 5000 {
		want.WriteString(strings.Repeat("x", i%19) + "\n")
	}
	var got bytes.Buffer
	if err := l.copyTo(t.Context(), &got, true, func() {}); err != nil || got.String() != want.String() {
		t.Errorf("got %d bytes, want %d, %v", got.Len(), want.Len(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	open, err := h.newLog("b", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	time.AfterFunc(time.Millisecond, cancel)
	if err := open.copyTo(ctx, &got, true, func() {}); err != nil {
		t.Errorf("a reader that goes away: %v", err)
	}
}

// TestTrimLogs verifies that the oldest logs are removed and that logs of running attempts
// stay.
func TestTrimLogs(t *testing.T) {
	h := homeWithLogs(t)
	now := time.Now()
	for i := range 5 {
		path := h.logPath(job.AttemptID{TaskID: job.TaskID{Job: 1, Index: int32(i)}}.String())
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.trimLogs(250, func(name string) bool { return name == "j1_m_0_0" }); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(h.logs(), "*"))
	var names []string
	for _, l := range left {
		names = append(names, filepath.Base(l))
	}
	if got := strings.Join(names, " "); got != "j1_m_0_0.log j1_m_4_0.log" {
		t.Errorf("left: %s", got)
	}
}

// TestTrimCache verifies that the least recently used files are removed and files in
// use stay.
func TestTrimCache(t *testing.T) {
	c := newCache(t.TempDir(), "http://127.0.0.1:1", nil, 250)
	var hashes []string
	now := time.Now()
	for i := range 5 {
		hash := strings.Repeat(string(rune('a'+i)), 64)
		hashes = append(hashes, hash)
		path := filepath.Join(c.dir, hash)
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	_, done, err := c.get(t.Context(), hashes[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, used, err := c.get(t.Context(), hashes[0]); err != nil {
		t.Fatal(err)
	} else {
		used() // the last used, but not in use
	}
	if err := c.trim(); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(c.dir, "*"))
	if len(left) != 2 || filepath.Base(left[0]) != hashes[0] || filepath.Base(left[1]) != hashes[1] {
		t.Errorf("left: %q", left)
	}
	done()
	c.limit = 0
	if err := c.trim(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(c.dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEnvironment verifies that attempts inherit the settings of storage and none of
// the worker's own settings.
func TestEnvironment(t *testing.T) {
	t.Setenv("SLOTWISE_TOKEN_FILE", "secret")
	t.Setenv("SLOTWISE_S3_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("AWS_REGION", "here")
	w := &Worker{cfg: Config{Memory: 1 << 28, MapSlots: 1}, home: &home{origin: "mark"}}
	env := strings.Join(w.environment(&childOrder{role: attempt.Task, limits: w.cfg.limitsOf(nil, 1)}), "\n") + "\n"
	for _, want := range []string{"SLOTWISE_ATTEMPT=1\n", "SLOTWISE_ORIGIN=mark\n", "SLOTWISE_S3_ENDPOINT=http", "AWS_REGION=here", "GOMEMLIMIT=1006632960\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(env, "secret") {
		t.Error("the worker's settings are passed on")
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("HADOOP_USER_NAME", "hdfs")
	t.Setenv("LC_ALL", "C")
	all := w.environment(&childOrder{owner: &account{name: "ana", home: "/a/home"}})
	env = "\n" + strings.Join(all, "\n") + "\n"
	for _, want := range []string{"SLOTWISE_ORIGIN=mark", "SLOTWISE_S3_ENDPOINT=http://127.0.0.1:1", "AWS_REGION=here", "LC_ALL=C", "HOME=/a/home", "USER=ana", "HADOOP_USER_NAME=ana", "PATH=" + os.Getenv("PATH")} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("another user's process gets no %s: %s", want, env)
		}
	}
	if strings.Contains(env, "secret") || strings.Contains(env, "hdfs") {
		t.Errorf("another user's process gets the worker's secrets: %s", env)
	}
}
