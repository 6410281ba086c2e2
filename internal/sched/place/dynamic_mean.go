package place

import "time"

// mean is one of the paper's pairs TimeCount and NumberCount, over all samples
// or over the last of them. The sum is exact.
type mean struct {
	sum    time.Duration
	count  int64
	window int             // 0 is all
	recent []time.Duration // with a window: its samples, a ring once it is full
	next   int             // the oldest of a full ring
}

func (m *mean) add(d time.Duration) {
	m.sum += d
	if m.window > 0 && len(m.recent) == m.window {
		m.sum -= m.recent[m.next]
		m.recent[m.next] = d
		m.next = (m.next + 1) % m.window
		return
	}
	if m.window > 0 {
		m.recent = append(m.recent, d)
	}
	m.count++
}

// value is the mean of at least one sample, rounded up so that a wait reaches it
// exactly when it reaches the true mean.
func (m *mean) value() time.Duration {
	n := time.Duration(m.count)
	return m.sum/n + min(1, m.sum%n)
}
