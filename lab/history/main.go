// Command history measures the history of ended jobs: it fills one with many jobs, and prints
// how long it takes to store a job, to find one, and to list by each filter. The processor
// time, which includes the collection of garbage, tells slow requests from requests that waited
// for a processor.
//
//	go -C lab run ./history
//	go -C lab run ./history -jobs 1000 -attempts 50
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func main() {
	log.SetFlags(0)
	jobs := flag.Int("jobs", 100_000, "`number` of jobs")
	attempts := flag.Int("attempts", 100, "mean `number` of attempts of a job")
	dir := flag.String("dir", "", "`directory` for the history (default: a temporary one)")
	rounds := flag.Int("rounds", 30, "`number` of requests of each kind")
	flag.Parse()
	if err := run(*dir, *jobs, *attempts, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, jobs, attempts, rounds int) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "slotwise-history-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	s, err := history.Open(dir, history.Limits{Entries: 2 * jobs, Bytes: 1 << 40}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	if err := fill(s, rng, dir, jobs, attempts); err != nil {
		return err
	}
	b := bench{s: s, rng: rng, rounds: rounds}
	if err := b.storeAndFind(jobs, attempts); err != nil {
		return err
	}
	b.pages()
	if b.err != nil {
		return b.err
	}
	at := time.Now()
	again, err := history.Open(dir, history.Limits{Entries: 2 * jobs, Bytes: 1 << 40}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("| open | %.1f ms | | |\n", ms(time.Since(at)))
	return again.Close()
}

// fill stores jobs in s, whose files are in dir, and prints the time and the size of the files.
func fill(s *history.Store, rng *rand.Rand, dir string, jobs, attempts int) error {
	start, total := time.Now(), 0
	const batch = 500
	var list []*slotwisev1.HistoryJob
	for n := 1; n <= jobs; n++ {
		j := makeJob(rng, n, attempts)
		total += len(j.Tasks)
		if list = append(list, j); len(list) == batch || n == jobs {
			if err := s.Put(list...); err != nil {
				return err
			}
			list = list[:0]
		}
	}
	fmt.Printf("%d jobs with %d attempts made and stored in %v\n", jobs, total, time.Since(start).Round(time.Second))
	var size int64
	files, err := filepath.Glob(filepath.Join(dir, "history", "*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return err
		}
		size += info.Size()
	}
	fmt.Printf("size of the files: %d MiB, %.1f bytes for each attempt\n\n| request | median | slowest | most processor time |\n|---|---:|---:|---:|\n", size>>20, float64(size)/float64(total))
	return nil
}

// bench measures requests to a history and prints a row of the table for each kind.
type bench struct {
	s      *history.Store
	rng    *rand.Rand
	rounds int   // requests of each kind
	err    error // the first error of a request
}

// measure times rounds requests.
func (b *bench) measure(name string, do func(i int) error) {
	took, busy := make([]time.Duration, b.rounds), time.Duration(0)
	for i := range took {
		at, used := time.Now(), harness.ProcessorTime()
		if err := do(i); err != nil && b.err == nil {
			b.err = fmt.Errorf("%s: %w", name, err)
		}
		took[i], busy = time.Since(at), max(busy, harness.ProcessorTime()-used)
	}
	slices.Sort(took)
	fmt.Printf("| %s | %.1f ms | %.1f ms | %.1f ms |\n", name, ms(took[len(took)/2]), ms(took[len(took)-1]), ms(busy))
}

// storeAndFind measures requests for one job. The history already has jobs jobs, each with about
// attempts attempts.
func (b *bench) storeAndFind(jobs, attempts int) error {
	s, rng := b.s, b.rng
	b.measure("store a job durably", func(i int) error { return s.Put(makeJob(rng, jobs+1+i, attempts)) })
	b.measure("a job by its id, with its attempts", func(int) error { _, err := s.Get(fmt.Sprint("j", 1+rng.IntN(jobs))); return err })
	big := makeJob(rng, jobs+b.rounds+1, 100_000)
	if err := s.Put(big); err != nil {
		return err
	}
	b.measure(fmt.Sprintf("a job with %d attempts by its id, without them", len(big.Tasks)), func(int) error { _, err := s.Head(big.Job.Id); return err })
	b.measure("its first attempts", func(int) error {
		for piece, err := range s.Pieces(big.Job.Id) {
			if err != nil || len(piece.Tasks) > 0 {
				return err
			}
		}
		return errors.New("it has none")
	})
	b.measure("all its attempts", func(int) error { _, err := s.Get(big.Job.Id); return err })
	return nil
}

