package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A slow start means the same whether a job runs in this process or is submitted to a
// master: the tracker gets the same number, and so starts reduces at the same time.
func TestSlowStartOfRunAndSubmit(t *testing.T) {
	for _, given := range []*float64{nil, proto.Float64(0), proto.Float64(0.5), proto.Float64(1)} {
		l := local.JobSpec{SlowStart: given}
		run := l.Core()
		submit, err := protocol.CoreSpec(&slotwisev1.JobSpec{SlowStart: given})
		if err != nil {
			t.Fatal(err)
		}
		if run.SlowStart != submit.SlowStart || given != nil && run.SlowStart != *given || given == nil && run.SlowStart >= 0 {
			t.Errorf("slow start %v: %g for run, %g for submit", given, run.SlowStart, submit.SlowStart)
		}
	}
}

// The flag --slow-start of a submitted job and of a chain reaches the master; a value that
// is no share is refused.
func TestSlowStartFlag(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Write("p.txt", "1,2\n3,4\n")
	c.Must("wordcount", "p.txt", "--output", "a", "--reduces", "1", "--slow-start", "0.75")
	c.Must("kmeans", "p.txt", "--output", "b", "--param", "k=1", "--param", "iterations=1", "--slow-start", "1")
	for _, bad := range []string{"-0.1", "1.5", "NaN", "x"} {
		if status, out := c.Submit("wordcount", "p.txt", "--output", "x", "--slow-start", bad); status != exitMisuse || !strings.Contains(out, "slow-start") {
			t.Errorf("--slow-start %s: %d %s", bad, status, out)
		}
	}
	c.Master.Kill()
	l, err := journal.Open(filepath.Join(c.Dir, "m", "journal"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var got []float64
	for b, err := range l.Replay() {
		r := &slotwisev1.JournalRecord{}
		if err == nil {
			err = proto.Unmarshal(b, r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if a := r.GetAccepted(); a != nil {
			got = append(got, a.SlowStart)
		}
	}
	if want := []float64{0.75, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("jobs were accepted with the slow starts %v, want %v", got, want)
	}
}
