package tyrex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// heavy returns a sample of n sizes whose logarithms are normally distributed,
// the slowest case for decisions: the cut-off point lies beyond most of the
// sizes.
func heavy(n int) (*sample, []int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	s, list := &sample{}, []int64(nil)
	for range n {
		x := int64(math.Exp(10 + 1.7*rng.NormFloat64()))
		s.add(x)
		list = append(list, x)
	}
	return s, list
}

// BenchmarkDecision: a size changes and the cut-off point is found again.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{100, 1000, 2000, 10_000} {
		b.Run(fmt.Sprint(n, "sizes"), func(b *testing.B) {
			s, list := heavy(n)
			if !s.exceeds(2) {
				b.Fatalf("CV² is only %v", s.cv2())
			}
			b.ReportAllocs()
			for i := range b.N {
				at := i % n
				s.remove(list[at])
				list[at]++
				s.add(list[at])
				if s.exceeds(2) && s.cutoff() < 0 {
					b.Fatal("a negative cut-off point")
				}
			}
		})
	}
}
