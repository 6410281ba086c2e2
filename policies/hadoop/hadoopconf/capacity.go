package hadoopconf

import (
	"fmt"
	"slices"
	"strings"
)

// capacityPrefix begins the names of the properties of Hadoop's Capacity Scheduler.
// queuePrefix begins the properties of one queue, and defaultPrefix the defaults for
// queues that do not set a property.
const (
	capacityPrefix = "mapred.capacity-scheduler."
	queuePrefix    = capacityPrefix + "queue."
	defaultPrefix  = capacityPrefix + "default-"
)

// queueSettings are the supported properties of a queue. The parameter "queues" uses
// the same names.
var queueSettings = []string{
	"capacity", "maximum-capacity", "minimum-user-limit-percent", "user-limit-factor", "supports-priority",
}

// capacityNames are the properties that the policy has as parameters of the same name.
var capacityNames = []string{"maximum-tasks-per-heartbeat", "maximum-tasks-after-offswitch"}

// capacityElsewhere are Hadoop's properties that have no effect: slotwise initialises
// jobs at once and does not schedule memory.
var capacityElsewhere = []string{
	"maximum-initialized-active-tasks", "maximum-initialized-active-tasks-per-user", "init-accept-jobs-factor",
	"maximum-system-jobs", "init-poll-interval", "init-worker-threads", "maximum-initialized-jobs-per-user",
}

// CapacitySettings converts the properties of Hadoop's Capacity Scheduler to parameters
// of the policy capacity. queues lists the queues in order (mapred.queue.names). If it
// is nil, that property lists them, or else the order of their first mention counts.
// CapacitySettings warns of properties without effect. The policy validates the values.
// It reads properties of Hadoop 2 and 3 as well. A property that it cannot convert is an
// error.
func CapacitySettings(props []Property, queues []string) (set map[string]string, warnings []Warning, err error) {
	props = lastOf(props)
	if isYarn(props) {
		return yarnSettings(props)
	}
	// Values stay text: the policy parses and checks them, as if the user had written them on the command
	// line.
	set = make(map[string]string)
	c := capacityReader{set: set, queues: queues, said: map[string][]string{}, defaults: map[string]string{}}
	for _, p := range props {
		// A separate pass: the order of queues decides between equal ones, and the property may come last
		// in the file.
		if p.Name == "mapred.queue.names" && queues == nil {
			for _, q := range strings.Split(p.Value, ",") {
				c.queue(strings.TrimSpace(q))
			}
		}
	}
	for _, p := range props {
		if w := c.read(p); w != "" {
			warnings = append(warnings, Warning{p.Line, p.Name, w})
		}
	}
	// Without queues the policy's own default applies, a single queue with all slots.
	if len(c.queues) > 0 {
		text, err := c.list()
		if err != nil {
			return nil, warnings, err
		}
		set["queues"] = text
	}
	return set, warnings, nil
}

// capacityReader collects the settings of queues.
type capacityReader struct {
	set      map[string]string
	queues   []string
	said     map[string][]string // settings by queue
	defaults map[string]string
}

// queue adds a queue if it is new.
func (c *capacityReader) queue(name string) {
	if name != "" && !slices.Contains(c.queues, name) {
		c.queues = append(c.queues, name)
	}
}

// read processes one property and returns a warning, or "".
func (c *capacityReader) read(p Property) string {
	name, ours := strings.CutPrefix(p.Name, capacityPrefix)
	value := strings.TrimSpace(p.Value)
	if !ours {
		return ""
	}
	// A default-NAME that is no setting of queues may still be one of the scheduler's own
	// properties below.
	if setting, ok := strings.CutPrefix(p.Name, defaultPrefix); ok {
		name = setting
		if slices.Contains(queueSettings, setting) {
			c.defaults[setting] = value
			return ""
		}
	}
	if rest, ok := strings.CutPrefix(p.Name, queuePrefix); ok {
		// At the last dot: names of queues may have dots, names of settings have none.
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 {
			return "names no setting of a queue"
		}
		queue, setting := rest[:dot], rest[dot+1:]
		if slices.Contains(queueSettings, setting) {
			c.queue(queue)
			c.said[queue] = append(c.said[queue], setting+"="+value)
			return ""
		}
		name = setting
	}
	switch {
	// Not under the name of a queue, nor as a default of queues: Hadoop reads the scheduler's own property only.
	case p.Name == capacityPrefix+name && slices.Contains(capacityNames, name):
		c.set[name] = value
		return ""
	case slices.Contains(capacityElsewhere, name):
		return "has no meaning here"
	}
	return "is not a property of Hadoop's capacity scheduler"
}

// list returns the queues in the short form of the parameter "queues".
func (c *capacityReader) list() (string, error) {
	var queues []string
	for _, q := range c.queues {
		words := []string{q}
		for _, setting := range queueSettings {
			own := slices.ContainsFunc(c.said[q], func(s string) bool { return strings.HasPrefix(s, setting+"=") })
			if v, ok := c.defaults[setting]; ok && !own {
				words = append(words, setting+"="+v)
			}
		}
		words = append(words, c.said[q]...)
		// A semicolon would end the queue and turn the rest into another one, without an error.
		if text := strings.Join(words, ","); strings.Contains(text, ";") {
			return "", &Error{Element: queuePrefix + q, Text: fmt.Sprintf("%q holds a semicolon", text)}
		}
		queues = append(queues, strings.Join(words, ","))
	}
	return strings.Join(queues, ";"), nil
}
