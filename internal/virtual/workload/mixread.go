package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/sched/job"
)

// ReadMix reads a job mix; docs/formats/jobmix.md describes the file. profiles
// are cost profiles of further apps; profiles in the file have priority. Errors
// name the file and line. ReadMix accepts a mix that the simulator cannot run
// yet, because it leaves the number of tasks or their costs to the programs.
func ReadMix(file string, in io.Reader, profiles ...Profile) (*Mix, error) {
	r := &reader{file: file}
	o := r.open(in, "job mix")
	if o == nil {
		return nil, r.err()
	}
	m := &Mix{Block: DefaultBlock}
	r.mix(o, m, profiles)
	if err := r.err(); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		// Errors in a class name their line already.
		for line := range strings.Lines(err.Error()) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.HasPrefix(line, file+":") {
				line = fmt.Sprintf("%s:%d: %s", file, o.node.Line, line)
			}
			r.errs = append(r.errs, errors.New(line))
		}
	}
	return m, r.err()
}

// mix reads the top level of the file.
func (r *reader) mix(o *object, m *Mix, profiles []Profile) {
	entries := "classes"
	if n := o.get("jobs"); n != nil && n.Kind == yaml.SequenceNode {
		// The key has two forms: a list of jobs, or the number of jobs to draw.
		m.Listed, entries = true, "jobs"
	} else {
		m.Count = field(o, "jobs", 0, whole(1, MaxJobs))
	}
	if m.Listed {
		// Not ignored: they would have no effect, and the user meant them to have one.
		for _, key := range []string{"order", "start", "arrivals"} {
			if o.get(key) != nil {
				r.fail(o.key[key], "job mix: %s is for classes; a job in a list says by submit when it comes", key)
			}
		}
		if o.get("classes") != nil {
			r.fail(o.key["classes"], "job mix: classes and a list of jobs; a file has one of them")
		}
	} else {
		m.Sequence = field(o, "order", InOrder, oneOf("order", "listed", "in-turn", "shuffled"))
		m.Arrivals = o.arrivals()
	}
	m.Block = field(o, "block", DefaultBlock, positiveBytes)
	m.Pools, m.Users = o.texts("pools"), o.texts("users")
	// Before the entries, which look their profile up.
	m.Profiles = o.profiles(profiles)
	m.Swaps = o.swaps()
	for i, n := range o.list(entries) {
		if i >= MaxJobs {
			r.fail(n, "more than %d jobs", MaxJobs)
			break
		}
		m.Classes = append(m.Classes, r.entry(n, i, m))
	}
	o.end()
	if len(m.Classes) == 0 {
		r.fail(o.node, "no jobs: the file needs jobs as a list, or classes")
	}
}

// oneOf parses one of some names, whose values are their positions.
func oneOf(what string, names ...string) func(string) (Sequence, error) {
	return func(s string) (Sequence, error) {
		if i := slices.Index(names, s); i >= 0 {
			return Sequence(i), nil
		}
		return 0, fmt.Errorf("unknown %s %q; there are %s", what, s, strings.Join(names, ", "))
	}
}

// entry reads the i-th entry of "jobs" or "classes"; m has the entries before
// it.
func (r *reader) entry(n *yaml.Node, i int, m *Mix) Class {
	c := Class{listed: m.Listed, where: fmt.Sprintf("%s:%d", r.file, n.Line)}
	kind := "class"
	if m.Listed {
		kind = "job"
	}
	o := r.object(n, fmt.Sprintf("%s %d", kind, i+1))
	if o == nil {
		return c
	}
	o.kind, o.nullIsAbsent = "entry", true
	if c.Name = o.text("name"); c.Name != "" {
		o.what = fmt.Sprintf("%s %q", kind, c.Name)
	}
	if c.App = o.text("app"); c.Name == "" && m.Listed && c.App != "" {
		o.what = fmt.Sprintf("job %q", c.App)
	}
	c.Program = o.program(&c)
	c.Request = o.request()
	c.Resident = field(o, "resident", 0, parseBinaryBytes)
	o.counts(&c, m)
	o.taskKeys(&c)
	c.After = o.after(m)
	o.end()
	// A job that WriteJobs has written keeps its empty name, so that it is read back equal.
	if c.Name == "" && (o.value["name"] == nil || c.MapTasks == nil && c.ReduceTasks == nil) {
		c.Name = c.defaultName(i)
	}
	c.Profile = find(m.Profiles, c.App)
	return c
}

// defaultName names the i-th entry, whose file gives it no name.
func (c *Class) defaultName(i int) string {
	switch {
	case !c.listed:
		return fmt.Sprintf("class%d", i+1)
	case c.Program.Streaming():
		return "streaming"
	}
	return cmp.Or(c.App, fmt.Sprintf("job%d", i+1))
}

// program reads the keys about the program that run and submit start. It
// returns nil if the entry has no such key.
func (o *object) program(c *Class) *Program {
	p := &Program{Mapper: o.text("mapper"), Combiner: o.text("combiner"), Reducer: o.text("reducer"),
		Include: o.textOrTexts("include"), Exclude: o.textOrTexts("exclude"), Output: o.text("output"),
		Format: o.text("format"), Columns: o.textOrTexts("columns"),
		OutputFormat: o.text("output-format"), OutputColumns: o.textOrTexts("output-columns"), OutputCompress: o.text("output-compress"),
		SplitSize: field(o, "split-size", 0, parseBinaryBytes), Params: o.params("params")}
	c.Input = o.dist("input-size", byteValue)
	// In a class input may be a size, a distribution or files. In a list of jobs it is always files, one of
	// which may be called 10GB.
	if n := o.get("input"); n != nil && !c.listed && (n.Kind == yaml.MappingNode || isSize(n)) {
		if c.Input.Shape != Unset {
			o.r.fail(n, "%s: input: a size, and input-size is there too; keep one of them", o.what)
		}
		c.Input = o.dist("input", byteValue)
	} else {
		p.Inputs = o.textOrTexts("input")
	}
	if p.Streaming() && c.App != "" {
		o.r.fail(o.node, "%s: has an app and commands (mapper, combiner, reducer); keep either the app or the commands", o.what)
	}
	if p.Streaming() && p.Mapper == "" && p.Reducer == "" {
		o.r.fail(o.node, "%s: has a combiner, but neither a mapper nor a reducer", o.what)
	}
	// All fields, so that a key added to Program cannot be forgotten here.
	if reflect.ValueOf(*p).IsZero() {
		return nil
	}
	return p
}

