package world

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// Key is a parameter of a world.
type Key struct {
	// Name is the parameter's name; a dot separates its group.
	Name string
	// Values describes the accepted values in words.
	Values string
	// Help describes the effect of the parameter.
	Help string

	set func(m *sim.ModelConfig, value string) error
	get func(m *sim.ModelConfig) string
}

// Keys returns all parameters, in the order of the documentation.
func Keys() []Key { return slices.Clone(keys) }

// Show returns the value of the parameter in a world, with defaults filled in.
func (k *Key) Show(m sim.ModelConfig) string {
	// A record lists what the run had, and not that something was left to a default that may change.
	full := m.WithDefaults()
	return k.get(&full)
}

// A row has its unit and bounds in set, and the same text in get that set reads back; a test goes round. Rows
// with a closure exist because 0 is a value for the user and the default of ModelConfig, or because the value
// is no plain number.
var keys = []Key{
	{"heartbeat", "slotwise, hadoop-0.20.2, hadoop-1.0, hadoop-1.2, fixed:TIME", "rule for the interval between the heartbeats of a node; empty is the cluster's",
		// Set also after an error: the caller drops the model then.
		func(m *sim.ModelConfig, v string) error { m.Heartbeat = v; return sim.CheckProfile(v) },
		func(m *sim.ModelConfig) string { return m.Heartbeat }},
	flag("aligned", "all nodes send their heartbeats at the same moments", func(m *sim.ModelConfig) *bool { return &m.Aligned }),
	{"phase", "a whole number", "seed from which the moment of each node's first heartbeat is drawn; 0 spreads them evenly",
		func(m *sim.ModelConfig, v string) (err error) {
			m.Phase, err = strconv.ParseUint(v, 10, 64)
			return plain(err)
		},
		func(m *sim.ModelConfig) string { return strconv.FormatUint(m.Phase, 10) }},
	{"out-of-band", "true, false or auto", "a node sends a heartbeat as soon as an attempt has ended; auto does unless the heartbeat is one of Hadoop's, and then new work is offered to free nodes at once", setOutOfBand, showOutOfBand},
	span("progress-every", "least time between two reports of an attempt's progress; 0s is each heartbeat", func(m *sim.ModelConfig) *time.Duration { return &m.ProgressEvery }),
	span("node-timeout", "silence after which a node is given up", func(m *sim.ModelConfig) *time.Duration { return &m.NodeTimeout }),
	count("max-node-failures", "failures of a job on a node that bar the node from the job; 0 is the tracker's default", func(m *sim.ModelConfig) *int { return &m.MaxNodeFailures }),
	span("tick-every", "interval of ticks to the tracker; 0s makes heartbeats do everything", func(m *sim.ModelConfig) *time.Duration { return &m.TickEvery }),
	span("commit-time", "time that the commit of a job's output takes", func(m *sim.ModelConfig) *time.Duration { return &m.CommitTime }),
	span("stall-after", "time without progress after which a run fails", func(m *sim.ModelConfig) *time.Duration { return &m.StallAfter }),

	span("task-startup", "time before a task that goes through stages reads its first byte", func(m *sim.ModelConfig) *time.Duration { return &m.TaskStartup }),
	{"shuffle-share", "from 0 to 1", "fraction of a reduce of given duration in which it fetches, where the workload does not say",
		func(m *sim.ModelConfig, v string) error {
			err := parseNumber(&m.ShuffleShare, 0, 1)(v)
			if err == nil && m.ShuffleShare == 0 {
				m.ShuffleShare = -1 // 0 is the default of ModelConfig
			}
			return err
		},
		func(m *sim.ModelConfig) string { return number(m.ShuffleShare) }},
	size("sort-memory", "size of a map's output up to which it is written once; 0 is no limit", func(m *sim.ModelConfig) *int64 { return &m.SortMemory }),
	size("shuffle-memory", "bytes that a reduce merges in memory; 0 is no limit", func(m *sim.ModelConfig) *int64 { return &m.ShuffleMemory }),
	{"replicas", "0 to 3", "copies of a block where the workload gives no hosts; with 0 every node reads from its own disk",
		func(m *sim.ModelConfig, v string) error {
			n, err := whole(v, 0, 3)
			if m.Replicas = n; n == 0 {
				m.Replicas = -1 // 0 is the default of ModelConfig
			}
			return err
		},
		func(m *sim.ModelConfig) string { return strconv.Itoa(max(0, m.Replicas)) }},
	flag("as-run", "jobs of a mix behave as under slotwise run: tasks of stated time sleep and read nothing, and reduces start at once if all maps of a job that states no slow-start fit into the cluster's slots", func(m *sim.ModelConfig) *bool { return &m.AsRun }),
	flag("contention", "tasks of given duration take longer on a machine that runs more of them than it has slots or processors; false is for tasks that sleep", func(m *sim.ModelConfig) *bool { return &m.Contention }),
	span("load-tick", "length of the ticks in which a task is either runnable or not; 0s is a steady load", func(m *sim.ModelConfig) *time.Duration { return &m.LoadTick }),
	span("load-every", "least time between two measurements of a machine's load, which reports the mean use of its processors between them; 0s measures with each heartbeat", func(m *sim.ModelConfig) *time.Duration { return &m.LoadEvery }),
	part("core-overhead", "from 0 to below 1", "share of each machine's cores that tasks cannot use: planning, collection of garbage, scheduling", 0, 1-1e-9, func(m *sim.ModelConfig) *float64 { return &m.CoreOverhead }),
	span("fetch-retry", "time for which reduces try to fetch from a lost node before they complain", func(m *sim.ModelConfig) *time.Duration { return &m.FetchRetry }),

	part("failure-rate", "from 0 to below 1", "probability that an attempt fails, at a random point", 0, 1-1e-9, func(m *sim.ModelConfig) *float64 { return &m.FailureRate }),
	part("straggler.probability", "from 0 to 1", "probability that an attempt is slow", 0, 1, func(m *sim.ModelConfig) *float64 { return &m.Straggler.Probability }),
	part("straggler.factor", "at least 1", "how many times as long a slow attempt takes; the least with alpha", 1, math.MaxInt32, func(m *sim.ModelConfig) *float64 { return &m.Straggler.Factor }),
	part("straggler.alpha", "at least 0", "exponent of the Pareto distribution of that factor; 0 is a fixed factor", 0, 1e6, func(m *sim.ModelConfig) *float64 { return &m.Straggler.Alpha }),
	flag("straggler.computed", "where a trace gives bytes and no times (SWIM), attempts are slow as Mantri measured it, unless straggler.probability says otherwise; recorded times contain their slow attempts", func(m *sim.ModelConfig) *bool { return &m.Outliers }),
	{"distance.nic", "a bandwidth: 1Gbit/s, 125MB/s", "network card of a node whose cluster states none, for maps of a trace that read from other nodes; 0 makes such reads cost nothing",
		func(m *sim.ModelConfig, v string) error {
			x, err := workload.ParseRate(v)
			if err == nil && x > math.MaxInt64/1000 {
				err = errors.New("is more than any network card has")
			}
			if err == nil {
				m.Distance.NIC = x
			}
			return err
		},
		func(m *sim.ModelConfig) string { return strconv.FormatInt(int64(m.Distance.NIC), 10) }},
	{"distance.oversubscription", "0, or at least 1", "network cards of a rack together over the rack's uplink, where the cluster states none; 0 is no limit",
		func(m *sim.ModelConfig, v string) error {
			if err := parseNumber(&m.Distance.Oversubscription, 0, math.MaxInt32)(v); err != nil {
				return err
			}
			if x := m.Distance.Oversubscription; x > 0 && x < 1 {
				return errors.New("must be 0, or at least 1")
			}
			return nil
		},
		func(m *sim.ModelConfig) string { return number(m.Distance.Oversubscription) }},
	span("mtbf", "mean time until a node crashes by chance; 0s is never", func(m *sim.ModelConfig) *time.Duration { return &m.MTBF }),
	span("mttr", "mean time until a node that crashed by chance is back; 0s is never", func(m *sim.ModelConfig) *time.Duration { return &m.MTTR }),

	span("overheads.init-poll", "interval at which the tracker looks for jobs to initialise, and another of its threads initialises them; 0s is at once", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.InitPoll }),
	span("overheads.setup", "work of a job's set-up attempt", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Setup }),
	span("overheads.cleanup", "work of a job's clean-up attempt", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Cleanup }),
	span("overheads.ready-poll", "interval at which the scheduler looks for jobs whose set-up has ended, 500ms for Hadoop's fair; 0s is at once", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.ReadyPoll }),
	span("overheads.start", "mean processor time in which an attempt of given duration starts", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Start }),
	span("overheads.attempt", "processor time outside of the task for each attempt that goes through stages: its process, messages, connections and files", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Attempt }),
	span("overheads.shuffle", "processor time for each MB of map output that reduces fetch, where attempts are processes: to write, serve, fetch and check it", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Shuffle }),
	span("overheads.restart", "interval at which an idle process asks for another task of its job instead; 0s is no reuse", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.Restart }),
	span("overheads.fetch-poll", "interval at which a reduce of given duration looks for map outputs; 0s is at once", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.FetchPoll }),
	span("overheads.fetch-start", "time from a reduce's start to the beginning of these intervals", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.FetchStart }),
	span("overheads.event-poll", "interval at which a reduce asks its node which maps have ended", func(m *sim.ModelConfig) *time.Duration { return &m.Overheads.EventPoll }),
	count("overheads.kill-beats", "heartbeats between the decision to kill an attempt and the clean-up in its slot; 0 frees the slot at once", func(m *sim.ModelConfig) *int { return &m.Overheads.KillBeats }),
}

