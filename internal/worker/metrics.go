package worker

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// metrics are what the worker shows to Prometheus.
type metrics struct {
	registry  *prometheus.Registry
	launches  *prometheus.CounterVec
	ends      *prometheus.CounterVec
	beats     prometheus.Histogram
	beatFails prometheus.Counter
}

func newMetrics(w *Worker) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		launches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_worker_attempts_launched_total", Help: "Attempts launched.",
		}, []string{"kind"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_worker_attempts_ended_total", Help: "Attempts ended, by how.",
		}, []string{"kind", "state"}),
		beats: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_worker_heartbeat_seconds", Help: "Time to a heartbeat's answer, which the master may hold.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		beatFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slotwise_worker_heartbeat_failures_total", Help: "Heartbeats without an answer.",
		}),
	}
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slotwise_worker_" + name, Help: help}, f))
	}
	gauge("attempts_running", "Attempts that run now.", func() float64 { return float64(w.running()) })
	gauge("attempts_memory_bytes", "Resident memory of all attempts' processes.", w.memory)
	gauge("disk_free_bytes", "Room on the disk of the worker's directory.", func() float64 {
		n, _ := freeBytes(w.home.path)
		return float64(n)
	})
	gauge("ready", "1 if the worker takes work.", func() float64 {
		if w.notReady() == "" {
			return 1
		}
		return 0
	})
	m.registry.MustRegister(m.launches, m.ends, m.beats, m.beatFails)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

func (m *metrics) launched(k job.Kind) { m.launches.WithLabelValues(k.String()).Inc() }

func (m *metrics) ended(k job.Kind, s slotwisev1.AttemptState) {
	m.ends.WithLabelValues(k.String(), stateName(s)).Inc()
}

// beat notes a heartbeat's answer, or that there was none.
func (m *metrics) beat(a answer) {
	if a.err != nil {
		m.beatFails.Inc()
		return
	}
	m.beats.Observe(a.took.Seconds())
}

// memory sums what attempts take.
func (w *Worker) memory() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n int64
	for _, a := range w.mu.attempts {
		n += a.memory
	}
	return float64(n)
}
