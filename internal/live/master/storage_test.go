package master

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestStorageRights submits jobs over files of several places as each role, to masters
// with and without roots.
func TestStorageRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	user, admin := secure.Identity{User: "ann", Role: secure.User}, secure.Identity{User: "root", Role: secure.Admin}
	open := secure.Identity{Open: true, Role: secure.Admin}
	worker := filepath.Join(dir, "w1")
	rooted := []string{"file://" + dir + "/shared", "file://" + dir + "/users/{user}"}
	for _, x := range []struct {
		name    string
		roots   []string
		who     secure.Identity
		allowed string // the allowed ones of the names below
	}{
		{"a user with roots", rooted, user, "shared/x users/ann/x"},
		{"a user without roots", nil, user, ""},
		{"an admin with roots", rooted, admin, "shared shared/x users/ann/x users/bob/x elsewhere"},
		{"an admin without roots", nil, admin, "shared shared/x users/ann/x users/bob/x elsewhere"},
		{"an open master with roots", rooted, open, "shared/x users/ann/x"},
		{"an open master without roots", nil, open, "shared shared/x users/ann/x users/bob/x elsewhere"},
	} {
		m, err := Open(Config{Dir: filepath.Join(dir, "m"), StorageRoots: x.roots, OwnFiles: []string{keys}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (workerService{m}).Register(t.Context(), &slotwisev1.RegisterRequest{Worker: "w1", Address: "w1:1", Incarnation: "1", MapSlots: 1, Dir: worker}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"shared", "shared/x", "users/ann/x", "users/bob/x", "elsewhere",
			"m", "m/journal", "m/history/x", "w1", "w1/outputs", "keys", "shared/../m", ".",
		} {
			allowed := " " + x.allowed + " "
			for _, input := range []bool{false, true} {
				uri := "file://" + dir + "/" + name
				want := strings.Contains(allowed, " "+name+" ") || input && name == "shared" && allowed != "  "
				spec := &slotwisev1.JobSpec{Name: "x", User: "ann", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1, Output: uri}
				if input {
					spec.Synthetic, spec.Output = 0, ""
					spec.Splits = []*slotwisev1.Split{{Pieces: []*slotwisev1.Piece{{Uri: uri}}}}
				}
				err := m.admit(t.Context(), x.who, spec)
				if (err == nil) != want {
					t.Errorf("%s, %s (input: %v): %v, want allowed: %v", x.name, name, input, err, want)
				}
				if code := connect.CodeOf(err); err != nil && code != connect.CodePermissionDenied && !strings.Contains(name, "..") {
					t.Errorf("%s, %s: %v", x.name, name, err)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutputTurnedIntoALink replaces a directory above a job's output by a link to the
// master's directory while the job runs. The job must fail, and the journal must stay.
func TestOutputTurnedIntoALink(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Grace: time.Millisecond, RemovePatience: time.Millisecond})
	w := r.worker("w1", 1, 0)
	shared := filepath.Join(t.TempDir(), "shared")
	if err := os.MkdirAll(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	spec := r.spec(1, 0, "file://"+shared+"/journal")
	spec.Overwrite = true
	id := r.submit(spec)
	w.awaitLaunch(id + "_m_0_0")
	if !w.commit(id, id+"_m_0_0", "part-m-00000", "x") {
		t.Fatal("the commit is not granted")
	}
	// Move the staged output beside the journal, where the commit expects it.
	staged, err := filepath.Glob(filepath.Join(shared, ".*"))
	if err != nil || len(staged) == 0 {
		t.Fatalf("%v, %v", staged, err)
	}
	for _, p := range staged {
		if err := os.Rename(p, filepath.Join(r.cfg.Dir, filepath.Base(p))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(shared, shared+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(r.cfg.Dir, shared); err != nil {
		t.Fatal(err)
	}
	w.heartbeat(0, w.succeeded(id+"_m_0_0"))
	st := r.awaitEnd(id)
	if st.State != slotwisev1.JobState_JOB_STATE_FAILED || !strings.Contains(st.Message, "belongs to a daemon") {
		t.Errorf("job %v", st)
	}
	if _, err := os.Stat(filepath.Join(r.cfg.Dir, "journal", "_SUCCESS")); err == nil {
		t.Error("the job has replaced the journal")
	}
	r.stop()
	r.start() // the journal is intact
	if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_FAILED {
		t.Errorf("after a restart: %v", st)
	}
}

// TestLateStaging has a former master stage an output after the present one has removed it. The directory is
// removed again.
func TestLateStaging(t *testing.T) {
	t.Parallel()
	// On a busy machine this test may pause between the first removal and its own staging for longer than the master
	// waits before the second one.
	withTimeouts(t, 2*time.Second, func(late time.Duration) error { return lateStaging(t, late) })
}

func lateStaging(t *testing.T, lateLook time.Duration) error {
	r := newRig(t, Config{lateLook: lateLook})
	defer r.stop()
	dir := t.TempDir()
	const token = "0123456789abcdef0123456789abcdef01234567"
	m := r.m
	late := func() {
		if err := stage(t.Context(), m.resolveOutput, "file://"+dir+"/out", token, storage.ReplaceOf(false, false)); err != nil {
			t.Fatal(err)
		}
	}
	staged := func() bool {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list) > 0
	}
	late()
	began := make(chan struct{})
	m.postOwn(func() {
		m.removeStaged(&protocol.RemoveStaged{Request: "r", URI: "file://" + dir + "/out", Token: token, Retry: true})
		close(began)
	})
	<-began
	eventually(t, func() bool { return !staged() })
	late()
	if !staged() {
		return errors.New("nothing is staged: the test shows nothing")
	}
	for deadline := time.Now().Add(lateLook + time.Minute); staged(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("what was staged late is left")
		}
	}
	return nil
}
