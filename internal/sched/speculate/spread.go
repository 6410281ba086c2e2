package speculate

import (
	"math"
)

// spread gathers mean and standard deviation of a population.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.change(1, x) }

// change adds a value with n = 1, or takes one out with n = -1.
func (s *spread) change(n, x float64) {
	s.n += n
	s.sum += n * x
	s.squares += n * x * x
}

func (s *spread) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.sum / s.n
}

func (s *spread) std() float64 {
	if s.n == 0 {
		return 0
	}
	m := s.mean()
	return math.Sqrt(math.Max(0, s.squares/s.n-m*m))
}

// nodeTimes holds how long the tasks of a job took on each node, and how the
// means of the nodes spread.
type nodeTimes struct {
	byNode map[int32]*spread
	means  spread
}

func (t *nodeTimes) add(node int32, seconds float64) {
	if t.byNode == nil {
		t.byNode = make(map[int32]*spread)
	}
	s := t.byNode[node]
	if s == nil {
		s = &spread{}
		t.byNode[node] = s
	} else {
		t.means.change(-1, s.mean())
	}
	s.add(seconds)
	t.means.add(s.mean())
}

// slow reports whether a node's mean is above the mean of the nodes by more
// than so many standard deviations; a node that is not known is not slow.
func (t *nodeTimes) slow(node int32, deviations float64) bool {
	s := t.byNode[node]
	return s != nil && s.mean()-t.means.mean() > deviations*t.means.std()
}
