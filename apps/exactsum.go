package apps

import (
	"math"
	"math/big"
	"math/bits"
)

// exactSum adds up floating-point numbers without rounding. So the sum does not depend
// on their order, and not on how a job is split. It is one wide fixed-point number,
// after Kulisch: limb i counts units of 2^(32i-1074), and the lowest bit is the
// smallest positive float64. Limbs have more than 32 bits, to collect carries.
type exactSum struct {
	limbs [sumLimbs]int64
	adds  int
}

const (
	sumLimbs = 68    // 2098 bits of numbers, 64 for the sums of many
	sumUnit  = -1074 // exponent of the lowest bit
)

// add adds a finite number.
func (s *exactSum) add(x float64) {
	b := math.Float64bits(x)
	exponent, mantissa := int(b>>52&0x7ff), b&(1<<52-1)
	if exponent > 0 {
		mantissa |= 1 << 52
		exponent--
	}
	// x is mantissa · 2^(exponent-1074). Shifted within a limb the mantissa has at
	// most 84 bits, so it spans three limbs.
	high, low := bits.Mul64(mantissa, 1<<(exponent&31))
	parts := [3]int64{int64(low & math.MaxUint32), int64(low >> 32), int64(high)}
	// One bound check for three limbs. The last start is 63, so the three are within the 68.
	at := s.limbs[exponent>>5:][:3]
	if b>>63 == 0 {
		at[0] += parts[0]
		at[1] += parts[1]
		at[2] += parts[2]
	} else {
		at[0] -= parts[0]
		at[1] -= parts[1]
		at[2] -= parts[2]
	}
	// Each addition is less than 2^32 in a limb, which has room for 2^31 additions.
	if s.adds++; s.adds == 1<<30 {
		s.carry()
	}
}

// carry moves carries up: afterwards all limbs but the last are less than 2^32 and not
// negative, and the last one has the sign. Then limbs of many sums can be added.
func (s *exactSum) carry() {
	s.adds = 0
	var c int64
	for i := range sumLimbs - 1 {
		l := s.limbs[i] + c
		// An arithmetic shift: a negative limb borrows from the next one.
		c = l >> 32
		s.limbs[i] = l & math.MaxUint32
	}
	s.limbs[sumLimbs-1] += c
}

// over returns the sum divided by n, rounded once, to the nearest number. It is
// slow; it is called once for each sum.
func (s *exactSum) over(n int64) float64 {
	var sum, limb big.Int
	for i := sumLimbs - 1; i >= 0; i-- {
		sum.Lsh(&sum, 32)
		sum.Add(&sum, limb.SetInt64(s.limbs[i]))
	}
	// Two bits more than the unit of the sum, which is also the last bit of the smallest numbers, and whether anything is
	// left. So one rounding, of q to a float64, gives the nearest number, also below the smallest normal one.
	var rest big.Int
	q, _ := sum.Lsh(&sum, 2).QuoRem(&sum, limb.SetInt64(n), &rest)
	negative := q.Sign() < 0 || rest.Sign() < 0
	if q.Abs(q); rest.Sign() != 0 {
		q.SetBit(q, 0, 1)
	}
	x := new(big.Float).SetInt(q) // exact: as precise as the integer is long
	mean, _ := x.SetMantExp(x, sumUnit-2).Float64()
	if negative {
		return -mean
	}
	return mean
}
