package master

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/policies/auto"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// stats are the measurements of the loop itself.
type stats struct {
	registry  *prometheus.Registry
	batches   prometheus.Histogram
	syncs     prometheus.Histogram
	jobsEnded *prometheus.CounterVec
	deadlines *prometheus.CounterVec
	lateness  prometheus.Histogram
	damaged   prometheus.Counter
}

// newStats registers the loop's own measurements and the collector of the core's.
func newStats(m *Master) *stats {
	// An fsync of a good disk takes tenths of a millisecond, and one of a bad network disk seconds.
	// From 0.1 ms to 6.6 s.
	buckets := prometheus.ExponentialBuckets(0.0001, 4, 9)
	s := &stats{
		registry: prometheus.NewRegistry(),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_master_batch_seconds", Help: "Time of a batch of requests with its fsync.", Buckets: buckets,
		}),
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_master_journal_sync_seconds", Help: "Time of the fsync of a batch.", Buckets: buckets,
		}),
		jobsEnded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_master_jobs_ended_total", Help: "Jobs that have ended, by final state.",
		}, []string{"state"}),
		deadlines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_master_deadlines_total", Help: "Deadlines of jobs that have succeeded or failed, by whether they were met.",
		}, []string{"outcome"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_master_deadline_lateness_seconds", Help: "Time by which jobs that have succeeded missed their deadlines; 0 if they met them.",
			Buckets: []float64{0, 1, 10, 60, 300, 900, 3600, 14400, 86400},
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slotwise_master_history_damaged_total", Help: "Damaged databases of the history that were set aside since the master's start.",
		}),
	}
	s.registry.MustRegister(s.batches, s.syncs, s.jobsEnded, s.deadlines, s.lateness, s.damaged, collector{m},
		// The memory, CPU time and open files of the master's process.
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

func (s *stats) synced(took time.Duration) { s.syncs.Observe(took.Seconds()) }

func (s *stats) batch(took time.Duration) { s.batches.Observe(took.Seconds()) }

func (s *stats) ended(j *slotwisev1.JobStatus) {
	s.jobsEnded.WithLabelValues(protocol.StateWord(j.State)).Inc()
	// A user who kills a job gives up its deadline, so it says nothing about the cluster.
	if j.DeadlineMs == 0 || j.State == slotwisev1.JobState_JOB_STATE_KILLED {
		return
	}
	outcome := "missed"
	if j.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		if j.EndedMs <= j.DeadlineMs {
			outcome = "met"
		}
		s.lateness.Observe(float64(max(0, j.EndedMs-j.DeadlineMs)) / 1000)
	}
	s.deadlines.WithLabelValues(outcome).Inc()
}

// collector reads numbers from the core.
type collector struct{ m *Master }

// reading is one number.
type reading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value float64
	label []string
}

// describe returns the description of a metric with the common prefix.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("slotwise_master_"+name, help, labels, nil)
}

