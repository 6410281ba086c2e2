package mapreduce_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/mapreduce"
)

// outage is a fixture whose input and output are on a storage with injected faults.
type outage struct {
	*fixture
	faulty   *faultfs.FS
	features []mapreduce.Feature

	mu      sync.Mutex
	notices []string
	noticed func() // called after each notice; nil does nothing
}

func newOutage(t *testing.T, text string) *outage {
	faulty := faultfs.New(storage.Local{})
	return &outage{fixture: newFixture(t, text), faulty: faulty, features: []mapreduce.Feature{feature.Feature{Scheme: "faulty", Driver: faulty.Driver()}}}
}

// options returns the options of a job on the storage.
func (o *outage) options() mapreduce.Options {
	opts := o.fixture.options()
	opts.Features, opts.Inputs, opts.Output = o.features, []string{"faulty://" + o.in}, "faulty://"+o.out
	opts.Notify = func(text string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.notices = append(o.notices, text); o.noticed != nil {
			o.noticed()
		}
	}
	return opts
}

var errCable = errors.New("the cable is out")

// TestPlanningOutage makes each step before the first task meet a storage that is away until the job says
// that it waits. The job waits, says so once, and succeeds.
func TestPlanningOutage(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Stat, faultfs.List, faultfs.Open, faultfs.Stage} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, numbers)
			// An input of a directory is listed, and a total order is sampled.
			opts := o.options()
			opts.Inputs = []string{"faulty://" + o.dir + "/i*"}
			opts.Reduces = 2
			j := programs["count"]()
			j.TotalOrder = true
			o.faulty.Inject(faultfs.Rule{Op: op, Err: storage.Unavailable(errCable)})
			o.noticed = func() { time.AfterFunc(time.Second, o.faulty.Reset) }
			if _, err := mapreduce.Run(t.Context(), j, opts); err != nil {
				t.Fatal(err)
			}
			if got := readParts(t, o.out); got != "four\t1\none\t1\nthree\t1\ntwo\t1\n" {
				t.Errorf("got %q", got)
			}
			if len(o.notices) != 1 || !strings.HasPrefix(o.notices[0], "waiting for the storage of ") || !strings.Contains(o.notices[0], errCable.Error()) {
				t.Errorf("notices %q", o.notices)
			}
			checkClean(t, o.dir)
		})
	}
}

// TestPlanningAnswers verifies that the storage's answers are final, and outages if the
// user wants no retries.
func TestPlanningAnswers(t *testing.T) {
	for name, err := range map[string]error{
		"denied": storage.Denied(errCable), "broken": errCable, "no retries": storage.Unavailable(errCable),
	} {
		o := newOutage(t, numbers)
		opts := o.options()
		if name == "no retries" {
			opts.StorageRetry = -1
		}
		o.faulty.Inject(faultfs.Rule{Op: faultfs.Stat, Err: err})
		if _, got := mapreduce.Run(t.Context(), programs["count"](), opts); !errors.Is(got, errCable) || o.faulty.Fired() != 1 {
			t.Errorf("%s: %v after %d faults", name, got, o.faulty.Fired())
		}
	}
	o := newOutage(t, numbers)
	opts := o.options()
	opts.StorageRetry = time.Second
	o.faulty.Inject(faultfs.Rule{Op: faultfs.Stat, Err: storage.Unavailable(errCable)})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := mapreduce.Run(t.Context(), programs["count"](), opts)
		if took := time.Since(began); !errors.Is(err, errCable) || o.faulty.Fired() < 2 || took < time.Second || took > 10*time.Second {
			t.Errorf("%v after %v and %d faults", err, took, o.faulty.Fired())
		}
	})
}

// TestReadRecordsOutage reads a file while the storage fails once: the function is called
// once for each record, and its own error is final.
func TestReadRecordsOutage(t *testing.T) {
	var text strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&text, "%d\n", i)
	}
	o := newOutage(t, text.String())
	o.faulty.Inject(faultfs.Rule{Op: faultfs.Read, Nth: 2, Err: storage.Unavailable(errCable)})
	n := 0
	err := mapreduce.ReadRecords(t.Context(), "faulty://"+o.in, mapreduce.Text, func(_, line []byte) error {
		if want := fmt.Sprint(n); string(line) != want {
			return fmt.Errorf("got %q, want %q", line, want)
		}
		n++
		return nil
	}, o.features...)
	if err != nil || n != 300_000 || o.faulty.Fired() != 1 {
		t.Errorf("%d records and %d faults, %v", n, o.faulty.Fired(), err)
	}
	n = 0
	own := storage.Unavailable(errors.New("another storage"))
	err = mapreduce.ReadRecords(t.Context(), "faulty://"+o.in, mapreduce.Text, func(_, _ []byte) error { n++; return own }, o.features...)
	if !errors.Is(err, own) || n != 1 {
		t.Errorf("%d calls, %v", n, err)
	}
}

// TestReadRecordsSecondOutage reads a file through two outages. Each one is shorter than the
// patience, but they are further apart than that.
func TestReadRecordsSecondOutage(t *testing.T) {
	var text strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&text, "%d\n", i)
	}
	o := newOutage(t, text.String())
	synctest.Test(t, func(t *testing.T) {
		// The first block comes, the second one does not. In the next try both come, and the third does not.
		for _, nth := range []int{2, 5} {
			o.faulty.Inject(faultfs.Rule{Op: faultfs.Read, Nth: nth, Err: storage.Unavailable(errCable)})
		}
		n, began := 0, time.Now()
		err := mapreduce.ReadRecords(t.Context(), "faulty://"+o.in, mapreduce.Text, func(_, _ []byte) error {
			if n++; n%1000 == 0 {
				time.Sleep(time.Minute)
			}
			return nil
		}, o.features...)
		if err != nil || n != 300_000 || o.faulty.Fired() != 2 {
			t.Errorf("%d records and %d faults after %v, %v", n, o.faulty.Fired(), time.Since(began), err)
		}
	})
}
