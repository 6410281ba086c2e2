package metrics

import "time"

// Level is a count that changes in steps, and its integral over time: slots in
// use, jobs in the system. The zero value is 0 from the beginning.
type Level struct {
	value int
	at    time.Duration
	area  float64 // ∫ so far, in seconds
	max   int
}

// Add changes the level by n.
func (l *Level) Add(now time.Duration, n int) {
	l.pass(now)
	l.value += n
	l.max = max(l.max, l.value)
}

func (l *Level) pass(now time.Duration) {
	if now > l.at {
		l.area += float64(float64(l.value) * (now - l.at).Seconds())
		l.at = now
	}
}

// Value is the level now.
func (l *Level) Value() int { return l.value }

// Max is the highest it has been.
func (l *Level) Max() int { return l.max }

// Area is the integral up to now, in seconds.
func (l *Level) Area(now time.Duration) float64 { l.pass(now); return l.area }

// Course is how a level went over time, for plots, in constant memory: means over
// spans of equal width. When a run outlasts the spans, neighbours are merged and
// the width doubles. Width must be set, the rest is 0 at the beginning.
type Course struct {
	// Width is that of a span.
	Width time.Duration
	areas []float64 // integral over each span, in seconds
	value int
	at    time.Duration
}

// maxSpans is how many spans a course has at most; more would not be seen in a
// plot. It is even, since spans are merged in pairs.
const maxSpans = 2048

// Add changes the level by n.
func (c *Course) Add(now time.Duration, n int) {
	c.pass(now)
	c.value += n
}

// pass spreads the level over the spans from the last change to now.
func (c *Course) pass(now time.Duration) {
	for now > c.at {
		i := int(c.at / c.Width)
		for i >= maxSpans {
			c.double()
			i = int(c.at / c.Width)
		}
		for len(c.areas) <= i {
			c.areas = append(c.areas, 0)
		}
		end := min(now, time.Duration(i+1)*c.Width)
		c.areas[i] += float64(float64(c.value) * (end - c.at).Seconds())
		c.at = end
	}
}

func (c *Course) double() {
	for i := range len(c.areas) / 2 {
		c.areas[i] = c.areas[2*i] + c.areas[2*i+1]
	}
	c.areas = c.areas[:len(c.areas)/2]
	c.Width *= 2
}

// Means are the mean levels of the spans up to now, the last one over as much of
// it as has passed. The slice is the caller's.
func (c *Course) Means(now time.Duration) []float64 {
	c.pass(now)
	means := make([]float64, len(c.areas))
	for i, a := range c.areas {
		begin := time.Duration(i) * c.Width
		means[i] = a / (min(c.at, begin+c.Width) - begin).Seconds()
	}
	return means
}