// isSize reports whether a value is a size such as 10GiB rather than the name
// of a file.
func isSize(n *yaml.Node) bool {
	_, err := ParseBytes(n.Value)
	return n.Kind == yaml.ScalarNode && err == nil
}

// counts reads the keys about the number of jobs and the times of their
// submission.
func (o *object) counts(c *Class, m *Mix) {
	if !m.Listed {
		c.Share = field(o, "share", 0, positive)
		c.Count = field(o, "count", 0, whole(1, MaxJobs))
		return
	}
	// 0 counts as 1, like an absent key: an entry has at least one job.
	c.Count = max(1, field(o, "repeat", 1, whole(0, MaxJobs)))
	c.Every = o.duration("every")
	c.Plan, c.Label = o.duration("plan"), o.text("class")
	c.Submit = o.duration("submit")
}

// taskKeys reads the keys that say which tasks a job has and how long they
// take.
func (o *object) taskKeys(c *Class) {
	c.MapTasks, c.Maps = o.tasks("maps", job.Map)
	c.ReduceTasks, c.Reduces = o.tasks("reduces", job.Reduce)
	c.MapTime, c.ReduceTime = o.dist("map-time", timeValue), o.dist("reduce-time", timeValue)
	c.Work = o.dist("work", timeValue)
	c.TaskTime = field(o, "task-time", 0, timeValue)
	c.ReduceShare = field(o, "reduce-share", 0, number(0, 1))
	// A program takes 0 reduces for "as many as you like".
	if c.Reduces.Shape == Constant && c.Reduces.A == 0 && (c.listed || c.NeedsTasks()) {
		c.Reduces = Dist{}
	}
}

// tasks reads "maps" or "reduces": a number, a distribution of numbers, or a
// list of groups of equal tasks.
func (o *object) tasks(key string, kind job.Kind) ([]Task, Dist) {
	n := o.get(key)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil, o.dist(key, countValue)
	}
	// Not nil: an empty list states that there are no tasks of the kind.
	list := []Task{}
	for _, n := range o.list(key) {
		in := o.r.object(n, o.what+": "+key)
		if in == nil {
			continue
		}
		in.kind = "task"
		many := field(in, "count", 1, whole(1, MaxTasks))
		t := Task{Duration: in.duration("time"), CPU: in.duration("cpu"),
			Input: field(in, "input", 0, ParseBytes), Output: field(in, "output", 0, ParseBytes)}
		if kind == job.Map {
			t.Hosts = in.texts("hosts")
		}
		in.end()
		// Both bounds before the tasks are made: a count of seven digits in a thousand entries is a short
		// file.
		if err := checkTasks(kind, float64(len(list)+many)); err != nil {
			o.r.fail(n, "%s: %s", o.what, err)
			break
		}
		if o.r.tasks += many; o.r.tasks > MaxTotal {
			o.r.fail(n, "more than %d tasks in all jobs together", MaxTotal)
			break
		}
		list = append(list, slices.Repeat([]Task{t}, many)...)
	}
	return list, Dist{}
}

// after reads the earlier entries that an entry waits for: names or, in a list
// of jobs, positions.
func (o *object) after(m *Mix) []int {
	n := o.get("after")
	if n == nil {
		return nil
	}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = o.list("after")
	}
	var list []int
	for _, n := range nodes {
		name := scalar(o.r, n, o.what+": after", nonEmpty)
		if name == "" {
			continue
		}
		// WriteJobs refers to positions, since names may repeat. A job whose name is a number is found by its
		// position only.
		if at, err := strconv.Atoi(name); err == nil && m.Listed {
			if at < 0 || at >= len(m.Classes) {
				o.r.fail(n, "%s: after: %d is not a job before it (they count from 0, this is %d)", o.what, at, len(m.Classes))
				continue
			}
			list = append(list, at)
			continue
		}
		// Names may repeat in a list of jobs. The nearest one before counts.
		at := len(m.Classes) - 1
		for at >= 0 && m.Classes[at].Name != name {
			at--
		}
		if at < 0 {
			o.r.fail(n, "%s: after: there is no %s %q before it", o.what, map[bool]string{false: "class", true: "job"}[m.Listed], name)
			continue
		}
		list = append(list, at)
	}
	return list
}

// swaps reads the key "swap".
func (o *object) swaps() []Swap {
	var list []Swap
	for i, n := range o.list("swap") {
		in := o.r.object(n, fmt.Sprintf("swap %d", i+1))
		if in == nil {
			continue
		}
		in.kind = "swap"
		s := Swap{At: in.duration("at"), Policy: in.text("policy"), Set: in.params("set")}
		if s.Policy == "" {
			o.r.fail(n, "swap %d: has no policy", i+1)
		}
		in.end()
		list = append(list, s)
	}
	return list
}

// arrivals reads the keys "start" and "arrivals".
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
	// A mapping's content is key, value, key, value: two entries are exactly one law.
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
			// Jobs are submitted in the order of the mix, so a time before the previous one would be another
			// job's.
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
