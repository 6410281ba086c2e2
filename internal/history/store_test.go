package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/slotwise/slotwise/internal/durable"
	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func ended(n int, user string) *slotwisev1.HistoryJob {
	return &slotwisev1.HistoryJob{
		Job:   &slotwisev1.JobStatus{Id: job.ID(n).String(), User: user, State: slotwisev1.JobState_JOB_STATE_SUCCEEDED},
		Tasks: []*slotwisev1.TaskStatus{{Id: fmt.Sprintf("j%d_m_0", n), State: "succeeded"}},
	}
}

func open(t *testing.T, dir string, l Limits) *Store {
	t.Helper()
	s, err := Open(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ids(list []*slotwisev1.HistoryJob) (out []string) {
	for _, j := range list {
		out = append(out, j.Job.Id)
	}
	return out
}

// TestStore puts, lists and reads jobs, in one store and in another one opened on the
// same directory.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Jobs: 4})
	for n := 1; n <= 6; n++ {
		if err := s.Put(ended(n, []string{"ann", "bob"}[n%2])); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(ended(6, "ann")); err != nil { // again: the same entry
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name(9)+durable.TempSuffix), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, dir, Limits{Jobs: 4})} {
		for _, c := range []struct {
			q    Query
			want []string
		}{
			{Query{Limit: 10}, []string{"j6", "j5", "j4", "j3"}},
			{Query{Limit: 2}, []string{"j6", "j5"}},
			{Query{Limit: 10, User: "bob"}, []string{"j5", "j3"}},
			{Query{Limit: 10, Before: 5}, []string{"j4", "j3"}},
		} {
			list, err := s.List(c.q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, ids(list)); diff != "" {
				t.Errorf("%+v: %s", c.q, diff)
			}
		}
		got, err := s.Get(4)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ended(4, "ann"), got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if _, err := s.Get(2); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a job that was removed: %v", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("files: %v, error %v", entries, err)
	}
}

// TestBytes bounds a store by bytes. The newest job always stays.
func TestBytes(t *testing.T) {
	s := open(t, t.TempDir(), Limits{Bytes: 1})
	for n := 1; n <= 3; n++ {
		if err := s.Put(ended(n, "ann")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(Query{Limit: 10})
	if diff := cmp.Diff([]string{"j3"}, ids(list)); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

// TestDamage flips a bit of each byte of a file, and truncates the file to each
// length. Get reports the damage, and List still returns the other job.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	for n := 1; n <= 2; n++ {
		if err := s.Put(ended(n, "ann")); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name(2))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(2); err == nil {
			t.Errorf("%s: Get did not report the damage", what)
		}
		list, _ := s.List(Query{Limit: 10})
		if len(list) == 0 || list[len(list)-1].Job.Id != "j1" {
			t.Errorf("%s: listed %v", what, ids(list))
		}
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x40
		check(fmt.Sprintf("byte %d", i), bad)
		check(fmt.Sprintf("cut at %d", i), good[:i])
	}
}