var (
	descInfo      = describe("info", "The program's version.", "version", "policy")
	descChosen    = describe("policy_chosen", "The policy that decides for policy auto. Absent under other policies.", "policy")
	descChoices   = describe("policy_choices_total", "Decisions of policy auto, by whether they switched to another policy.", "outcome")
	descNodes     = describe("nodes", "Workers, by state.", "state")
	descSlots     = describe("slots", "Slots of live workers.", "kind")
	descUsed      = describe("slots_used", "Slots in use.", "kind")
	descJobs      = describe("jobs", "Jobs that have not ended, by state.", "state")
	descPending   = describe("tasks_pending", "Pending tasks.", "kind")
	descRunning   = describe("attempts_running", "Running attempts.", "kind")
	descHeld      = describe("requests_held", "Held requests: long polls that wait for a change.", "of")
	descInbox     = describe("inbox", "Requests that wait for the loop.")
	descJournal   = describe("journal_bytes", "Bytes of the journal since its last snapshot.")
	descSteps     = describe("events_total", "Events that the tracker has handled.")
	descBeats     = describe("heartbeats_total", "Heartbeats of workers.")
	descLaunches  = describe("attempts_launched_total", "Attempts launched.")
	descPreempted = describe("attempts_preempted_total", "Attempts killed because the policy preempted them, and reduces killed because maps of their job needed their slots.")
	descRefused   = describe("assignments_refused_total", "Assignments of the policy that broke a rule; each is a bug.")
	descUnsaved   = describe("history_unsaved", "Ended jobs and chains that the history could not take yet.")
	descPool      = describe("pool_slots_used", "Slots in use by the jobs of a pool. Pools without unfinished jobs are absent.", "pool")
	descPoolWants = describe("pool_tasks_pending", "Pending tasks of a pool.", "pool")
	descUser      = describe("user_slots_used", "Slots in use by the jobs of a user. Users without unfinished jobs are absent.", "user")
	descUserWants = describe("user_tasks_pending", "Pending tasks of a user.", "user")
	descMasters   = describe("masters", "Masters, by role. Those that do not answer the leader are silent instead.", "role")
	descLost      = describe("nodes_lost_total", "Workers given up after silence.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descInfo, descNodes, descSlots, descUsed, descJobs, descPending, descRunning, descHeld, descInbox,
		descJournal, descSteps, descBeats, descLaunches, descPreempted, descRefused, descLost, descUnsaved,
		descPool, descPoolWants, descUser, descUserWants, descChosen, descChoices, descMasters,
	} {
		out <- d
	}
}

// scrapeTimeout limits the time for which a scrape or health check waits for the loop.
const scrapeTimeout = 5 * time.Second

// Collect implements prometheus.Collector. It sends nothing if the loop does not
// answer in time.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.m.ctx, scrapeTimeout)
	defer cancel()
	// One turn of the loop for all numbers, so they are of one moment.
	list, err := query(ctx, c.m, func() ([]reading, error) { return c.m.readings(), nil })
	// A follower has no core, and a stuck loop gives no answer. The numbers of the process are sent
	// without them.
	if err != nil {
		return
	}
	for _, r := range list {
		out <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value, r.label...)
	}
}

// readings reads all numbers from the core. It is called in the loop.
func (m *Master) readings() []reading {
	gauge := func(d *prometheus.Desc, v float64, label ...string) reading {
		return reading{d, prometheus.GaugeValue, v, label}
	}
	count := func(d *prometheus.Desc, v int64) reading { return reading{d, prometheus.CounterValue, float64(v), nil} }
	s := m.core.Tracker().Stats()
	users, heartbeats := m.core.Held()
	policy, _ := m.core.Policy()
	unsavedJobs, unsavedChains := m.core.Unsaved()
	list := []reading{
		gauge(descInfo, 1, m.cfg.Version, policy),
		gauge(descInbox, float64(m.inbox.Len())),
		gauge(descJournal, float64(m.journal.SinceSnapshot())),
		gauge(descUnsaved, float64(unsavedJobs+unsavedChains)),
		gauge(descHeld, float64(users), "users"),
		gauge(descHeld, float64(heartbeats), "workers"),
		count(descSteps, s.Steps), count(descBeats, s.Heartbeats), count(descLaunches, s.Launches),
		count(descPreempted, s.Preempted), count(descRefused, s.Refused), count(descLost, s.LostNodes),
	}
	if p, ok := m.core.Tracker().Policy().(*auto.Policy); ok {
		decided, switches := p.Counts()
		list = append(list, gauge(descChosen, 1, p.Running()),
			reading{descChoices, prometheus.CounterValue, float64(switches), []string{"switched"}},
			reading{descChoices, prometheus.CounterValue, float64(decided - switches), []string{"stayed"}})
	}
	jobs, nodes := m.core.Tracker().Jobs(), m.core.Tracker().Nodes()
	for k := range job.Kind(job.Kinds) {
		list = append(list, gauge(descSlots, float64(nodes.Slots(k)), k.String()),
			gauge(descUsed, float64(jobs.OccupiedOn(job.Map, k)+jobs.OccupiedOn(job.Reduce, k)), k.String()),
			gauge(descPending, float64(jobs.Pending(k)+jobs.Delayed(k)), k.String()), gauge(descRunning, float64(jobs.Running(k)), k.String()))
	}
	// JobStates names all states, also with 0: a series that disappears is no zero in
	// Prometheus.
	for state, n := range m.core.JobStates() {
		list = append(list, gauge(descJobs, float64(n), state))
	}
	states := map[string]int{}
	for _, n := range nodes.All() {
		if !n.Forgotten() {
			states[n.State().String()]++
		}
	}
	// Each state is named, for the same reason.
	for _, state := range cluster.States() {
		list = append(list, gauge(descNodes, float64(states[state]), state))
	}
	list = append(list, m.masterReadings()...)
	return append(list, sharesOf(jobs.Live())...)
}

