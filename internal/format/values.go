package format

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// The layouts of times, as time.Time.Format takes them: ISO 8601 with as many digits of
// the second as there are.
const (
	UTCTime   = "2006-01-02T15:04:05.999999999Z"
	LocalTime = "2006-01-02T15:04:05.999999999" // without a time zone
	TimeOfDay = "15:04:05.999999999"
)

// Decimal returns n × 10^-scale without an exponent.
func Decimal(n *big.Int, scale int) string {
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

// TwosComplement returns the integer whose big-endian two's complement is b.
func TwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// JSONFloat returns a number for encoding/json. Numbers that JSON lacks, such as NaN,
// become strings.
func JSONFloat(f float64, bits int) any {
	s := strconv.FormatFloat(f, 'g', -1, bits)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return s
	}
	return json.Number(s)
}
