package modfair

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// DynamicConfig holds the parameters of Dynamic.
type DynamicConfig struct {
	// Delay is the wait at each level until a map has been launched at it, 3 s
	// in the paper. A delay shorter than the time between two heartbeats never
	// finds a better node.
	Delay time.Duration
	// Memory stops a job whose last map ran far from its data from waiting for
	// closer nodes, until one of its maps happens to run closer.
	Memory bool
	// Window is the number of launches of each level that the means cover, 0
	// for all. Small windows follow changes quickly, and chance as well.
	Window int
	// Queued takes the whole time since a map's job was submitted as the map's wait, and not
	// only the time in which the job declined slots. Eq. 7 and 8 speak of the "waiting time of
	// tasks", which can be read as either.
	Queued bool
	// AnyHeartbeat and ByRack have the same meaning as in DelayConfig.
	AnyHeartbeat, ByRack bool
}

// maxWindow bounds the memory of a window.
const maxWindow = 1 << 20

func (c *DynamicConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Delay, sched.DurationFrom(0), sched.Param{Name: "delay", Default: "3s", Tune: []string{"0s", "1s", "3s", "6s", "12s"},
			Help: "How long a job waits for its node, and then for its rack, until the first waits have been measured. A delay below " +
				"the time between two heartbeats never finds a better node."}),
		sched.Bind(&c.Memory, sched.Switch("off", "on"), sched.Param{Name: "delay-memory", Default: "on", Tune: []string{"off", "on"}, Aliases: []string{"delayMemory"},
			Help: "Whether a job whose last map ran in its rack or farther away no longer waits for the node: on or off. off makes jobs " +
				"with badly placed data wait again for every map."}),
		sched.Bind(&c.Window, sched.Int(0, maxWindow), sched.Param{Name: "delay-window", Default: "0", Aliases: []string{"delayWindow"},
			Help: "How many of the last maps of each level the mean waits cover, at most 1048576; 0 covers all since the start. Small " +
				"windows follow chance."}),
		sched.Bind(&c.Queued, sched.Switch("declined", "queued"), sched.Param{Name: "delay-sample", Default: "declined", Tune: []string{"declined", "queued"},
			Help: "What counts as the wait of a map: declined (the time in which its job declined slots since its previous map) or " +
				"queued (the time since its job was submitted, another reading of the paper; on a full cluster jobs then decline " +
				"slots for as long as they queue)."}),
		hadoop.BindWaitUntil(&c.AnyHeartbeat),
		hadoop.BindOffRack(&c.ByRack),
	}
}

// DynamicParams documents the parameters of Dynamic.
func DynamicParams() []sched.Param { return new(DynamicConfig).bind().Params() }

// ReadDynamic returns Dynamic with the parameters that the user has set.
func ReadDynamic(k *sched.Kit) (sched.Place, error) {
	var c DynamicConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewDynamic(c), nil
}

// Dynamic is Delay with measured waits, as in ModFair (Eq. 7, 8). A job
// declines a node for as long as maps launched at the better level have waited
// on average. Short waits make the next ones shorter still, down to none, which
// is the source of its gain.
type Dynamic struct {
	hadoop.Delay
	first      time.Duration // wait until the first measurement
	memory     bool
	queued     bool
	node, rack mean
}

var (
	_ sched.Place       = (*Dynamic)(nil)
	_ sched.Consulter   = (*Dynamic)(nil)
	_ sched.JobWatcher  = (*Dynamic)(nil)
	_ sched.TaskWatcher = (*Dynamic)(nil)
	_ sched.Explainer   = (*Dynamic)(nil)
	_ sched.Stateful    = (*Dynamic)(nil)
)

// NewDynamic returns a place without measurements.
func NewDynamic(c DynamicConfig) *Dynamic {
	d := &Dynamic{first: c.Delay, memory: c.Memory, queued: c.Queued, node: mean{window: c.Window}, rack: mean{window: c.Window}}
	d.Delay = *hadoop.NewDelay(hadoop.DelayConfig{AnyHeartbeat: c.AnyHeartbeat, ByRack: c.ByRack})
	d.measure()
	return d
}

// measure sets the waits to the means (Eq. 7 and 8): for the node, then for the
// rack. The mean wait of maps that ran in their rack counts from the start of waiting, so
// the second stage is its excess over the first (reading 10 in README.md).
func (d *Dynamic) measure() {
	node, rack := d.first, d.first
	if d.node.count > 0 {
		node = d.node.value()
	}
	// The means are of different jobs' maps, so the rack's may be the smaller one; then no second wait is
	// left.
	if d.rack.count > 0 {
		rack = max(0, d.rack.value()-node)
	}
	d.SetWaits(node, rack)
}

// TaskStarted implements sched.TaskWatcher. It records the wait of each map (Eq. 7 and 8). Copies do not count,
// because they did not wait. Maps that ran far from their data do not count
// either, because their wait says nothing about closer nodes.
func (d *Dynamic) TaskStarted(a *job.Attempt, now time.Duration) {
	if a.Kind() != job.Map {
		return
	}
	waited := d.Wait(a.Job()).Waited // before the launch resets it
	// Reading 12 in README.md: on a full cluster this wait is the queue's, and jobs decline slots
	// for as long as they queue.
	if d.queued {
		waited = now - a.Job().Submitted()
	}
	// It resets the wait and remembers the level, which the next lines may overwrite.
	d.Delay.TaskStarted(a, now)
	// Reading 11 in README.md: Hadoop remembers the level of the last map, and a job whose last map
	// ran far away does not wait for a close node.
	if !d.memory {
		d.Wait(a.Job()).Level = cluster.NODE
	}
	switch {
	case a.Speculative():
		return
	case a.Level() == cluster.NODE:
		d.node.add(waited)
	case a.Level() == cluster.RACK:
		d.rack.add(waited)
	}
	d.measure()
}

