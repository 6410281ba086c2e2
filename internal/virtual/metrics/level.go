package metrics

import "time"

// Level is a count that changes in steps, and its integral over time: slots in
// use, jobs in the system. The zero value is 0 from time 0 on.
type Level struct {
	value int
	at    time.Duration
	area  float64 // ∫ so far, in seconds
}

// Add changes the level by n.
func (l *Level) Add(now time.Duration, n int) {
	l.pass(now)
	l.value += n
}

// pass integrates from the last change to now.
func (l *Level) pass(now time.Duration) {
	// A time before the last change is possible for Area, at the end of a run that continues after the last
	// job: the area is then complete already.
	if now > l.at {
		l.area += float64(float64(l.value) * (now - l.at).Seconds())
		l.at = now
	}
}

// Value returns the current level.
func (l *Level) Value() int { return l.value }

// Area returns the integral up to now, in seconds.
func (l *Level) Area(now time.Duration) float64 { l.pass(now); return l.area }

// Course records a level over time for plots, in constant memory: it keeps the
// mean and the peak of each of some spans of equal width. When a run outlasts the spans,
// neighbours are merged and the width doubles. Width must be set; the level is
// 0 at time 0.
type Course struct {
	// Width is the width of a span.
	Width time.Duration
	areas []float64 // integral over each span, in seconds
	peaks []int     // highest level in each span
	value int
	at    time.Duration
}

// maxSpans is the maximum number of spans; a plot could not show more. It is
// even, because spans are merged in pairs.
const maxSpans = 2048

// Add changes the level by n.
func (c *Course) Add(now time.Duration, n int) {
	c.pass(now)
	c.value += n
}

// pass adds the level to the spans from the last change to now.
func (c *Course) pass(now time.Duration) {
	for now > c.at {
		i := int(c.at / c.Width)
		// After a long pause one doubling may not be enough.
		for i >= maxSpans {
			c.double()
			i = int(c.at / c.Width)
		}
		// A level of 0 has left no spans so far.
		for len(c.areas) <= i {
			c.areas, c.peaks = append(c.areas, 0), append(c.peaks, 0)
		}
		// Here and not in Add, so that a level that lasts no time, between two events of one moment, is no peak.
		c.peaks[i] = max(c.peaks[i], c.value)
		// Span by span, since a level that lasts for long covers several spans.
		end := min(now, time.Duration(i+1)*c.Width)
		c.areas[i] += float64(float64(c.value) * (end - c.at).Seconds())
		c.at = end
	}
}

// double merges neighbouring spans.
func (c *Course) double() {
	// In place: the pair 2i, 2i+1 is read before position i is written, and no later pair needs it.
	for i := range len(c.areas) / 2 {
		c.areas[i] = c.areas[2*i] + c.areas[2*i+1]
		c.peaks[i] = max(c.peaks[2*i], c.peaks[2*i+1])
	}
	c.areas, c.peaks = c.areas[:len(c.areas)/2], c.peaks[:len(c.peaks)/2]
	c.Width *= 2
}

// Means returns the mean level of each span up to now; the last span counts
// only as far as it has passed. The caller owns the slice.
func (c *Course) Means(now time.Duration) []float64 {
	c.pass(now)
	means := make([]float64, len(c.areas))
	for i, a := range c.areas {
		begin := time.Duration(i) * c.Width
		// Not the width alone: the last span is not over, and its mean would look too low.
		means[i] = a / (min(c.at, begin+c.Width) - begin).Seconds()
	}
	return means
}

// Peaks returns the highest level of each span up to now, a whole number. Levels that
// last no time do not count. The caller owns the slice.
func (c *Course) Peaks(now time.Duration) []float64 {
	c.pass(now)
	peaks := make([]float64, len(c.peaks))
	for i, p := range c.peaks {
		peaks[i] = float64(p)
	}
	return peaks
}
