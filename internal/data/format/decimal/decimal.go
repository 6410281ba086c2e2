// Package decimal renders decimals of formats with columns. It is apart from package format
// because math/big is a lot to link into a program that reads text.
package decimal

import (
	"fmt"
	"math/big"
	"strings"
)

// maxScale and maxUnscaled bound the digits behind the point of a decimal and the bytes of its
// integer. Both come from the file, and a few bytes could ask for gigabytes of zeros.
const (
	maxScale    = 10_000
	maxUnscaled = 16 << 10
)

// Text returns n × 10^-scale with all its digits and without an exponent.
func Text(n *big.Int, scale int) (string, error) {
	if scale > maxScale || scale < -maxScale {
		return "", fmt.Errorf("a decimal has the scale %d; the most are %d", scale, maxScale)
	}
	s := n.String()
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	if scale <= 0 {
		if s != "0" { // JSON knows no 000
			s += strings.Repeat("0", -scale)
		}
		return sign + s, nil
	}
	// At least one digit must stand before the point.
	if len(s) <= scale {
		s = strings.Repeat("0", scale-len(s)+1) + s
	}
	return sign + s[:len(s)-scale] + "." + s[len(s)-scale:], nil
}

// OfBytes returns the decimal whose integer is b, in big-endian two's complement.
func OfBytes(b []byte, scale int) (string, error) {
	if len(b) > maxUnscaled {
		return "", fmt.Errorf("a decimal has %d bytes; the most are %d", len(b), maxUnscaled)
	}
	n := new(big.Int).SetBytes(b)
	// In two's complement a set sign bit subtracts 2 to the power of the number of bits.
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return Text(n, scale)
}
