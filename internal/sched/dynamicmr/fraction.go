package dynamicmr

import (
	"errors"
	"math"
	"strconv"
)

// Fraction is a number from 0 to 1 in millionths, so that parts of whole numbers
// are exact: in floating point 0.29·100 is less than 29, and 0.07·100 is more
// than 7.
type Fraction int64

// One is the whole.
const One Fraction = 1_000_000

// ParseFraction reads a decimal number from 0 to 1. Only an exact 0 becomes 0,
// because 0 switches things off.
func ParseFraction(s string) (Fraction, error) {
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return 0, errors.New("must be a number")
	case !(x >= 0 && x <= 1):
		return 0, errors.New("must be a fraction from 0 to 1")
	}
	f := Fraction(math.Round(x * float64(One)))
	if f == 0 && x > 0 {
		f = 1
	}
	return f, nil
}

// Floor returns ⌊f·n⌋ for n of at least 0.
func (f Fraction) Floor(n int) int { return int(int64(n) * int64(f) / int64(One)) }

// Ceil returns ⌈f·n⌉ for n of at least 0.
func (f Fraction) Ceil(n int) int {
	return int((int64(n)*int64(f) + int64(One) - 1) / int64(One))
}

// CeilDiv returns ⌈a/b⌉ for a of at least 0 and b of at least 1.
func CeilDiv(a, b int) int { return (a + b - 1) / b }