// masterReadings counts the masters by role. A silent one has no other role here. All roles are named, also
// by a master without peers, which leads.
func (m *Master) masterReadings() (list []reading) {
	const silent = "silent"
	count := map[string]int{}
	for _, s := range m.standing() {
		if s.Silent {
			s.Role = silent
		}
		count[s.Role]++
	}
	if !m.replicated() {
		count[leaderRole] = 1
	}
	for _, role := range []string{leaderRole, followerRole, learnerRole, silent} {
		list = append(list, reading{descMasters, prometheus.GaugeValue, float64(count[role]), []string{role}})
	}
	return list
}

// sharesOf sums the slots in use and the pending tasks of live jobs by pool and by user.
func sharesOf(live []*job.Job) (list []reading) {
	type sums struct{ used, wants int }
	by := func(used, wants *prometheus.Desc, name func(*job.Job) string) {
		all := map[string]sums{}
		for _, j := range live {
			s := all[name(j)]
			for k := range job.Kind(job.Kinds) {
				s.used += j.Occupied(k)
				s.wants += j.Pending(k) + j.Delayed(k)
			}
			all[name(j)] = s
		}
		for label, s := range all {
			list = append(list, reading{used, prometheus.GaugeValue, float64(s.used), []string{label}},
				reading{wants, prometheus.GaugeValue, float64(s.wants), []string{label}})
		}
	}
	by(descPool, descPoolWants, (*job.Job).Pool)
	by(descUser, descUserWants, (*job.Job).User)
	return list
}

// serveMetrics answers Prometheus.
func (m *Master) serveMetrics() http.Handler {
	next := promhttp.HandlerFor(m.stats.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := identity(r.Context()).Account()
		// A scrape walks over all jobs in the loop and encodes thousands of lines. Prometheus sends one each few
		// seconds; a user with a shell loop sends as many as the gate admits.
		if err := take(r.Context(), m.requests.scrapes, user, 1); err != nil {
			http.Error(w, "too many scrapes at once: try again later", http.StatusServiceUnavailable)
			return
		}
		defer m.requests.scrapes.Give(user, 1)
		next.ServeHTTP(w, r)
	})
}

// Alive waits until the loop has taken a turn, whether this master leads or not. It returns an
// error if none came in time.
func (m *Master) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	answered := make(chan struct{})
	// In the inbox, in the line of the caller, so an inbox that is not emptied makes the check fail.
	if err := m.post(ctx, func() { close(answered) }); err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.stopped:
		return errClosed
	}
}

// serveHealth answers 200 if the loop does.
func (m *Master) serveHealth(w http.ResponseWriter, r *http.Request) {
	if err := m.Alive(r.Context()); err != nil {
		http.Error(w, "the master does not answer", http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ok\n"))
}
