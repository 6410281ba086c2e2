package hadoopconf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fairPrefix begins the names of the properties of Hadoop's Fair Scheduler.
const fairPrefix = "mapred.fairscheduler."

// fairNames maps properties to the parameters of the policy fair that take the same
// values.
var fairNames = map[string]string{
	"preemption":             "preemption",
	"sizebasedweight":        "size-weight",
	"assignmultiple":         "assign-multiple",
	"assignmultiple.maps":    "assign-maps",
	"assignmultiple.reduces": "assign-reduces",
	"load.max.diff":          "load-max-diff",
}

// fairTimes maps properties in milliseconds to parameters that are durations.
var fairTimes = map[string]string{
	"preemption.interval": "preemption-interval",
	"update.interval":     "update-interval",
	"locality.delay.node": "node-wait",
	"locality.delay.rack": "rack-wait",
}

// fairElsewhere are Hadoop's properties that other parts of slotwise replace, so they
// have no effect on the policy.
var fairElsewhere = []string{
	"allocation.file", "pool", "poolnameproperty", "allow.undeclared.pools", "preemption.only.log", "dump.interval",
	"eventlog.enabled", "eventlog.location", "loadmanager", "taskselector", "weightadjuster",
}

// FairSettings converts the properties of Hadoop's Fair Scheduler to parameters of the
// policy fair. It ignores other properties, warns of properties without effect, and
// returns an error for a value that cannot be parsed.
func FairSettings(props []Property) (set map[string]string, warnings []Warning, err error) {
	set = make(map[string]string)
	for _, p := range lastOf(props) {
		name, ours := strings.CutPrefix(p.Name, fairPrefix)
		if !ours {
			continue
		}
		if param, ok := fairNames[name]; ok {
			// The policy refuses bad values and names the parameter, whose name is close to the property's.
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
		// locality.delay is the older property for both waits. The two specific ones win, whichever
		// comes first in the file.
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

// milliseconds converts a property in milliseconds to a duration, and -1 to "auto".
func milliseconds(p Property) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(p.Value), 10, 64)
	switch {
	// Within what a duration holds: a wait that overflows would be negative, and end at once.
	case err != nil || n < -1 || n > int64((1<<63-1)/time.Millisecond):
		return "", &Error{p.Line, p.Name, fmt.Sprintf("%q is not a number of milliseconds", p.Value)}
	case n == -1:
		return "auto", nil
	}
	return (time.Duration(n) * time.Millisecond).String(), nil
}
