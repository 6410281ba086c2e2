package capacity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
)

// DefaultQueue is the queue of jobs that name no queue, or one that is not
// configured.
const DefaultQueue = "default"

// QueueConfig configures one queue. Percentages are of the slots of a kind in
// the live cluster, so the limits of a queue grow and shrink with it.
type QueueConfig struct {
	// Name is the value of the jobs' pool setting.
	Name string
	// Capacity is the percentage of the slots that the queue is promised, 0 to
	// 100. The queues together must not exceed 100. It is not a reservation:
	// other queues use what this one leaves idle, and it gets slots back as
	// their tasks end.
	Capacity float32
	// MaxCapacity is the percentage that the queue never exceeds, even on an
	// idle cluster. 0 or less means no limit. It must not be below Capacity.
	MaxCapacity float32
	// MinUserLimit is the percentage of the queue's slots, 1 to 100, that each
	// user can count on while users compete. With 25, up to four users share
	// evenly and a fifth waits. 100 serves one user after the other.
	MinUserLimit int
	// UserLimitFactor is the multiple of the queue's capacity that a single
	// user may take when no other user competes. It is positive. Below
	// 100/Capacity, one user cannot use an idle cluster entirely.
	UserLimitFactor float32
	// Priorities orders the queue's jobs by priority first. Otherwise they are
	// served in order of submission.
	Priorities bool
}

// NewQueueConfig returns a queue with Hadoop's defaults.
func NewQueueConfig(name string, capacity float32) QueueConfig {
	return QueueConfig{Name: name, Capacity: capacity, MaxCapacity: -1, MinUserLimit: 100, UserLimitFactor: 1}
}

// Config holds the parameters of Order.
type Config struct {
	// Queues lists the queues. Their order decides between queues that use
	// nothing yet. If none is named DefaultQueue, one is added: it is promised
	// the rest of 100 %, and a user may take all of its idle slots.
	Queues []QueueConfig
	// MaxMaps is the most maps that a heartbeat gets. 0 means no limit.
	MaxMaps int
	// MaxReduces is the most reduces that a heartbeat gets. 0 means no limit.
	// Hadoop uses 1, which spreads reduces over the nodes but fills a node with
	// many free slots slowly.
	MaxReduces int
	// AfterOffSwitch is the number of maps that a heartbeat may get after one
	// whose input is in another rack. Negative values mean no limit. With a
	// large value a node takes maps whose data is far away although other nodes
	// have it nearby.
	AfterOffSwitch int
	// UnlocatedFar treats a map whose input has no location like one that reads
	// from another rack, as Hadoop does. A job of such maps gets one map per
	// heartbeat.
	UnlocatedFar bool
	// TinyZero treats limits of less than one slot as Hadoop does: such a
	// maximum capacity counts as no limit, and a user with such a limit
	// starves. Otherwise both count as one slot.
	TinyZero bool
}

// Check returns an error that lists all mistakes in the configuration, or nil.
func (c *Config) Check() error {
	var errs []error
	sum, seen := float32(0), map[string]bool{}
	for i := range c.Queues {
		q := &c.Queues[i]
		if err := q.check(); err != nil {
			errs = append(errs, fmt.Errorf("queue %q: %w", q.Name, err))
		}
		// The second one would take the place of the first in the table of names, and jobs would never
		// reach that.
		if seen[q.Name] {
			errs = append(errs, fmt.Errorf("queue %q is declared twice", q.Name))
		}
		seen[q.Name] = true
		// In single precision, as Hadoop adds them: a sum that it accepts must not be refused here.
		sum += q.Capacity
	}
	// Sums in single precision need not be exact.
	if sum > 100.001 {
		errs = append(errs, fmt.Errorf("the capacities of all queues add up to %g %%, more than 100", sum))
	}
	if c.MaxMaps < 0 || c.MaxReduces < 0 {
		errs = append(errs, errors.New("limits per heartbeat must not be negative"))
	}
	return errors.Join(errs...)
}

// check returns the first mistake in the queue's settings. Its conditions are
// written so that NaN fails them.
func (q *QueueConfig) check() error {
	switch {
	case q.Name == "":
		return errors.New("the queue has no name")
	case !(q.Capacity >= 0 && q.Capacity <= 100):
		return fmt.Errorf("capacity %g is not from 0 to 100", q.Capacity)
	case !(q.MaxCapacity <= 100):
		return fmt.Errorf("maximum-capacity %g is above 100", q.MaxCapacity)
	case q.MaxCapacity > 0 && q.MaxCapacity < q.Capacity:
		return fmt.Errorf("maximum-capacity %g is below capacity %g", q.MaxCapacity, q.Capacity)
	case q.MinUserLimit < 1 || q.MinUserLimit > 100:
		return fmt.Errorf("minimum-user-limit-percent %d is not from 1 to 100", q.MinUserLimit)
	case !(q.UserLimitFactor > 0 && q.UserLimitFactor <= 1e6):
		return fmt.Errorf("user-limit-factor %g is not positive", q.UserLimitFactor)
	}
	return nil
}

// withDefault returns the queues, with the default queue added if necessary.
func (c *Config) withDefault() []QueueConfig {
	left := float32(100)
	for _, q := range c.Queues {
		if q.Name == DefaultQueue {
			return c.Queues
		}
		left -= q.Capacity
	}
	rest := NewQueueConfig(DefaultQueue, max(0, left))
	// In effect without limit: jobs that name no queue have no operator who chose one for them.
	rest.UserLimitFactor = 1e6
	// Without spare capacity append copies, and the caller's array is left alone.
	return append(c.Queues[:len(c.Queues):len(c.Queues)], rest)
}

