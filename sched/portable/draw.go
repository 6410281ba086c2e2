package portable

import (
	"math"
	"math/rand/v2"
	"sync"
)

// ziggurat covers the area under a falling density with layers of equal area. All
// are rectangles except the lowest, which includes the tail (Marsaglia and Tsang,
// "The Ziggurat Method for Generating Random Variables", 2000). To draw, choose a
// random layer and a random position in it. Most positions are certainly under the
// density; only the others need its value.
//
// The number of layers, the use of random bits and the variates are the same as in
// math/rand/v2, except for the last bits of the rare variates that need a logarithm.
type ziggurat struct {
	inner  []uint32  // by layer: smaller positions are under the density
	width  []float32 // by layer: its width divided by the number of positions
	height []float32 // by layer: the density at its right end
}

// layers builds a ziggurat of n layers of the given area, each with the given number
// of positions. The tail of the lowest layer begins at r.
func layers(n int, r, area, positions float64, density, inverse func(float64) float64) *ziggurat {
	z := &ziggurat{make([]uint32, n), make([]float32, n), make([]float32, n)}
	// The tail has no width, so the lowest layer is drawn as a rectangle of its area: positions beyond r
	// mean the tail.
	base := area / density(r) // width of a rectangle with the area of the lowest layer
	z.inner[0], z.width[0], z.height[0] = uint32(float64(r/base)*positions), float32(base/positions), 1
	z.width[n-1], z.height[n-1] = float32(r/positions), float32(density(r))
	x, wider := r, r
	for i := n - 2; i >= 1; i-- {
		// The right end of the layer above: a rectangle of width x and the given area ends at that height.
		x = inverse(area/x + density(x))
		z.inner[i+1] = uint32(float64(x/wider) * positions)
		z.width[i], z.height[i] = float32(x/positions), float32(density(x))
		wider = x
	}
	return z
}

// under decides at random, with the right probability, whether a position near the
// edge of a layer above the lowest is under the density there.
func (z *ziggurat) under(g *rand.Rand, i int, density float64) bool {
	step := float32(float32(g.Float64()) * (z.height[i-1] - z.height[i]))
	return z.height[i]+step < float32(density)
}

// The beginning of the tail and the area of a layer, for both distributions.
const (
	normalTail = 3.442619855899
	normalArea = 9.91256303526217e-3
	expTail    = 7.69711747013104972
	expArea    = 3.9496598225815571993e-3
)

// bell is the density of the normal distribution without its constant factor.
func bell(x float64) float64 { return Exp(-0.5 * float64(x*x)) }

var (
	normal = sync.OnceValue(func() *ziggurat {
		return layers(128, normalTail, normalArea, 1<<31, bell, func(y float64) float64 { return math.Sqrt(-2 * Log(y)) })
	})
	falling = sync.OnceValue(func() *ziggurat {
		return layers(256, expTail, expArea, 1<<32, func(x float64) float64 { return Exp(-x) }, func(y float64) float64 { return -Log(y) })
	})
)

// Normal draws from the normal distribution with mean 0 and standard deviation 1.
func Normal(g *rand.Rand) float64 {
	z := normal()
	for {
		u := g.Uint64()
		// One random number serves both: its lower half is the position, and bits above it the
		// layer.
		position, i := int32(u), int(u>>32&127)
		x := float64(position) * float64(z.width[i])
		switch {
		case magnitude(position) < z.inner[i]:
			return x
		// The lowest layer is the only one with a part outside the rectangle: the tail.
		case i == 0:
			return math.Copysign(tail(g), x)
		case z.under(g, i, bell(x)):
			return x
		}
	}
}

// magnitude returns |x|, also for the smallest number, which has no positive int32.
func magnitude(x int32) uint32 {
	if x < 0 {
		return uint32(-x)
	}
	return uint32(x)
}

// tail draws from the part of the normal distribution above normalTail.
func tail(g *rand.Rand) float64 {
	for {
		x := -Log(g.Float64()) * (1 / normalTail)
		// Marsaglia's method: x is exponential, and accepted with the probability exp(−x²/2).
		if y := -Log(g.Float64()); y+y >= float64(x*x) {
			return normalTail + x
		}
	}
}

// Exponential draws from the exponential distribution with mean 1.
func Exponential(g *rand.Rand) float64 {
	z := falling()
	for {
		u := g.Uint64()
		position, i := uint32(u), int(u>>32&255)
		x := float64(position) * float64(z.width[i])
		switch {
		case position < z.inner[i]:
			return x
		case i == 0:
			return expTail - Log(g.Float64())
		case z.under(g, i, Exp(-x)):
			return x
		}
	}
}
