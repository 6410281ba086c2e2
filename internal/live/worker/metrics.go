package worker

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// metrics are the worker's Prometheus metrics. Each worker has its own registry,
// so that tests can run several workers in one process.
type metrics struct {
	registry          *prometheus.Registry
	launches          *prometheus.CounterVec
	ends              *prometheus.CounterVec
	heartbeats        prometheus.Histogram
	heartbeatFailures prometheus.Counter
}

// newMetrics registers the metrics of w, some of which read its state when scraped.
func newMetrics(w *Worker) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		launches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_worker_attempts_launched_total", Help: "Attempts launched.",
		}, []string{"kind"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_worker_attempts_ended_total", Help: "Attempts ended, by kind of task and outcome.",
		}, []string{"kind", "state"}),
		heartbeats: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_worker_heartbeat_seconds", Help: "Time from sending a heartbeat to its answer. The master holds an answer until it has an action for the worker.",
			// From 1 ms to 16 s.
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		heartbeatFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slotwise_worker_heartbeat_failures_total", Help: "Heartbeats that got no answer.",
		}),
	}
	// Gauges are read when they are scraped, so that no code has to remember to update them.
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slotwise_worker_" + name, Help: help}, f))
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
	m.registry.MustRegister(m.launches, m.ends, m.heartbeats, m.heartbeatFailures)
	return m
}

// handler serves the metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// launched counts the start of an attempt.
func (m *metrics) launched(k job.Kind) { m.launches.WithLabelValues(k.String()).Inc() }

// ended counts the end of an attempt.
func (m *metrics) ended(k job.Kind, s slotwisev1.AttemptState) {
	m.ends.WithLabelValues(k.String(), outcomeWord(s)).Inc()
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