// pages measures lists of jobs by each filter.
func (b *bench) pages() {
	day := 24 * time.Hour.Milliseconds()
	for _, q := range []struct {
		name string
		q    history.Query
	}{
		{"first page", history.Query{}},
		{"page 1,000", history.Query{Offset: 49_950}},
		{"name, many", history.Query{Text: "NIGHTLY"}},
		{"name, one", history.Query{Text: "nightly-04242"}},
		{"name, none", history.Query{Text: "absent"}},
		{"user", history.Query{User: "user-7"}},
		{"pool", history.Query{Pool: "pool-3"}},
		{"state", history.Query{State: slotwisev1.JobState_JOB_STATE_FAILED}},
		{"time", history.Query{From: epoch + 10*day, To: epoch + 11*day}},
		{"name, user, pool, state and time", history.Query{Text: "1", User: "user-7", Pool: "pool-3", State: slotwisev1.JobState_JOB_STATE_FAILED, From: epoch, To: epoch + 90*day}},
	} {
		q.q.Kind, q.q.Limit = history.All, 50
		b.measure(q.name+": a page of 50 and the number of all", func(int) error {
			list, n, err := b.s.Page(context.Background(), q.q)
			if len(list) > n {
				err = errors.New("more jobs are listed than counted")
			}
			return err
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// epoch is the time of the first job, in ms since the Unix epoch.
const epoch = 1_790_000_000_000

// makeJob makes a job with one attempt for most tasks, on 100 nodes, with times and counters
// as in a real history.
func makeJob(rng *rand.Rand, n, attempts int) *slotwisev1.HistoryJob {
	submitted := int64(epoch) + int64(n)*60_000
	state := slotwisev1.JobState_JOB_STATE_SUCCEEDED
	if rng.IntN(20) == 0 {
		state = slotwisev1.JobState_JOB_STATE_FAILED
	}
	h := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: fmt.Sprint("j", n), Name: fmt.Sprintf("%s-%05d", []string{"nightly", "report", "index", "train"}[rng.IntN(4)], n%10_000),
		User: fmt.Sprint("user-", rng.IntN(40)), Pool: fmt.Sprint("pool-", rng.IntN(8)), State: state, SubmittedMs: submitted, StartedMs: submitted + rng.Int64N(20_000),
		MapCounters: counters(rng), ReduceCounters: counters(rng), Maps: &slotwisev1.TaskCounts{}, Reduces: &slotwisev1.TaskCounts{}}}
	count := max(1, int(float64(attempts)*(0.5+rng.Float64())))
	maps := max(1, count*9/10)
	for i := range count {
		kind, index := "m", i
		if i >= maps {
			kind, index = "r", i-maps
		}
		name := fmt.Sprintf("j%d_%s_%d", n, kind, index)
		from := h.Job.StartedMs + rng.Int64N(600_000)
		node := fmt.Sprintf("worker-%03d", rng.IntN(100))
		h.Tasks = append(h.Tasks, &slotwisev1.TaskStatus{Id: name, State: "succeeded", Hosts: []string{node, fmt.Sprintf("worker-%03d", rng.IntN(100))},
			Attempts: []*slotwisev1.AttemptStatus{{Id: name + "_0", State: "succeeded", Node: node, Level: "node", Progress: 1, StartedMs: from, EndedMs: from + 5_000 + rng.Int64N(60_000)}}})
		h.Job.EndedMs = max(h.Job.EndedMs, h.Tasks[i].Attempts[0].EndedMs)
	}
	h.Job.Maps.Total, h.Job.Maps.Done, h.Job.Reduces.Total, h.Job.Reduces.Done = int32(maps), int32(maps), int32(count-maps), int32(count-maps)
	return h
}

// counters makes the counters of a kind.
func counters(rng *rand.Rand) *slotwisev1.Counters {
	n := func() int64 { return rng.Int64N(1 << 40) }
	return &slotwisev1.Counters{InputRecords: n(), InputBytes: n(), OutputRecords: n(), OutputBytes: n(), Spills: n(), SpilledBytes: n(), FileBytes: n(), CpuNs: n(),
		User: map[string]int64{"rows": n(), "errors": n()}}
}
