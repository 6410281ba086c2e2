package hadoop

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// use is the effect of a property in slotwise.
type use uint8

const (
	honoured use = iota // the job behaves as the property says
	shown               // tasks see it in their environment; nothing else uses it
	refused             // a job with it is refused, unless the value is a default
)

// property describes a job property of Hadoop.
type property struct {
	old, name string // the name before Hadoop 2, if there is one, and the present name
	use       use
	why       string // of a refused property: the reason and what to do
}

// properties are the known job properties. docs/coming-from-hadoop.md describes them.
var properties = []property{
	{old: "mapred.job.name", name: "mapreduce.job.name"},
	{old: "mapred.job.queue.name", name: "mapreduce.job.queuename"},
	{name: "mapred.fairscheduler.pool"},
	{old: "mapred.job.priority", name: "mapreduce.job.priority"},
	{name: PropDeadline},
	{old: "user.name", name: "mapreduce.job.user.name", use: shown},
	{old: "mapred.map.tasks", name: "mapreduce.job.maps"},
	{old: "mapred.reduce.tasks", name: "mapreduce.job.reduces"},
	{old: "mapred.input.dir", name: "mapreduce.input.fileinputformat.inputdir"},
	{old: "mapred.output.dir", name: "mapreduce.output.fileoutputformat.outputdir"},
	{old: "mapred.input.dir.recursive", name: "mapreduce.input.fileinputformat.input.dir.recursive"},
	{name: "mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs"},
	{old: "mapred.min.split.size", name: "mapreduce.input.fileinputformat.split.minsize"},
	{old: "mapred.max.split.size", name: "mapreduce.input.fileinputformat.split.maxsize", use: shown},
	{old: "mapred.line.input.format.linespermap", name: "mapreduce.input.lineinputformat.linespermap"},
	{old: "key.value.separator.in.input.line", name: "mapreduce.input.keyvaluelinerecordreader.key.value.separator"},
	{old: "mapred.linerecordreader.maxlength", name: "mapreduce.input.linerecordreader.line.maxlength", use: refused,
		why: "lines have no largest length; filter long lines in the mapper"},
	{name: "textinputformat.record.delimiter", use: refused, why: "only line ends separate records"},
	{name: "mapred.input.format.class"},
	{name: "mapred.output.format.class"},
	{name: PropLazy},
	{old: "mapred.textoutputformat.separator", name: "mapreduce.output.textoutputformat.separator"},
	{old: "mapred.output.compress", name: "mapreduce.output.fileoutputformat.compress"},
	{old: "mapred.output.compression.codec", name: "mapreduce.output.fileoutputformat.compress.codec"},
	{old: "mapred.output.compression.type", name: "mapreduce.output.fileoutputformat.compress.type", use: shown},
	{old: "mapred.compress.map.output", name: "mapreduce.map.output.compress"},
	{old: "mapred.map.output.compression.codec", name: "mapreduce.map.output.compress.codec", use: shown},
	{name: "mapred.partitioner.class"},
	{name: "mapreduce.job.partitioner.class"},
	{old: "mapred.output.key.comparator.class", name: "mapreduce.job.output.key.comparator.class"},
	{old: "mapred.output.value.groupfn.class", name: "mapreduce.job.output.group.comparator.class", use: shown},
	{old: "mapred.text.key.partitioner.options", name: "mapreduce.partition.keypartitioner.options"},
	{old: "mapred.text.key.comparator.options", name: "mapreduce.partition.keycomparator.options"},
	{old: "map.output.key.field.separator", name: "mapreduce.map.output.key.field.separator"},
	{name: "num.key.fields.for.partition"},
	{old: "mapred.map.max.attempts", name: "mapreduce.map.maxattempts"},
	{old: "mapred.reduce.max.attempts", name: "mapreduce.reduce.maxattempts"},
	{old: "mapred.max.map.failures.percent", name: "mapreduce.map.failures.maxpercent", use: refused, why: "every map must succeed"},
	{old: "mapred.max.reduce.failures.percent", name: "mapreduce.reduce.failures.maxpercent", use: refused, why: "every reduce must succeed"},
	{old: "mapred.max.tracker.failures", name: "mapreduce.job.maxtaskfailures.per.tracker", use: shown},
	{old: "mapred.task.timeout", name: "mapreduce.task.timeout"},
	{old: "mapred.map.tasks.speculative.execution", name: "mapreduce.map.speculative", use: shown},
	{old: "mapred.reduce.tasks.speculative.execution", name: "mapreduce.reduce.speculative", use: shown},
	{old: "mapred.reduce.slowstart.completed.maps", name: "mapreduce.job.reduce.slowstart.completedmaps"},
	{old: "mapred.reduce.parallel.copies", name: "mapreduce.reduce.shuffle.parallelcopies", use: shown},
	{old: "io.sort.mb", name: "mapreduce.task.io.sort.mb", use: shown},
	{old: "io.sort.factor", name: "mapreduce.task.io.sort.factor", use: shown},
	{old: "io.sort.spill.percent", name: "mapreduce.map.sort.spill.percent", use: shown},
	{old: "mapred.job.shuffle.input.buffer.percent", name: "mapreduce.reduce.shuffle.input.buffer.percent", use: shown},
	{old: "mapred.job.shuffle.merge.percent", name: "mapreduce.reduce.shuffle.merge.percent", use: shown},
	{old: "mapred.inmem.merge.threshold", name: "mapreduce.reduce.merge.inmem.threshold", use: shown},
	{old: "min.num.spills.for.combine", name: "mapreduce.map.combine.minspills", use: shown},
	{old: "mapred.job.map.memory.mb", name: "mapreduce.map.memory.mb"},
	{old: "mapred.job.reduce.memory.mb", name: "mapreduce.reduce.memory.mb"},
	{name: "mapreduce.map.cpu.vcores"},
	{name: "mapreduce.reduce.cpu.vcores"},
	{old: "mapred.map.child.java.opts", name: "mapreduce.map.java.opts", use: shown},
	{old: "mapred.reduce.child.java.opts", name: "mapreduce.reduce.java.opts", use: shown},
	{name: "mapred.child.java.opts", use: shown},
	{old: "mapred.map.child.env", name: "mapreduce.map.env"},
	{old: "mapred.reduce.child.env", name: "mapreduce.reduce.env"},
	{name: "mapred.child.env"},
	{old: "mapred.cache.files", name: "mapreduce.job.cache.files"},
	{old: "mapred.cache.archives", name: "mapreduce.job.cache.archives"},
	{name: "tmpfiles"},
	{name: "tmparchives"},
	{name: "tmpjars"},
	{old: "mapred.job.reuse.jvm.num.tasks", name: "mapreduce.job.jvm.numtasks", use: shown},
	{old: "mapred.skip.attempts.to.start.skipping", name: "mapreduce.task.skip.start.attempts", use: shown},
	{old: "mapred.skip.map.max.skip.records", name: "mapreduce.map.skip.maxrecords", use: refused, why: "bad records are not skipped; skip them in the mapper"},
	{old: "mapred.skip.reduce.max.skip.groups", name: "mapreduce.reduce.skip.maxgroups", use: refused, why: "bad groups are not skipped; skip them in the reducer"},
	{old: "keep.failed.task.files", name: "mapreduce.task.files.preserve.failedtasks", use: shown},
	{old: "mapred.userlog.limit.kb", name: "mapreduce.task.userlog.limit.kb", use: shown},
	{old: "mapred.submit.replication", name: "mapreduce.client.submit.file.replication", use: shown},
	{name: "dfs.replication", use: shown},
	{old: "dfs.block.size", name: "dfs.blocksize", use: shown},
	{old: "mapred.job.tracker", name: "mapreduce.jobtracker.address"},
	{old: "fs.default.name", name: "fs.defaultFS"},
	{name: "mapreduce.framework.name", use: shown},
	{old: "job.end.notification.url", name: "mapreduce.job.end-notification.url", use: refused, why: "nobody is notified of a job's end; wait for the command"},
	{old: "jobclient.output.filter", name: "mapreduce.client.output.filter", use: shown},
	{old: "jobclient.progress.monitor.poll.interval", name: "mapreduce.client.progressmonitor.pollinterval", use: shown},
	{name: "mapreduce.client.completion.pollinterval", use: shown},
	{name: "mapreduce.job.counters.limit", use: shown},
	{name: "mapreduce.job.counters.max", use: shown},
	{name: "mapreduce.job.running.map.limit", use: refused, why: "limit the jobs of a pool or queue instead"},
	{name: "mapreduce.job.running.reduce.limit", use: refused, why: "limit the jobs of a pool or queue instead"},
	{name: "mapreduce.job.ubertask.enable", use: shown},
	{name: "mapreduce.fileoutputcommitter.algorithm.version", use: shown},
	{name: "mapreduce.fileoutputcommitter.marksuccessfuljobs", use: shown},
	{name: "mapreduce.job.acl-view-job", use: shown},
	{name: "mapreduce.job.acl-modify-job", use: shown},
	{name: "mapreduce.job.tags", use: shown},
	{name: "mapreduce.job.node-label-expression", use: shown},
	{name: "mapreduce.job.max.map", use: shown},
	{name: "mapreduce.totalorderpartitioner.path", use: shown},
	{name: "aggregate.max.num.unique.values"},
	{old: "mapred.mapper.regex", name: "mapreduce.mapper.regex"},
	{old: "mapred.mapper.regex.group", name: "mapreduce.mapper.regexmapper..group"},
	{name: "mapreduce.randomtextwriter.totalbytes"},
	{name: "mapreduce.randomtextwriter.bytespermap"},
	{name: "stream.addenvironment"},
	{name: "stream.non.zero.exit.is.failure"},
	{name: "stream.map.input"},
	{name: "stream.map.output"},
	{name: "stream.reduce.input"},
	{name: "stream.reduce.output"},
	{name: "stream.map.input.field.separator"},
	{name: "stream.map.output.field.separator"},
	{name: "stream.reduce.input.field.separator"},
	{name: "stream.reduce.output.field.separator"},
	{name: "stream.num.map.output.key.fields"},
	{name: "stream.num.reduce.output.key.fields"},
	{name: "stream.map.input.ignoreKey"},
	{name: "stream.jobconf.truncate.limit"},
	{name: "stream.stderr.reporter.prefix"},
	{old: "mapred.job.id", name: "mapreduce.job.id"},
	{old: "mapred.tip.id", name: "mapreduce.task.id"},
	{old: "mapred.task.id", name: "mapreduce.task.attempt.id"},
	{old: "mapred.task.is.map", name: "mapreduce.task.ismap"},
	{old: "mapred.task.partition", name: "mapreduce.task.partition"},
	{old: "map.input.file", name: "mapreduce.map.input.file"},
	{old: "map.input.start", name: "mapreduce.map.input.start"},
	{old: "map.input.length", name: "mapreduce.map.input.length"},
	{old: "job.local.dir", name: "mapreduce.job.local.dir"},
	{old: "mapred.cache.localFiles", name: "mapreduce.job.cache.local.files"},
	{old: "mapred.cache.localArchives", name: "mapreduce.job.cache.local.archives"},
	{name: "stream.tmpdir", use: shown},
	{name: "stream.joindelay.milli", use: shown},
}

