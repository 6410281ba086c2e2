package main

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// pace remembers what is needed to tell how long the phases of a job will
// still take. How long reduces take cannot be told from how long maps took, so
// each phase is measured by itself: the reduce phase from the end of the maps.
type pace struct {
	mapsEnded bool
	end       time.Duration // when the maps had ended
	reduced   float64       // how much of the reduces was done by then
}

// remarks is what is said beside bars and in lines; "" for nothing.
type remarks struct {
	speed         string // input read, a second
	maps, reduces string // time left
}

// remarks takes note of a job's progress and says what there is to say.
func (c *pace) remarks(p *mapreduce.Progress) remarks {
	r := remarks{speed: humanBytes(rate(p.BytesRead, p.Elapsed)) + "/s"}
	if p.MapFrac < 1 {
		r.maps = left(p.Elapsed, p.MapFrac)
		return r
	}
	if !c.mapsEnded {
		c.mapsEnded, c.end, c.reduced = true, p.Elapsed, p.ReduceFrac
	}
	if p.Reduces > 0 && c.reduced < 1 {
		r.reduces = left(p.Elapsed-c.end, (p.ReduceFrac-c.reduced)/(1-c.reduced))
	}
	return r
}

// left says how long it will take to the end if a fraction done has taken so
// long. It says nothing before there is something to go by.
func left(took time.Duration, done float64) string {
	if done < 0.01 || done > 1 || took < time.Second {
		return ""
	}
	d := time.Duration(float64(took) * (1 - done) / done)
	if d < 100*time.Second {
		return fmt.Sprintf("%.0f s left", d.Seconds())
	}
	return humanDuration(d) + " left"
}

// progressLine is a job's progress for a log.
func progressLine(p *mapreduce.Progress, r remarks) string {
	s := fmt.Sprintf("%s: map %.0f %%", p.Job, 100*p.MapFrac)
	if r.maps != "" {
		s += " (" + r.maps + ")"
	}
	if p.Reduces > 0 {
		s += fmt.Sprintf(", reduce %.0f %%", 100*p.ReduceFrac)
	}
	if r.reduces != "" {
		s += " (" + r.reduces + ")"
	}
	return s + ", " + r.speed
}
