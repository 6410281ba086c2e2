package hadoopconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// yarnPrefix begins the names of the properties of the Capacity Scheduler of Hadoop 2
// and 3.
const yarnPrefix = "yarn.scheduler.capacity."

// yarnIdle are properties of the scheduler or of a queue that have no effect, because
// slotwise has no counterpart.
var yarnIdle = []string{
	"maximum-applications", "maximum-am-resource-percent", "max-parallel-apps", "priority", "disable_preemption", "default-application-priority",
	"maximum-application-lifetime", "default-application-lifetime", "resource-calculator", "node-locality-delay", "rack-locality-additional-delay",
	"maximum-allocation-mb", "maximum-allocation-vcores", "queue-mappings-override.enable", "allow-zero-capacity-sum",
	"per-node-heartbeat.multiple-assignments-enabled", "per-node-heartbeat.maximum-container-assignments",
	"per-node-heartbeat.maximum-offswitch-assignments", "intra-queue-preemption.disable_preemption",
}

// yarnQueue are the properties of a queue that yarnReader reads.
var yarnQueue = []string{"queues", "capacity", "maximum-capacity", "minimum-user-limit-percent", "user-limit-factor", "state", "ordering-policy", "acl_submit_applications", "acl_administer_queue"}

// isYarn reports whether a property begins with yarnPrefix.
func isYarn(props []Property) bool {
	return slices.ContainsFunc(props, func(p Property) bool { return strings.HasPrefix(p.Name, yarnPrefix) })
}

// yarnReader converts a tree of queues to a list. A leaf becomes a queue with the
// capacity of the whole cluster that the percentages on its path give it. Limits that the
// list cannot express are errors.
type yarnReader struct {
	byName map[string]Property // without the prefix
	queues []string            // in the short form of the parameter "queues"
	names  []string            // of the queues
	paths  []string            // of all queues, parents included
}

// yarnSettings is CapacitySettings for properties of Hadoop 2 and 3.
func yarnSettings(props []Property) (set map[string]string, warnings []Warning, err error) {
	r := &yarnReader{byName: map[string]Property{}}
	for _, p := range props {
		if name, ours := strings.CutPrefix(p.Name, yarnPrefix); ours {
			p.Value = strings.TrimSpace(p.Value)
			r.byName[name] = p
		}
	}
	// The tree first: check needs the paths to tell a queue's name from a property's.
	if err := r.walk("root", 100, 100); err != nil {
		return nil, nil, err
	}
	for _, p := range props {
		name, ours := strings.CutPrefix(p.Name, yarnPrefix)
		if !ours {
			continue
		}
		// From byName, whose values are trimmed.
		text, err := r.check(name, r.byName[name])
		if err != nil {
			return nil, warnings, err
		}
		if text != "" {
			warnings = append(warnings, Warning{p.Line, p.Name, text})
		}
	}
	return map[string]string{"queues": strings.Join(r.queues, ";")}, warnings, nil
}

// fail returns an error about a property.
func (r *yarnReader) fail(name, format string, args ...any) error {
	return &Error{r.byName[name].Line, yarnPrefix + name, fmt.Sprintf(format, args...)}
}

// maxQueueDepth bounds the depth of the tree of queues.
const maxQueueDepth = 50

// walk adds the leaves of a queue. capacity and limit are the queue's percentages of the
// cluster.
func (r *yarnReader) walk(path string, capacity, limit float64) error {
	r.paths = append(r.paths, path)
	children := r.byName[path+".queues"].Value
	if children == "" {
		if path == "root" {
			return r.fail(path+".queues", "is missing: the file declares no queue")
		}
		return r.leaf(path, capacity, limit)
	}
	// The recursion is as deep as the file makes it, and any user may have written the file.
	if strings.Count(path, ".") > maxQueueDepth {
		return r.fail(path+".queues", "more than %d queues below each other", maxQueueDepth)
	}
	sum := 0.0
	var shares []float64
	names := strings.Split(children, ",")
	for _, name := range names {
		key := path + "." + strings.TrimSpace(name) + ".capacity"
		share, err := r.percent(key, 0)
		if err != nil {
			return err
		}
		sum += share
		shares = append(shares, share)
	}
	// YARN accepts shares of 0 for all children only where there is nothing to divide, or where the
	// file says so.
	zero := sum == 0 && (capacity == 0 || r.byName[path+".allow-zero-capacity-sum"].Value == "true")
	// YARN's tolerance: files have thirds written as 33.33.
	if math.Abs(sum-100) > 0.05 && !zero {
		return r.fail(path+".queues", "illegal capacity sum of %v for the queues below %s; it must be 100", sum, path)
	}
	for i, name := range names {
		child := path + "." + strings.TrimSpace(name)
		most, err := r.percent(child+".maximum-capacity", 100)
		if err != nil {
			return err
		}
		// The policy refuses this, too, but could not name the property and its line.
		if most < shares[i] {
			return r.fail(child+".maximum-capacity", "is %v and less than the capacity %v", most, shares[i])
		}
		// Percentages multiply along the path: a child's maximum is a part of its parent's.
		if err := r.walk(child, capacity*shares[i]/100, limit*most/100); err != nil {
			return err
		}
	}
	return nil
}