// byName finds a property by either of its names.
var byName = sync.OnceValue(func() map[string]*property {
	m := map[string]*property{}
	for i := range properties {
		p := &properties[i]
		m[p.name] = p
		if p.old != "" {
			m[p.old] = p
		}
	}
	return m
})

// Conf holds job properties. Setting a property sets its other name, too.
//
// A value is stored unexpanded; Get expands it. So a property may refer to one that is set later, as in
// Hadoop.
type Conf map[string]string

// Set sets a property under both of its names.
func (c Conf) Set(name, value string) {
	// Also for names that no row has: they are the user's, and tasks see them.
	c[name] = value
	if p := byName()[name]; p != nil && p.old != "" {
		c[p.old], c[p.name] = value, value
	}
}

// Get returns a property's value with ${other} replaced by other properties, or def if the
// property is not set.
//
// An empty value is a value: only a missing property has the default.
func (c Conf) Get(name, def string) string {
	v, ok := c[name]
	if !ok {
		return def
	}
	return c.expand(v)
}

// Bool parses a property as true or false. It returns def for other values.
func (c Conf) Bool(name string, def bool) bool {
	switch strings.ToLower(strings.TrimSpace(c.Get(name, ""))) {
	// Any other text is the default, as in Hadoop's getBoolean. "yes" does not switch a property on.
	case "true":
		return true
	case "false":
		return false
	}
	return def
}

