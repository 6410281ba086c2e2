package workload

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/job"
)

// ReadMix reads a job mix; docs/formats/jobmix.md describes the file. The
// profiles are those of apps that the file does not describe itself. Errors
// name the file and line.
func ReadMix(file string, in io.Reader, profiles ...Profile) (*Mix, error) {
	r := &reader{file: file}
	o := r.open(in, "job mix")
	if o == nil {
		return nil, r.err()
	}
	m := &Mix{}
	if n := o.get("jobs"); n != nil && n.Kind == yaml.SequenceNode {
		m.Listed = r.listed(r.list(n, "jobs"))
		o.end()
		return m, r.err()
	}
	m.Count = field(o, "jobs", 0, whole(1, MaxJobs))
	m.Order = field(o, "order", InOrder, oneOf("order", "listed", "in-turn", "shuffled"))
	m.Block = field(o, "block", DefaultBlock, blockSize)
	m.Pools, m.Users = o.texts("pools"), o.texts("users")
	m.Arrivals = o.arrivals()
	known := o.profiles(profiles)
	nodes := o.list("classes")
	for i, n := range nodes {
		m.Classes = append(m.Classes, r.class(n, i, m, known))
	}
	o.end()
	if len(nodes) == 0 {
		r.fail(o.node, "no jobs: it needs classes, or jobs as a list")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	for i, n := range nodes {
		if err := m.Classes[i].check(m, i); err != nil {
			r.fail(n, "class %q: %s", m.Classes[i].Name, err)
		}
	}
	if err := m.check(); err != nil && len(r.errs) == 0 {
		r.fail(o.node, "%s", err)
	}
	return m, r.err()
}

func blockSize(s string) (int64, error) {
	b, err := ParseBytes(s)
	if err == nil && b == 0 {
		err = fmt.Errorf("must be above 0")
	}
	return b, err
}

// oneOf parses one of some names, whose values are their places.
func oneOf(what string, names ...string) func(string) (Order, error) {
	return func(s string) (Order, error) {
		if i := slices.Index(names, s); i >= 0 {
			return Order(i), nil
		}
		return 0, fmt.Errorf("unknown %s %q; there are %s", what, s, strings.Join(names, ", "))
	}
}

// priorities are the names of Hadoop's, from the lowest.
var priorities = []string{"very-low", "low", "normal", "high", "very-high"}

// parsePriority reads a priority in the way of this project or of Hadoop
// (VERY_LOW).
func parsePriority(s string) (job.Priority, error) {
	i := slices.Index(priorities, strings.ReplaceAll(strings.ToLower(s), "_", "-"))
	if i < 0 {
		return 0, fmt.Errorf("unknown priority %q; there are %s", s, strings.Join(priorities, ", "))
	}
	return job.VeryLow + job.Priority(i), nil
}

// class reads the i-th class; m has the classes before it.
func (r *reader) class(n *yaml.Node, i int, m *Mix, known []Profile) Class {
	o := r.object(n, fmt.Sprintf("class %d", i+1))
	if o == nil {
		return Class{}
	}
	c := Class{Name: field(o, "name", fmt.Sprintf("class%d", i+1), nonEmpty)}
	o.what = fmt.Sprintf("class %q", c.Name)
	if slices.ContainsFunc(m.Classes, func(d Class) bool { return d.Name == c.Name }) {
		r.fail(n, "a second class %q", c.Name)
	}
	c.Share = field(o, "share", 0, positive)
	c.Count = field(o, "count", 0, whole(1, MaxJobs))
	c.App, c.User, c.Pool = o.text("app"), o.text("user"), o.text("pool")
	c.Priority = field(o, "priority", job.Normal, parsePriority)
	c.SlowStart = field(o, "slow-start", -1, number(0, 1))
	c.Hints = o.hints()
	c.Maps, c.Reduces = o.dist("maps", countValue), o.dist("reduces", countValue)
	c.Input = o.dist("input", byteValue)
	c.MapTime, c.ReduceTime = o.dist("map-time", timeValue), o.dist("reduce-time", timeValue)
	c.Work = o.dist("work", timeValue)
	c.TaskTime = field(o, "task-time", 0, timeValue)
	c.ReduceShare = field(o, "reduce-share", 0, number(0, 1))
	c.Profile = find(known, c.App)
	if name := o.text("after"); name != "" {
		c.After = 1 + slices.IndexFunc(m.Classes, func(d Class) bool { return d.Name == name })
		if c.After == 0 {
			r.fail(o.value["after"], "%s: after: there is no class %q before it", o.what, name)
		}
	}
	o.end()
	return c
}

// arrivals reads the key "arrivals".
func (o *object) arrivals() Arrivals {
	a := Arrivals{Start: o.duration("start")}
	n := o.get("arrivals")
	if n == nil {
		return a
	}
	if n.Kind == yaml.ScalarNode && n.Value == "at-once" {
		return a
	}
	in := o.r.object(n, "arrivals")
	if in == nil {
		return a
	}
	if len(n.Content) != 2 {
		o.r.fail(n, "arrivals: should be at-once or one of every, poisson, load, times")
		return a
	}
	switch name := n.Content[0].Value; name {
	case "every":
		a.Kind, a.Gap = Every, in.duration(name)
	case "poisson":
		a.Kind, a.Gap = Poisson, in.duration(name)
	case "load":
		a.Kind = AtLoad
		if l := o.r.object(in.get(name), "arrivals: load"); l != nil {
			a.Load, a.Slots = field(l, "of", 0, positive), field(l, "slots", 0, whole(1, math.MaxInt32))
			l.end()
		}
	case "times":
		a.Kind = AtTimes
		last := time.Duration(0)
		for i, c := range in.list(name) {
			at := scalar(o.r, c, "arrivals: times", parseTime)
			if at < last {
				o.r.fail(c, "arrivals: times: number %d, %v, is before the one before it", i+1, at)
			}
			last = max(last, at)
			a.Times = append(a.Times, at)
		}
	default:
		o.r.fail(n, "arrivals: unknown law %q; there are at-once, every, poisson, load, times", name)
	}
	return a
}