// Explain implements sched.Explainer.
func (d *Dynamic) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if k != job.Map || !j.Launchable(k) || j.Unlocated() > 0 || d.node.count+d.rack.count == 0 {
		return ""
	}
	node, rack := d.Waits()
	if node+rack == 0 {
		return "maps do not wait to run near their data, because earlier maps got there without waiting"
	}
	return fmt.Sprintf("as long as earlier maps waited on average, a job declines machines without its data: for %v any such "+
		"machine, then for %v machines in other racks", node.Round(time.Millisecond), rack.Round(time.Millisecond))
}

// mean is one of the paper's pairs TimeCount and NumberCount, over all samples
// or the latest ones. The sum is exact.
type mean struct {
	sum    time.Duration
	count  int64
	window int             // 0 means all samples
	recent []time.Duration // the samples in the window, a ring once it is full
	next   int             // index of the oldest sample of a full ring
}

// longest bounds a sample, two hours. The samples of a full window then have a sum below 2^63.
const longest = 2 * time.Hour

// add adds a sample. With a full window it replaces the oldest one.
func (m *mean) add(d time.Duration) {
	d = min(d, longest)
	// Without a window a sum of queueing times reaches 2^63 ns after millions of maps. Half of both keeps
	// the mean.
	if m.window == 0 && m.sum > math.MaxInt64-longest {
		m.sum, m.count = m.sum/2, m.count/2
	}
	m.sum += d
	if m.window > 0 && len(m.recent) == m.window {
		// The number of samples stays the same.
		m.sum -= m.recent[m.next]
		m.recent[m.next] = d
		m.next = (m.next + 1) % m.window
		return
	}
	if m.window > 0 {
		m.recent = append(m.recent, d)
	}
	m.count++
}

// value returns the mean of at least one sample. It rounds up, so that a wait
// reaches the result exactly when it reaches the true mean.
func (m *mean) value() time.Duration {
	n := time.Duration(m.count)
	return m.sum/n + min(1, m.sum%n)
}

// The kind and version in the saved state of Dynamic.
const (
	dynamicKind    = "delay-dynamic"
	dynamicVersion = 1
)

// dynamicState is the saved state: the two pairs of counters. The waits of
// single jobs are not saved; they start again.
type dynamicState struct {
	Kind    string    `json:"kind"`
	Version int       `json:"version"`
	Node    meanState `json:"node"`
	Rack    meanState `json:"rack"`
}

// meanState holds the sum and number of samples and, with a window, the samples
// themselves, oldest first.
type meanState struct {
	Sum    time.Duration   `json:"sum_ns"`
	Count  int64           `json:"count"`
	Recent []time.Duration `json:"recent_ns,omitempty"`
}

// Save implements sched.Stateful.
func (d *Dynamic) Save() ([]byte, error) {
	return json.Marshal(&dynamicState{dynamicKind, dynamicVersion, d.node.save(), d.rack.save()})
}

func (m *mean) save() meanState {
	// The ring unrolled, oldest first: load may keep fewer samples and must keep the latest.
	recent := append(slices.Clone(m.recent[m.next:]), m.recent[:m.next]...)
	return meanState{m.sum, m.count, recent}
}

// Load implements sched.Stateful. It rejects state that is incomplete, invalid,
// or of another kind or version, and then changes nothing.
func (d *Dynamic) Load(state []byte) error {
	var s dynamicState
	if err := sched.ReadState(state, dynamicKind, dynamicKind, dynamicVersion, &s); err != nil {
		return err
	}
	node, err1 := s.Node.load(d.node.window)
	rack, err2 := s.Rack.load(d.rack.window)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("state of %s: %w", dynamicKind, err)
	}
	d.node, d.rack = node, rack
	d.measure()
	return nil
}

// load checks a pair of counters and returns it as a mean. With a window it
// takes the latest samples that fit, and none from a state that has only sums.
// Without a window it takes the sums.
func (s *meanState) load(window int) (mean, error) {
	m := mean{window: window}
	if s.Sum < 0 || s.Count < 0 || s.Count == 0 && s.Sum != 0 {
		return m, fmt.Errorf("%d waits cannot take %d ns", s.Count, s.Sum)
	}
	if err := s.checkRecent(); err != nil {
		return m, err
	}
	// Sum and count are all that a mean without a window needs, whichever samples a former window has left
	// in them.
	if window == 0 {
		m.sum, m.count = s.Sum, s.Count
		return m, nil
	}
	for _, d := range s.Recent[max(0, len(s.Recent)-window):] {
		m.add(d)
	}
	return m, nil
}

// checkRecent checks the samples, if any, against their sum.
func (s *meanState) checkRecent() error {
	if len(s.Recent) == 0 {
		return nil
	}
	sum := time.Duration(0)
	for _, d := range s.Recent {
		if d < 0 {
			return fmt.Errorf("a wait of %d ns", d)
		}
		sum += d
	}
	// A state whose samples contradict its sum would move the mean away from every sample that it drops
	// later.
	if sum != s.Sum || int64(len(s.Recent)) != s.Count {
		return fmt.Errorf("%d samples of %d ns in all, but counted %d of %d", len(s.Recent), sum, s.Count, s.Sum)
	}
	return nil
}