// Bounds of the expansion of one value. Without the last two, twenty properties that each refer to the one before
// several times would keep a client, and each task, busy for years.
const (
	maxExpansions   = 20       // depth of properties that refer to others, as in Hadoop
	maxReplacements = 10_000   // references that are replaced
	maxExpanded     = 16 << 20 // bytes after which no reference is replaced
)

// expansion replaces ${name} by the value of the property. References to properties that do not exist stay,
// and so do all references behind a bound.
type expansion struct {
	conf Conf
	out  strings.Builder
	left int // references that may still be replaced
}

// expand returns a value with its references replaced.
func (c Conf) expand(v string) string {
	if !strings.Contains(v, "${") {
		return v
	}
	e := &expansion{conf: c, left: maxReplacements}
	e.add(v, 0)
	return e.out.String()
}

// add appends a value that is depth references away from the one that is expanded.
func (e *expansion) add(v string, depth int) {
	for depth < maxExpansions && e.left > 0 && e.out.Len() < maxExpanded {
		before, rest, found := strings.Cut(v, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			break
		}
		e.out.WriteString(before)
		if value, ok := e.conf[name]; ok {
			// Counted, because references to empty values add no bytes.
			e.left--
			e.add(value, depth+1)
		} else {
			e.out.WriteString("${" + name + "}")
		}
		v = after
	}
	e.out.WriteString(v)
}