// longest bounds the times of a world.
const longest = 10 * 365 * 24 * time.Hour

func span(name, help string, field func(*sim.ModelConfig) *time.Duration) Key {
	return Key{name, "a time: 90s, 5m", help,
		func(m *sim.ModelConfig, v string) error { return parseTime(field(m))(v) },
		func(m *sim.ModelConfig) string { return max(0, *field(m)).String() }}
}

func flag(name, help string, field func(*sim.ModelConfig) *bool) Key {
	return Key{name, "true or false", help,
		func(m *sim.ModelConfig, v string) (err error) {
			*field(m), err = strconv.ParseBool(v)
			return plain(err)
		},
		func(m *sim.ModelConfig) string { return strconv.FormatBool(*field(m)) }}
}

func count(name, help string, field func(*sim.ModelConfig) *int) Key {
	return Key{name, "0 to 1000", help,
		func(m *sim.ModelConfig, v string) (err error) { *field(m), err = whole(v, 0, 1000); return err },
		func(m *sim.ModelConfig) string { return strconv.Itoa(*field(m)) }}
}

func size(name, help string, field func(*sim.ModelConfig) *int64) Key {
	return Key{name, "a size: 100MB, 1GiB", help,
		func(m *sim.ModelConfig, v string) (err error) { *field(m), err = workload.ParseBytes(v); return err },
		func(m *sim.ModelConfig) string { return strconv.FormatInt(*field(m), 10) }}
}