// ParseQueues parses the value of the parameter "queues": queues separated by
// semicolons, each a name and settings separated by commas, such as
//
//	ads,capacity=70,maximum-capacity=80;web,capacity=30,supports-priority=true
//
// The settings have Hadoop's names and defaults. Capacity is required.
func ParseQueues(s string) (queues []QueueConfig, err error) {
	for _, text := range strings.Split(s, ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		fields := strings.Split(text, ",")
		// -1 is no capacity: Hadoop has no default, and 0 is a capacity that an operator may mean.
		q := NewQueueConfig(strings.TrimSpace(fields[0]), -1)
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
			if err := q.Set(key, value); err != nil {
				return nil, fmt.Errorf("queue %q: %w", q.Name, err)
			}
		}
		// No given capacity can be -1: Set accepts it, and check refuses it.
		if q.Capacity == -1 {
			return nil, fmt.Errorf("queue %q has no capacity", q.Name)
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// Set changes a setting by its name in Hadoop's capacity-scheduler.xml, without
// the prefix of the queue.
func (q *QueueConfig) Set(key, value string) (err error) {
	switch key {
	case "capacity":
		q.Capacity, err = parseFloat32(value)
	case "maximum-capacity":
		q.MaxCapacity, err = parseFloat32(value)
	case "minimum-user-limit-percent":
		q.MinUserLimit, err = strconv.Atoi(value)
	case "user-limit-factor":
		q.UserLimitFactor, err = parseFloat32(value)
	case "supports-priority":
		q.Priorities, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("unknown setting %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s: bad value %q", key, value)
	}
	return nil
}

func parseFloat32(s string) (float32, error) {
	x, err := strconv.ParseFloat(s, 32)
	return float32(x), err
}

// queueValues are the values of the parameter "queues".
var queueValues = sched.Values[[]QueueConfig]{
	Accepts: "queues such as ads,capacity=70,maximum-capacity=80;web,capacity=30",
	Parse:   ParseQueues,
	Print: func(queues []QueueConfig) string {
		texts := make([]string, len(queues))
		for i := range queues {
			texts[i] = queues[i].String()
		}
		return strings.Join(texts, ";")
	},
}

// String returns the queue in the form that ParseQueues reads, without settings
// that have Hadoop's defaults.
func (q *QueueConfig) String() string {
	text := q.Name + ",capacity=" + printFloat32(q.Capacity)
	d := NewQueueConfig(q.Name, q.Capacity)
	if q.MaxCapacity != d.MaxCapacity {
		text += ",maximum-capacity=" + printFloat32(q.MaxCapacity)
	}
	if q.MinUserLimit != d.MinUserLimit {
		text += ",minimum-user-limit-percent=" + strconv.Itoa(q.MinUserLimit)
	}
	if q.UserLimitFactor != d.UserLimitFactor {
		text += ",user-limit-factor=" + printFloat32(q.UserLimitFactor)
	}
	if q.Priorities {
		text += ",supports-priority=true"
	}
	return text
}

func printFloat32(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Queues, queueValues, sched.Param{Name: "queues", Default: "",
			Help: "The queues, separated by semicolons: a name, then settings separated by commas. capacity: the percentage of all " +
				"slots that the queue is promised. maximum-capacity: the percentage that it never exceeds. minimum-user-limit-percent " +
				"(100): the percentage of the queue's slots that each of several users can count on. user-limit-factor (1): how many " +
				"times the queue's capacity one user may take. supports-priority (false): whether jobs of higher priority come first. " +
				"Jobs that name no queue go to the queue \"default\", which has the rest of 100 %. A cluster refuses jobs that name a " +
				"queue that is not listed; a simulation puts them into default."}),
		sched.Bind(&c.MaxMaps, sched.Int(0, math.MaxInt), sched.Param{Name: "maximum-tasks-per-heartbeat", Default: "0", Tune: []string{"0", "1", "4"},
			Help: "The most maps that a node gets at one heartbeat; 0 means no limit."}),
		sched.Bind(&c.AfterOffSwitch, sched.Int(-1, math.MaxInt), sched.Param{Name: "maximum-tasks-after-offswitch", Default: "0",
			Help: "How many more maps a node gets at one heartbeat after one that reads its input from another rack; -1 means no limit. " +
				"With high values a node takes maps whose data is far away although other nodes have it nearby."}),
		sched.Bind(&c.MaxReduces, sched.Int(0, math.MaxInt), sched.Param{Name: "reduces-per-heartbeat", Default: "0", Tune: []string{"0", "1", "2"},
			Help: "The most reduces that a node gets at one heartbeat; 0 means no limit, and 1 spreads them over the nodes as Hadoop " +
				"1.2.1 does."}),
		hadoop.BindUnlocated(&c.UnlocatedFar),
		sched.Bind(&c.TinyZero, sched.Switch("one", "hadoop"), sched.Param{Name: "tiny-limits", Default: "one",
			Help: "The meaning of a limit of less than one slot: one (it counts as one slot) or hadoop (as in Hadoop 1.2.1: a maximum " +
				"capacity counts as no limit, and a user's limit starves the user)."}),
	}
}

// Params documents the parameters of Capacity.
func Params() []sched.Param { return new(Config).bind().Params() }

// Read returns a capacity order with the parameters that the user has
// set.
func Read(k *sched.Kit) (sched.Order, error) {
	var c Config
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	o, err := New(c)
	if err != nil {
		return nil, err
	}
	return o, nil
}