// Names returns the names of all properties in order.
func (c Conf) Names() []string { return slices.Sorted(maps.Keys(c)) }

// hadoopPrefixes begin the names of Hadoop's own properties. Hadoop has a few others that begin
// with map., reduce. and min., which users' own properties may begin with, too: see otherNames.
var hadoopPrefixes = []string{"mapreduce.", "mapred.", "stream.", "io.", "dfs.", "yarn.", "fs.", "hadoop.", "ipc."}

// otherNames are the properties of Hadoop that have another prefix and are not in properties.
var otherNames = []string{"map.sort.class", "map.output.key.value.fields.spec", "reduce.output.key.value.fields.spec"}

// numbers are the properties that the product reads as whole numbers. Another value would silently become the
// default.
var numbers = []string{
	"mapreduce.job.maps", "mapreduce.job.reduces", "mapreduce.map.maxattempts", "mapreduce.reduce.maxattempts", "mapreduce.task.timeout",
	"mapreduce.map.memory.mb", "mapreduce.reduce.memory.mb", "mapreduce.map.cpu.vcores", "mapreduce.reduce.cpu.vcores",
	"mapreduce.input.fileinputformat.split.minsize", "mapreduce.input.lineinputformat.linespermap",
	"stream.num.map.output.key.fields", "stream.num.reduce.output.key.fields", "stream.jobconf.truncate.limit",
}

// isNumber reports whether a property is a whole number.
func (c Conf) isNumber(name string) bool {
	_, err := strconv.Atoi(strings.TrimSpace(c.Get(name, "")))
	return err == nil
}

// Remarks are sentences about properties that do not act as in Hadoop. given are the
// names that the user has set.
type Remarks struct {
	Deprecated []string // "X is deprecated. Instead, use Y"
	Warnings   []string // properties without effect, and unknown ones
	Errors     []string // refused properties
}

// Check returns the remarks about the properties that a user has set.
func (c Conf) Check(given []string) (r Remarks) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(given))) {
		p := byName()[name]
		switch {
		// A warning and no error: scripts for real clusters set properties that only some versions of Hadoop
		// know.
		case p == nil && isHadoops(name):
			r.Warnings = append(r.Warnings, "the property "+name+" is unknown: tasks see it in their environment, and it has no other effect")
		case p == nil:
			// A property of the user's own, for the environment of tasks.
		case p.use == shown:
			r.Warnings = append(r.Warnings, "the property "+name+" has no effect here, except in the environment of tasks")
		// By the new name, so that the list has each property once.
		case slices.Contains(numbers, p.name) && !c.isNumber(name):
			r.Errors = append(r.Errors, fmt.Sprintf("%s=%s: want a whole number", name, c.Get(name, "")))
		// A script may set such a property to 0 or false to be sure. Such a value asks for nothing new.
		case p.use == refused && !isDefault(c.Get(name, "")):
			r.Errors = append(r.Errors, "the property "+name+" is not supported: "+p.why)
		}
		// Beside any remark above: Hadoop's client prints this line for each old name.
		if p != nil && p.old == name {
			r.Deprecated = append(r.Deprecated, name+" is deprecated. Instead, use "+p.name)
		}
	}
	return r
}

// isDefault reports whether a value switches a feature off.
func isDefault(v string) bool { return v == "" || v == "0" || v == "false" }

// isHadoops reports whether an unknown name is one of Hadoop's, or a misspelt one.
func isHadoops(name string) bool {
	return slices.Contains(otherNames, name) || slices.ContainsFunc(hadoopPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Variable returns the name of the environment variable for a property: characters other
// than ASCII letters and digits become underscores.
func Variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// Private begins the names of properties that only slotwise uses. Tasks do not see them.
const Private = "slotwise."

// Environment returns the properties as variables, name=value, in order. Values longer than
// stream.jobconf.truncate.limit are cut.
func (c Conf) Environment() []string {
	// Linux refuses a variable of more than 128 KiB, and then the whole exec. Hadoop has this property for
	// long lists of inputs.
	limit := c.Int("stream.jobconf.truncate.limit", -1)
	env := make([]string, 0, len(c))
	for _, name := range c.Names() {
		if strings.HasPrefix(name, Private) {
			continue
		}
		v := c.Get(name, "")
		if limit >= 0 && len(v) > limit {
			// Bytes, as in Hadoop. A character that is cut stays cut.
			v = v[:limit]
		}
		// A variable cannot contain a zero byte, and exec would refuse the whole environment.
		if !strings.Contains(v, "\x00") {
			env = append(env, Variable(name)+"="+v)
		}
	}
	return env
}
