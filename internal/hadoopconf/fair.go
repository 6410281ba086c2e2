package hadoopconf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fairPrefix begins the names of the properties of Hadoop's fair scheduler.
const fairPrefix = "mapred.fairscheduler."

// fairNames maps the properties that have the same values here to the
// parameters of the policy fair.
var fairNames = map[string]string{
	"preemption":             "preemption",
	"sizebasedweight":        "size-weight",
	"assignmultiple":         "assign-multiple",
	"assignmultiple.maps":    "assign-maps",
	"assignmultiple.reduces": "assign-reduces",
	"load.max.diff":          "load-max-diff",
}

// fairTimes maps the properties that are milliseconds.
var fairTimes = map[string]string{
	"preemption.interval": "preemption-interval",
	"update.interval":     "update-interval",
	"locality.delay.node": "node-wait",
	"locality.delay.rack": "rack-wait",
}

// fairElsewhere are properties of Hadoop whose matter is settled elsewhere here,
// so that they mean nothing to the policy.
var fairElsewhere = []string{
	"allocation.file", "pool", "poolnameproperty", "allow.undeclared.pools", "preemption.only.log", "dump.interval",
	"eventlog.enabled", "eventlog.location", "loadmanager", "taskselector", "weightadjuster",
}

// FairSettings turns the properties of Hadoop's fair scheduler into settings of
// the policy fair. Properties of others are passed over. A property that means
// nothing here is warned of; a value that cannot be read is an error.
func FairSettings(props []Property) (set map[string]string, warnings []Warning, err error) {
	set = make(map[string]string)
	for _, p := range props {
		name, ours := strings.CutPrefix(p.Name, fairPrefix)
		if !ours {
			continue
		}
		if param, ok := fairNames[name]; ok {
			set[param] = strings.TrimSpace(p.Value)
			continue
		}
		_, timed := fairTimes[name]
		if !timed && name != "locality.delay" {
			warnings = append(warnings, fairWarning(p, name))
			continue
		}
		wait, err := milliseconds(p)
		if err != nil {
			return nil, warnings, err
		}
		if timed {
			set[fairTimes[name]] = wait
			continue
		}
		for _, param := range []string{"node-wait", "rack-wait"} {
			if _, own := set[param]; !own {
				set[param] = wait
			}
		}
	}
	return set, warnings, nil
}

func fairWarning(p Property, name string) Warning {
	for _, known := range fairElsewhere {
		if name == known {
			return Warning{p.Line, p.Name, "has no meaning here"}
		}
	}
	return Warning{p.Line, p.Name, "is not a property of Hadoop's fair scheduler"}
}

// milliseconds turns a property's milliseconds into a duration, -1 into auto.
func milliseconds(p Property) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(p.Value), 10, 64)
	switch {
	case err != nil || n < -1 || n > int64((1<<63-1)/time.Millisecond):
		return "", &Error{p.Line, p.Name, fmt.Sprintf("%q is not a number of milliseconds", p.Value)}
	case n == -1:
		return "auto", nil
	}
	return (time.Duration(n) * time.Millisecond).String(), nil
}