// percent returns a percentage, or def if it is not set or negative.
func (r *yarnReader) percent(name string, def float64) (float64, error) {
	p, ok := r.byName[name]
	if !ok {
		return def, nil
	}
	// Refused and not guessed. With a wrong capacity the cluster would run, and other users than intended
	// would wait.
	if strings.HasSuffix(p.Value, "w") || strings.HasPrefix(p.Value, "[") {
		return 0, r.fail(name, "is %s: weights and amounts of memory cannot be read; write percentages", p.Value)
	}
	n, err := strconv.ParseFloat(p.Value, 64)
	if err != nil || n > 100 || n < 0 && n != -1 || n != n {
		return 0, r.fail(name, "illegal capacity of %s: must be from 0 to 100", p.Value)
	}
	if n < 0 {
		return def, nil
	}
	return n, nil
}

// leaf adds a queue.
func (r *yarnReader) leaf(path string, capacity, limit float64) error {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case name == "" || strings.ContainsAny(name, ",;="):
		return r.fail(path+".capacity", "%q is no name of a queue", name)
	// YARN of Hadoop 2 has the same rule: leaves have unique names.
	case slices.Contains(r.names, name):
		return r.fail(path+".capacity", "two queues have the name %s; jobs name queues by the last part of the path", name)
	}
	r.names = append(r.names, name)
	users := r.inherited(path, "minimum-user-limit-percent", "100")
	factor := r.inherited(path, "user-limit-factor", "1")
	// YARN's value for no limit. The policy accepts positive factors only.
	if factor == "-1" {
		factor = "1000000" // no limit
	}
	text := fmt.Sprintf("%s,capacity=%v,minimum-user-limit-percent=%s,user-limit-factor=%s", name, float32(capacity), users, factor)
	// A maximum of 100 % is none, and Hadoop 1's default.
	if limit < 100 {
		text += fmt.Sprintf(",maximum-capacity=%v", float32(limit))
	}
	r.queues = append(r.queues, text)
	return nil
}

// inherited returns a setting of a queue, else the setting of the scheduler, else def.
func (r *yarnReader) inherited(path, setting, def string) string {
	for _, name := range []string{path + "." + setting, setting} {
		if p, ok := r.byName[name]; ok {
			return p.Value
		}
	}
	return def
}

// check returns a warning for a property without effect, and an error for one whose effect
// would be missed.
func (r *yarnReader) check(name string, p Property) (warning string, err error) {
	setting := name
	for _, path := range r.paths {
		// The longest path decides, because the path of a queue begins with the path of its parent.
		if rest, ok := strings.CutPrefix(name, path+"."); ok && len(rest) < len(setting) {
			setting = rest
		}
	}
	ofQueue := setting != name
	switch {
	case setting == "state" && p.Value != "RUNNING":
		return "", r.fail(name, "is %s: a queue cannot be stopped here; remove the queue", p.Value)
	case setting == "ordering-policy" && slices.Contains([]string{"fifo", "utilization", "priority-utilization"}, p.Value):
		return "", nil
	case setting == "ordering-policy":
		return "", r.fail(name, "is %s: jobs of a queue run in the order of submission; for fair sharing use the policy fair", p.Value)
	case strings.HasPrefix(setting, "acl_") && p.Value != "*":
		return "", r.fail(name, "is %q: queues have no lists of users here; the file of slotwise master --access has the rules of access", p.Value)
	case ofQueue && slices.Contains(yarnQueue, setting):
		return "", nil
	case setting == "minimum-user-limit-percent" || setting == "user-limit-factor":
		return "", nil
	case (setting == "queue-mappings" || strings.HasPrefix(setting, "mapping-rule")) && p.Value != "":
		return "", r.fail(name, "rules that choose queues are not supported; jobs name their queue")
	case slices.Contains(yarnIdle, setting), setting == "queue-mappings":
		return "has no meaning here", nil
	}
	// An error, where Hadoop is silent: a misspelt limit would otherwise be no limit.
	return "", r.fail(name, "is not a property of a queue that the file declares, or is not supported")
}

