package parquet

import (
	"math/big"
	"strings"
)

// decimal returns n × 10^-scale without an exponent.
func decimal(n *big.Int, scale int) string {
	s := n.String()
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	if scale <= 0 {
		return sign + s + strings.Repeat("0", min(-scale, maxScale))
	}
	scale = min(scale, maxScale)
	if len(s) <= scale {
		s = strings.Repeat("0", scale-len(s)+1) + s
	}
	return sign + s[:len(s)-scale] + "." + s[len(s)-scale:]
}

// maxScale bounds the digits behind the point of a decimal.
const maxScale = 10_000

// twosComplement returns the integer whose big-endian two's complement is b.
func twosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}
