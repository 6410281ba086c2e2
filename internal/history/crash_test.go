package history

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/slotwise/slotwise/internal/durable"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/storage/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestCrashes cuts the power after each operation. A job that Put has stored is
// present whole. A job whose Put was interrupted is present whole, as its earlier
// version, or absent. No temporary file stays.
func TestCrashes(t *testing.T) {
	for after := 0; ; after++ {
		rng := rand.New(rand.NewPCG(uint64(after), 1))
		disk := faultfs.NewDisk()
		s, err := openOn(disk, "h", Limits{Jobs: 3})
		if err != nil {
			t.Fatal(err)
		}
		disk.StopAfter(after)
		stored := map[job.ID][]*slotwisev1.HistoryJob{} // the versions that may be read
		var interrupted job.ID
		for i, n := range []int{1, 2, 3, 2, 4, 5} {
			j := ended(n, string(rune('a'+i)))
			if err := s.Put(j); err != nil {
				interrupted = job.ID(n)
				stored[interrupted] = append(stored[interrupted], j)
				break
			}
			stored[job.ID(n)] = []*slotwisev1.HistoryJob{j}
		}
		stopped := disk.Stopped()
		disk = disk.Crash(rng)
		if s, err = openOn(disk, "h", Limits{Jobs: 3}); err != nil {
			t.Fatalf("after %d operations: %v", after, err)
		}
		for n, versions := range stored {
			got, err := s.Get(n)
			removed := n <= 2 && len(stored) > 3 // beyond the limit
			neverStored := n == interrupted && len(versions) == 1
			if err != nil && !removed && !neverStored {
				t.Errorf("after %d operations: %s is lost: %v", after, n, err)
			}
			if err == nil && !oneOf(got, versions) {
				t.Errorf("after %d operations: %s is %v", after, n, got)
			}
		}
		if _, err := s.List(Query{Limit: 10}); err != nil {
			t.Errorf("after %d operations: %v", after, err)
		}
		for _, name := range disk.Names() {
			if strings.HasSuffix(name, durable.TempSuffix) {
				t.Errorf("after %d operations: %s is left", after, name)
			}
		}
		if !stopped {
			return
		}
	}
}

func oneOf(got *slotwisev1.HistoryJob, versions []*slotwisev1.HistoryJob) bool {
	for _, v := range versions {
		if cmp.Equal(got, v, protocmp.Transform()) {
			return true
		}
	}
	return false
}

// TestFailedOperations makes each operation of a Put fail, and the disk full. The
// error names the job, and the earlier record of the job remains.
func TestFailedOperations(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename} {
		disk := faultfs.NewDisk()
		s, err := openOn(disk, "h", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ended(1, "before")); err != nil {
			t.Fatal(err)
		}
		disk.Inject(faultfs.Rule{Op: op, Nth: 1, Err: syscall.ENOSPC})
		if err := s.Put(ended(1, "after")); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "j1") {
			t.Errorf("%s: %v", op, err)
		}
		for range 2 {
			got, err := s.Get(1)
			if err != nil || got.GetJob().GetUser() != "before" {
				t.Errorf("%s: %v, %v", op, got, err)
			}
			if s, err = openOn(disk, "h", Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		if names := disk.Names(); len(names) != 2 {
			t.Errorf("%s: left %v", op, names)
		}
	}
}
