package dynamicmr

import (
	"fmt"
	"math"
	"strconv"

	"github.com/slotwise/slotwise/sched"
)

// Fraction is a number from 0 to 1, counted in millionths. Integer arithmetic
// makes fractions of whole numbers exact: in floating point 0.29·100 is less than
// 29, and 0.07·100 is more than 7.
type Fraction int64

// One is the fraction 1.
const One Fraction = 1_000_000

// Fractions are the values of a parameter of type Fraction.
var Fractions = sched.Values[Fraction]{
	Accepts: "a number from 0 to 1",
	Parse:   ParseFraction,
	Print:   Fraction.String,
}

// String returns the fraction as a decimal number.
func (f Fraction) String() string {
	return strconv.FormatFloat(float64(f)/float64(One), 'g', -1, 64)
}

// ParseFraction parses a decimal number from 0 to 1 and rounds it to millionths.
// A positive number never becomes 0, because 0 disables what the fraction
// controls.
func ParseFraction(s string) (Fraction, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", s)
	}
	f := Fraction(math.Round(x * float64(One)))
	// Below half a millionth, which rounds to 0.
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
