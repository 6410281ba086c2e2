package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func ended(n int, user string) *slotwisev1.HistoryJob {
	return &slotwisev1.HistoryJob{
		Job: &slotwisev1.JobStatus{Id: fmt.Sprint("j", n), Name: fmt.Sprint("Job ", n), User: user, Pool: "p" + fmt.Sprint(n%2), State: slotwisev1.JobState_JOB_STATE_SUCCEEDED,
			SubmittedMs: int64(n) * 1000, EndedMs: int64(n)*1000 + 500},
		Tasks: []*slotwisev1.TaskStatus{{Id: fmt.Sprintf("j%d_m_0", n), State: "succeeded"}},
	}
}

func open(t *testing.T, dir string, l Limits) *Store {
	t.Helper()
	s, err := Open(dir, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// names lists the entries that a query selects, and compares their number with Count.
func names(t *testing.T, s *Store, q Query) string {
	t.Helper()
	list, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, j := range list {
		out = append(out, j.Job.Id)
	}
	if n, err := s.Count(t.Context(), q); err != nil || n < len(list) || q.Offset == 0 && len(list) < q.Limit && n != len(list) {
		t.Errorf("%+v: counted %d, listed %v, %v", q, n, out, err)
	}
	return strings.Join(out, " ")
}

// TestStore puts, lists and reads entries, in one store, in another one opened on the same
// directory, and in one opened for reading.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, Limits{Entries: 5})
	for n := 1; n <= 6; n++ {
		if err := first.Put(ended(n, []string{"ann", "bob"}[n%2])); err != nil {
			t.Fatal(err)
		}
	}
	chain := ended(7, "bob")
	chain.Job.Id, chain.Job.State = "chain-1", slotwisev1.JobState_JOB_STATE_FAILED
	if err := first.Put(ended(6, "ann"), chain); err != nil { // j6 again: the same entry
		t.Fatal(err)
	}
	reader, err := OpenRead(filepath.Join(dir, "history"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for i, s := range []*Store{first, open(t, dir, Limits{Entries: 5}), reader} {
		for _, c := range []struct {
			q    Query
			want string
		}{
			{Query{Limit: 10}, "j6 j5 j4 j3"},
			{Query{Limit: 2}, "j6 j5"},
			{Query{Limit: 2, Offset: 2}, "j4 j3"},
			{Query{Limit: 10, User: "bob"}, "j5 j3"},
			{Query{Limit: 10, Before: "j5"}, "j4 j3"},
			{Query{Limit: 10, Kind: Chains}, "chain-1"},
			{Query{Limit: 10, Kind: All}, "chain-1 j6 j5 j4 j3"},
			{Query{Limit: 10, Kind: All, User: "bob", Pool: "p1"}, "chain-1 j5 j3"},
			{Query{Limit: 10, Kind: All, State: slotwisev1.JobState_JOB_STATE_FAILED}, "chain-1"},
			{Query{Limit: 10, Text: "jOB 4"}, "j4"},
			{Query{Limit: 10, Text: "J3"}, "j3"},
			{Query{Limit: 10, Text: "%"}, ""},
			{Query{Limit: 10, From: 4000, To: 5000}, "j5 j4"},
			{Query{Limit: 10, Since: 5500}, "j6 j5"},
		} {
			if got := names(t, s, c.q); got != c.want {
				t.Errorf("store %d, %+v: %s, want %s", i, c.q, got, c.want)
			}
		}
		got, err := s.Get("j4")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ended(4, "ann"), got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if _, err := s.Get("j2"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a job that was removed: %v", err)
		}
	}
	if _, err := first.List(t.Context(), Query{Before: "x", Limit: 1}); err == nil {
		t.Error("x is the name of a job")
	}
	for _, name := range []string{"history.db", "history.db-wal", "history.db-shm"} {
		if info, err := os.Stat(filepath.Join(dir, "history", name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestOwner lets root read the history of another user, whose master was killed and has left a log. The
// files beside the database belong to that user, who could not write the history otherwise.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir, other := t.TempDir(), t.TempDir()
	if err := open(t, dir, Limits{}).Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(other, subdir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileName, FileName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, subdir, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(other, subdir, name)
		if err := errors.Join(os.WriteFile(path, b, 0o640), os.Chown(path, 12345, 12346)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenRead(other)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if list := names(t, s, Query{Limit: 3}); list != "j1" {
		t.Errorf("the history has %s", list)
	}
	for _, name := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.path + name)
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 12345 || owner.Gid != 12346 || info.Mode().Perm() != 0o640 {
			t.Errorf("%s%s belongs to %d, %d, mode %v", FileName, name, owner.Uid, owner.Gid, info.Mode())
		}
	}
}

// TestLimits bounds a store by bytes and by age. The newest entry always stays.
func TestLimits(t *testing.T) {
	for _, limits := range []Limits{{Bytes: 1}, {Age: time.Hour}, {Entries: 1}} {
		s := open(t, t.TempDir(), limits)
		for n := 1; n <= 3; n++ {
			if err := s.Put(ended(n, "ann")); err != nil {
				t.Fatal(err)
			}
		}
		if got := names(t, s, Query{Limit: 9}); got != "j3" {
			t.Errorf("%+v: %s", limits, got)
		}
		entries, bytes := s.write.entries, s.write.bytes
		if err := s.count(); err != nil || s.write.entries != entries || s.write.bytes != bytes {
			t.Errorf("%+v: counted %d entries with %d bytes, want %d with %d (%v)", limits, s.write.entries, s.write.bytes, entries, bytes, err)
		}
	}
}

// TestOpenRead opens directories without a history, and one whose master has ended, in which
// reading leaves no file.
func TestOpenRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenRead(dir); err == nil || !strings.Contains(err.Error(), "slotwise master --dir") {
		t.Errorf("an empty directory: %v", err)
	}
	s := open(t, dir, Limits{})
	if err := errors.Join(s.Put(ended(1, "ann")), s.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, r, Query{Limit: 9}); got != "j1" {
		t.Errorf("listed %s", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "history"))
	if err != nil || len(files) != 1 {
		t.Errorf("reading left %v, %v", files, err)
	}
}

// TestSnapshot copies a database while it is open. A copy of a damaged one is refused.
func TestSnapshot(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	s := open(t, dir, Limits{})
	for n := range 50 {
		if err := s.Put(ended(n+1, "ann")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(to, "history"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Snapshot(dir, filepath.Join(to, "history", FileName)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, open(t, to, Limits{}), Query{Limit: 2}); got != "j50 j49" {
		t.Errorf("the copy has %s", got)
	}
	if err := Snapshot(t.TempDir(), filepath.Join(to, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no history: %v", err)
	}
	if _, err := s.db.Exec("UPDATE records SET whole = substr(whole, 1, length(whole) - 1) WHERE id = 6"); err != nil {
		t.Fatal(err)
	}
	if err := Snapshot(dir, filepath.Join(to, "y")); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "j3") {
		t.Errorf("of a damaged record: %v", err)
	}
	if _, err := s.Get("j3"); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged record: %v", err)
	}
}

// TestKill kills a process with SIGKILL while it writes, several times. Every entry that Put
// has acknowledged is there afterwards.
func TestKill(t *testing.T) {
	dir, last := t.TempDir(), 0
	for round := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKillHelper$")
		c.Env = append(os.Environ(), fmt.Sprintf("SLOTWISE_TEST_HISTORY=%s,%d", dir, last+1))
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "stored %d", &n); err != nil {
				continue
			}
			acknowledged++
			last = n
			if acknowledged == 20+7*round {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = c.Wait() // it was killed
		cancel()
		s := open(t, dir, Limits{})
		for n := 1; n <= last; n++ {
			if _, err := s.Get(fmt.Sprint("j", n)); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if n, err := s.Count(t.Context(), Query{}); err != nil || n < last || n > last+1 || acknowledged < 20 {
			t.Errorf("round %d: %d entries, %d acknowledged, the last one j%d, %v", round, n, acknowledged, last, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKillHelper is the process that TestKill kills.
func TestKillHelper(t *testing.T) {
	dir, from, ok := strings.Cut(os.Getenv("SLOTWISE_TEST_HISTORY"), ",")
	if !ok {
		t.Skip("TestKill runs it")
	}
	var n int
	if _, err := fmt.Sscan(from, &n); err != nil {
		t.Fatal(err)
	}
	for s := open(t, dir, Limits{}); ; n++ {
		j := ended(n, "ann")
		for i := range 500 {
			j.Tasks = append(j.Tasks, &slotwisev1.TaskStatus{Id: fmt.Sprintf("j%d_m_%d", n, i), State: fmt.Sprint(i * n * 7919)})
		}
		if err := s.Put(j); err != nil {
			t.Fatal(err)
		}
		fmt.Println("stored", n)
	}
}

// TestParts stores a job whose tasks need several parts, reads it in each way, and replaces
// it by a smaller one.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	large := func(tasks int) *slotwisev1.HistoryJob {
		h := ended(1, "ann")
		h.Held, h.Tasks = []*slotwisev1.Explanation{{Reason: "slots", HeldMs: 7}}, nil
		h.Request = &slotwisev1.JobSpec{TaskMemory: 1 << 30}
		for i := range tasks {
			h.Tasks = append(h.Tasks, &slotwisev1.TaskStatus{Id: fmt.Sprint("j1_m_", i), State: "succeeded"})
		}
		return h
	}
	for _, tasks := range []int{2*partTasks + 1, 2 * partTasks, partTasks + 1, partTasks, 0} {
		want := large(tasks)
		if err := s.Put(want, ended(2, "bob")); err != nil {
			t.Fatal(err)
		}
		reader, err := OpenRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{s, reader} {
			got, err := s.Get("j1")
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(want, got) {
				t.Errorf("%d tasks: got %d tasks of %v", tasks, len(got.Tasks), got.Job)
			}
			if got, err = s.Head("j1"); err != nil || len(got.Tasks) > 0 || got.Job.User != "ann" || len(got.Held) != 1 {
				t.Errorf("%d tasks, head: %v, %v", tasks, got, err)
			}
			pieces := 0
			for p, err := range s.Pieces("j1") {
				if pieces++; err != nil || len(p.Tasks) > partTasks || (p.Job != nil) != (pieces == 1) {
					t.Errorf("%d tasks, piece %d: %d tasks, %v", tasks, pieces, len(p.Tasks), err)
				}
			}
			if want := map[bool]int{true: 1 + (tasks+partTasks-1)/partTasks, false: 1}[tasks > partTasks]; pieces != want {
				t.Errorf("%d tasks: %d pieces, want %d", tasks, pieces, want)
			}
			var all []string
			for h, err := range s.Each(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprint(h.Job.Id, " ", len(h.Tasks)))
			}
			if got, want := strings.Join(all, ", "), fmt.Sprintf("j1 %d, j2 1", tasks); got != want {
				t.Errorf("all jobs: %s, want %s", got, want)
			}
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, read := range []func(string) (*slotwisev1.HistoryJob, error){s.Get, s.Head} {
		if _, err := read("j9"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a job that does not exist: %v", err)
		}
		if _, err := read("x"); err == nil {
			t.Error("x is the name of a job")
		}
	}
	// A copy holds the parts, and its verification reads them.
	if err := s.Put(large(2 * partTasks)); err != nil {
		t.Fatal(err)
	}
	if err := Snapshot(dir, filepath.Join(dir, "copy.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE parts SET tasks = substr(tasks, 1, length(tasks) - 1) WHERE part = 1"); err != nil {
		t.Fatal(err)
	}
	if err := Snapshot(dir, filepath.Join(dir, "copy2.db")); !errors.Is(err, errDamaged) {
		t.Errorf("a copy with a damaged part: %v", err)
	}
	if _, err := s.Get("j1"); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged part: %v", err)
	}
	if _, err := s.Head("j1"); err != nil {
		t.Error(err)
	}
	// Removing an entry removes its parts.
	s.limits.Entries = 1
	if err := s.Trim(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "parts"); n != 0 {
		t.Errorf("%d parts remain", n)
	}
}

func count(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