func part(name, values, help string, least, most float64, field func(*sim.ModelConfig) *float64) Key {
	return Key{name, values, help,
		func(m *sim.ModelConfig, v string) error { return parseNumber(field(m), least, most)(v) },
		func(m *sim.ModelConfig) string { return number(*field(m)) }}
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// parseTime returns a function that sets a time.
func parseTime(d *time.Duration) func(string) error {
	return func(v string) error {
		x, err := time.ParseDuration(v)
		if err != nil {
			return errors.New("is no time; write 90s or 5m")
		}
		if x < 0 || x > longest {
			return fmt.Errorf("must be from 0s to %v", longest)
		}
		*d = x
		return nil
	}
}

// parseNumber returns a function that sets a number within bounds.
func parseNumber(x *float64, least, most float64) func(string) error {
	return func(v string) error {
		y, err := strconv.ParseFloat(v, 64)
		if err != nil || !(y >= least && y <= most) {
			return fmt.Errorf("must be a number from %g to %g", least, most)
		}
		*x = y
		return nil
	}
}

// parseNode returns a function that sets the index of a node from its number, from 1.
func parseNode(n *int) func(string) error {
	return func(v string) error {
		// Users count nodes from 1, as in node1; the simulator from 0.
		x, err := whole(v, 1, 1<<20)
		*n = x - 1
		return err
	}
}

func whole(v string, least, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	return n, nil
}

// plain replaces the errors of package strconv, whose texts name its functions.
func plain(err error) error {
	if err != nil {
		return errors.New("is not one of its values")
	}
	return nil
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// setOutOfBand sets when the end of an attempt is reported.
func setOutOfBand(m *sim.ModelConfig, v string) error {
	switch v {
	case "auto":
		// Both are set in each case: a world may have begun with the other.
		m.OutOfBand, m.EndsByRule = false, true
	case "true", "false":
		m.OutOfBand, m.EndsByRule = v == "true", false
	default:
		return errors.New("is not one of its values: true, false, auto")
	}
	return nil
}

// showOutOfBand returns the value that setOutOfBand reads.
func showOutOfBand(m *sim.ModelConfig) string {
	if m.EndsByRule {
		return "auto"
	}
	return strconv.FormatBool(m.OutOfBand)
}