// queueNames maps the names of elements in Hadoop 2 and 3 to their names in Hadoop 1.
var queueNames = map[string]string{
	"maxRunningApps": "maxRunningJobs", "schedulingPolicy": "schedulingMode", "userMaxAppsDefault": "userMaxJobsDefault",
	"queueMaxAppsDefault": "poolMaxJobsDefault", "defaultQueueSchedulingPolicy": "defaultPoolSchedulingMode",
	"defaultFairSharePreemptionTimeout": "fairSharePreemptionTimeout",
}

// queueRefused are elements of Hadoop 2 and 3 whose effect cannot be had, and the reason.
var queueRefused = map[string]string{
	"minResources":                        "memory and cores cannot be turned into slots: write minMaps and minReduces",
	"maxResources":                        "memory and cores cannot be turned into slots: write maxMaps and maxReduces",
	"maxChildResources":                   "memory and cores cannot be turned into slots: write maxMaps and maxReduces",
	"queueMaxResourcesDefault":            "memory and cores cannot be turned into slots: write maxMaps and maxReduces for each queue",
	"fairSharePreemptionThreshold":        "the fair share is preempted for at half of it, always",
	"defaultFairSharePreemptionThreshold": "the fair share is preempted for at half of it, always",
	"allowPreemptionFrom":                 "every queue can be preempted",
	"queuePlacementPolicy":                "rules that choose queues are not supported; jobs name their queue",
	"aclSubmitApps":                       "queues have no lists of users here; the file of slotwise master --access has the rules of access",
	"aclAdministerApps":                   "queues have no lists of users here; the file of slotwise master --access has the rules of access",
}

// asPools rewrites a file of Hadoop 2 and 3 to the form of Hadoop 1: queues become pools.
// Queues within queues, and elements without a counterpart, are errors.
func asPools(root *element) error {
	if len(root.children) > 0 {
		queues := slices.DeleteFunc(slices.Clone(root.children), func(e *element) bool { return e.name != "queue" })
		// Hadoop 2 and 3 accept a file with or without the root queue around the others.
		if len(queues) == 1 && queues[0].attrs["name"] == "root" {
			all := slices.DeleteFunc(slices.Clone(root.children), func(e *element) bool { return e == queues[0] })
			root.children = append(all, queues[0].children...)
		}
	}
	for _, e := range root.children {
		if err := asPool(e); err != nil {
			return err
		}
		if e.name != "queue" && e.name != "pool" && e.name != "user" {
			continue
		}
		for _, c := range e.children {
			if c.name == "queue" || c.name == "pool" {
				return &Error{c.line, c.name, fmt.Sprintf("queue %q is within queue %q: there is one level of queues only", c.attrs["name"], e.attrs["name"])}
			}
			if err := asPool(c); err != nil {
				return err
			}
		}
		if e.name == "queue" {
			e.name = "pool"
		}
	}
	return nil
}

// asPool renames one element.
func asPool(e *element) error {
	if why, refused := queueRefused[e.name]; refused && !(strings.HasPrefix(e.name, "acl") && e.text == "*") && !(e.name == "allowPreemptionFrom" && e.text == "true") {
		return &Error{e.line, e.name, "is not supported: " + why}
	}
	if e.attrs["type"] == "parent" {
		return &Error{e.line, e.name, fmt.Sprintf("queue %q has the type parent: there is one level of queues only", e.attrs["name"])}
	}
	if strings.EqualFold(e.text, "drf") && (e.name == "schedulingPolicy" || e.name == "schedulingMode") {
		return &Error{e.line, e.name, "is not supported: slots are one resource; write fair or fifo"}
	}
	if name, ok := queueNames[e.name]; ok {
		e.name = name
	}
	return nil
}
