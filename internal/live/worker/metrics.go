package worker

import (
	"net/http"

	"github.com/slotwise/slotwise/internal/base/prom"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// metrics are the worker's Prometheus metrics. Each worker has its own, so that tests can run several workers in
// one process.
type metrics struct {
	set               prom.Set
	scrapes           chan struct{} // has an element for each scrape under way
	launches          *prom.Counts
	ends              *prom.Counts
	heartbeats        *prom.Histogram
	heartbeatFailures *prom.Counts
}

// maxScrapes is the number of scrapes under way at which another is refused.
const maxScrapes = 4

// newMetrics makes the metrics of w, some of which read its state when scraped.
func newMetrics(w *Worker) *metrics {
	m := &metrics{
		scrapes:  make(chan struct{}, maxScrapes),
		launches: prom.NewCounts("slotwise_worker_attempts_launched_total", "Attempts launched.", "kind"),
		ends:     prom.NewCounts("slotwise_worker_attempts_ended_total", "Attempts ended, by kind of task and outcome.", "kind", "state"),
		// From 1 ms to 16 s.
		heartbeats: prom.NewHistogram("slotwise_worker_heartbeat_seconds",
			"Time from sending a heartbeat to its answer. The master holds an answer until it has an action for the worker.", prom.Powers(0.001, 4, 8)...),
		heartbeatFailures: prom.NewCounts("slotwise_worker_heartbeat_failures_total", "Heartbeats that got no answer."),
	}
	// Gauges are read when they are scraped, so that no code has to remember to update them.
	gauge := func(name, help string, f func() float64) {
		d := &prom.Desc{Kind: prom.Gauge, Name: "slotwise_worker_" + name, Help: help}
		m.set = append(m.set, prom.SourceFunc(func(p *prom.Page) { p.Add(d, f()) }))
	}
	gauge("attempts_running", "Attempts that are running.", func() float64 { return float64(w.running()) })
	gauge("attempts_memory_bytes", "Resident memory of the processes of all attempts.", w.memory)
	gauge("disk_free_bytes", "Free space on the disk of the worker's directory.", func() float64 {
		n, _ := freeBytes(w.home.path)
		return float64(n)
	})
	gauge("ready", "1 if the worker takes new work, else 0.", func() float64 {
		if w.notReady() == "" {
			return 1
		}
		return 0
	})
	m.set = append(m.set, m.launches, m.ends, m.heartbeats, m.heartbeatFailures)
	return m
}

// handler serves the metrics.
func (m *metrics) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case m.scrapes <- struct{}{}:
			defer func() { <-m.scrapes }()
			m.set.ServeHTTP(w, r)
		default:
			http.Error(w, "too many scrapes at once: try again later", http.StatusServiceUnavailable)
		}
	})
}

// launched counts the start of an attempt.
func (m *metrics) launched(k job.Kind) { m.launches.Inc(k.String()) }

// ended counts the end of an attempt.
func (m *metrics) ended(k job.Kind, s slotwisev1.AttemptState) {
	m.ends.Inc(k.String(), outcomeWord(s))
}

// heartbeatAnswered records the duration of a heartbeat, or its failure.
func (m *metrics) heartbeatAnswered(a answer) {
	if a.err != nil {
		m.heartbeatFailures.Inc()
		return
	}
	m.heartbeats.Observe(a.took.Seconds())
}

// memory returns the resident bytes of all attempts.
func (w *Worker) memory() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.mu.agent.Memory())
}
