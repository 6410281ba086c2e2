package mapreduce_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/mapreduce"
)

// TestInjectedFaults makes each operation on files fail in turn, once or every time.
// The job then gives the right answer after a retry or an error that names a file. It
// leaves no files behind.
func TestInjectedFaults(t *testing.T) {
	faulty := faultfs.New(storage.Local{})
	features := []mapreduce.Feature{feature.Feature{Scheme: "faulty", Driver: faulty.Driver()}}
	broken := errors.New("the cable is out")
	text := strings.Repeat(numbers, 300)
	const want = "four\t300\none\t300\nthree\t300\ntwo\t300\n"
	retried := 0
	for _, op := range []faultfs.Op{faultfs.Open, faultfs.Read, faultfs.Stat, faultfs.List, faultfs.Stage,
		faultfs.Create, faultfs.Write, faultfs.Commit, faultfs.Publish} {
		for nth := 0; nth <= 6; nth++ { // 0 is every time
			name := fmt.Sprintf("%s %d", op, nth)
			f := newFixture(t, text)
			faulty.Reset()
			faulty.Inject(faultfs.Rule{Op: op, Nth: nth, Err: broken})
			o := f.options()
			o.Features = features
			o.Inputs, o.Output = []string{"faulty://" + f.in}, "faulty://"+f.out
			_, err := mapreduce.Run(context.Background(), lines(func(_, line []byte, out *mapreduce.Emitter) error {
				out.Add(line, 1)
				return nil
			}), o)
			switch _, there := os.Stat(f.out); {
			case err == nil:
				if got := sortedLines(readParts(t, f.out)); got != want {
					t.Errorf("%s: wrong output %q", name, got)
				}
				retried += faulty.Fired()
			case there == nil:
				t.Errorf("%s: failed with %v and left output", name, err)
			case !strings.Contains(err.Error(), broken.Error()) || !strings.Contains(err.Error(), f.dir):
				t.Errorf("%s: error %q does not name a file and the cause", name, err)
			}
			checkClean(t, f.dir)
		}
	}
	if retried < 5 {
		t.Errorf("only %d faults were got over", retried)
	}
}

// TestManyReduces has far more reduces than keys.
func TestManyReduces(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 files")
	}
	f := newFixture(t, numbers)
	o := f.options()
	o.Reduces = 10_000
	o.Cluster.NoSync = true // 10,000 flushes take most of the time
	if _, err := mapreduce.Run(context.Background(), programs["count"](), o); err != nil {
		t.Fatal(err)
	}
	if got := sortedLines(readParts(t, f.out)); got != "four\t1\none\t1\nthree\t1\ntwo\t1\n" {
		t.Errorf("got %q", got)
	}
}
