package portable

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// apart returns the distance of two numbers in units of the last place.
func apart(a, b float64) uint64 {
	if a == b || a != a && b != b {
		return 0
	}
	x, y := math.Float64bits(a), math.Float64bits(b)
	if x>>63 != y>>63 {
		return math.MaxUint64
	}
	return max(x, y) - min(x, y)
}

// TestAgainstMath compares with package math, to within two units in the last place,
// because package math may be off by one as well.
func TestAgainstMath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(-750, 750), rapid.Float64Range(-1, 1), rapid.Float64Range(-1e-9, 1e-9)).Draw(t, "x")
		if d := apart(Exp(x), math.Exp(x)); d > 2 {
			t.Fatalf("e^%v = %v, want %v: %d apart", x, Exp(x), math.Exp(x), d)
		}
		y := rapid.OneOf(rapid.Float64Min(1e-300), rapid.Float64Range(0.5, 2), rapid.Float64Range(1-1e-9, 1+1e-9)).Draw(t, "y")
		if d := apart(Log(y), math.Log(y)); d > 2 {
			t.Fatalf("ln %v = %v, want %v: %d apart", y, Log(y), math.Log(y), d)
		}
		if d := apart(Log1p(y), math.Log1p(y)); d > 3 {
			t.Fatalf("ln (1 + %v) = %v, want %v: %d apart", y, Log1p(y), math.Log1p(y), d)
		}
		if d := math.Abs(Log2(y) - math.Log2(y)); d > 4e-16*max(1, math.Abs(math.Log2(y))) {
			t.Fatalf("the binary logarithm of %v is %v, want %v", y, Log2(y), math.Log2(y))
		}
		base, power := rapid.Float64Range(1e-6, 10).Draw(t, "base"), rapid.Float64Range(-9, 9).Draw(t, "power")
		if got, want := Pow(base, power), math.Pow(base, power); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("%v^%v = %v, want %v", base, power, got, want)
		}
	})
	g := rand.New(rand.NewPCG(5, 6))
	for range 300_000 {
		x := 1400 * (g.Float64() - 0.5)
		y := math.Exp(x)
		if a, b := apart(Exp(x), y), apart(Log(y), math.Log(y)); a > 2 || b > 2 {
			t.Fatalf("x = %v: %d and %d apart", x, a, b)
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range [][3]float64{
		{Exp(0), 1}, {Exp(inf), inf}, {Exp(-inf), 0}, {Exp(nan), nan}, {Exp(800), inf}, {Exp(-800), 0},
		{Log(1), 0}, {Log(0), -inf}, {Log(inf), inf}, {Log(-1), nan}, {Log(nan), nan}, {Log(5e-324), -1074 * math.Ln2},
		{Log2(8), 3}, {Log2(1), 0}, {Log2(0.25), -2}, {Log1p(1e-300), 1e-300}, {Log1p(0), 0}, {Log1p(inf), inf},
	} {
		if apart(c[0], c[1]) != 0 {
			t.Errorf("%v, want %v", c[0], c[1])
		}
	}
}

// Variates equal math/rand/v2's for the same generator, to within what their
// logarithms are off.
func TestDrawsAreThoseOfRand(t *testing.T) {
	for _, c := range []struct {
		name        string
		ours, other func(*rand.Rand) float64
	}{
		{"normal", Normal, (*rand.Rand).NormFloat64},
		{"exponential", Exponential, (*rand.Rand).ExpFloat64},
	} {
		a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
		different, inTail := 0, 0
		for i := range 2_000_000 {
			x, y := c.ours(a), c.other(b)
			if math.Abs(x-y) > 1e-12*math.Abs(y) {
				t.Fatalf("%s: draw %d is %v, want %v", c.name, i, x, y)
			}
			if x != y {
				different++
			}
			if math.Abs(x) > normalTail {
				inTail++
			}
		}
		if inTail < 100 || different > inTail {
			t.Errorf("%s: %d in the tail, %d differ", c.name, inTail, different)
		}
	}
}

// These bits are the same on every processor; they were computed on one.
func TestBits(t *testing.T) {
	h := fnv.New64a()
	add := func(x float64) {
		var b [8]byte
		for i := range b {
			b[i] = byte(math.Float64bits(x) >> (8 * i))
		}
		h.Write(b[:])
	}
	g := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		x := g.Float64()
		add(Exp(100 * (x - 0.5)))
		add(Log(x))
		add(Log1p(x))
		add(Log2(x))
		add(Pow(x, -1.5))
		add(Normal(g))
		add(Exponential(g))
	}
	const want = 0xb09769ecd8e4edc
	if got := h.Sum64(); got != want {
		t.Errorf("the bits add up to %#x, want %#x", got, uint64(want))
	}
}

// The first numbers that SplitMix64 draws with seed 0.
func TestMix(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := Mix(uint64(i) * 0x9e3779b97f4a7c15); got != want {
			t.Errorf("number %d: %#x, want %#x", i, got, want)
		}
	}
}
