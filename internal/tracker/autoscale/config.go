package autoscale

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config holds the limits and times of the decision.
type Config struct {
	// Min and Max bound the number of workers. Min is at least 0, Max at least 1 and Min.
	Min, Max int
	// StartUp is the time of a machine from the request to its first task. Work that ended
	// less than StartUp ago keeps its workers even if CoolDown is shorter: if the work came
	// back, it would wait that long for new ones. Default 30 s.
	StartUp time.Duration
	// CoolDown is the time of low demand before workers are given back. A longer
	// one costs idle machines, a shorter one makes bursts of jobs wait for StartUp.
	// Default 1 minute.
	CoolDown time.Duration
	// Hold limits the time for which a draining worker without running attempts is kept
	// because unfinished jobs still need map outputs on it. After that it is given back,
	// and the maps run again. Default 10 minutes.
	Hold time.Duration
}

// most bounds Max, and longest all times.
const (
	most    = 10_000
	longest = 24 * time.Hour
)

// Parse reads settings such as "min=2,max=50,start-up=30s,cool-down=1m,hold=10m". max is
// required. min is 1 by default.
func Parse(text string) (Config, error) {
	c := Config{Min: 1, StartUp: 30 * time.Second, CoolDown: time.Minute, Hold: 10 * time.Minute}
	seen := map[string]bool{}
	for setting := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(setting), "=")
		if !ok {
			return c, fmt.Errorf("%q: want name=value, of min, max, start-up, cool-down and hold", setting)
		}
		// The user may have edited one of the two and wonder why it has no effect.
		if seen[name] {
			return c, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		var err error
		switch name {
		case "min":
			c.Min, err = strconv.Atoi(value)
		case "max":
			c.Max, err = strconv.Atoi(value)
		case "start-up":
			c.StartUp, err = time.ParseDuration(value)
		case "cool-down":
			c.CoolDown, err = time.ParseDuration(value)
		case "hold":
			c.Hold, err = time.ParseDuration(value)
		default:
			return c, fmt.Errorf("unknown setting %q: known are min, max, start-up, cool-down and hold", name)
		}
		if err != nil {
			return c, fmt.Errorf("%s=%s: want a whole number for min and max, a time such as 30s for the others", name, value)
		}
	}
	return c, c.check()
}

// check verifies the ranges of all settings.
func (c Config) check() error {
	switch {
	case c.Max < 1 || c.Max > most:
		return fmt.Errorf("max=%d: must be from 1 to %d", c.Max, most)
	case c.Min < 0 || c.Min > c.Max:
		return fmt.Errorf("min=%d: must be from 0 to max, which is %d", c.Min, c.Max)
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{{"start-up", c.StartUp}, {"cool-down", c.CoolDown}, {"hold", c.Hold}} {
		if t.value < 0 || t.value > longest {
			return fmt.Errorf("%s=%v: must be from 0 to %v", t.name, t.value, longest)
		}
	}
	return nil
}

// String returns the settings in a form that Parse reads.
func (c Config) String() string {
	return fmt.Sprintf("min=%d,max=%d,start-up=%v,cool-down=%v,hold=%v", c.Min, c.Max, c.StartUp, c.CoolDown, c.Hold)
}
