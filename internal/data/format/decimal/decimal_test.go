package decimal

import (
	"math/big"
	"strings"
	"testing"
)

// TestDecimal checks decimals at the borders: no digits before the point, zero, negative scales,
// and the bounds, behind which a decimal is an error and not another number.
func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		n     int64
		scale int
		want  string
	}{
		{0, 0, "0"}, {0, 3, "0.000"}, {0, -3, "0"}, {7, 0, "7"}, {7, 3, "0.007"}, {-7, 1, "-0.7"}, {-1234, 2, "-12.34"},
		{12, -2, "1200"}, {-12, -2, "-1200"},
	} {
		if got, err := Text(big.NewInt(c.n), c.scale); err != nil || got != c.want {
			t.Errorf("%d, scale %d: %q, %v; want %q", c.n, c.scale, got, err, c.want)
		}
	}
	if got, err := OfBytes([]byte{0xff, 0x00}, 2); err != nil || got != "-2.56" {
		t.Errorf("%q, %v", got, err)
	}
	for _, scale := range []int{maxScale + 1, -maxScale - 1} {
		if got, err := Text(big.NewInt(1), scale); err == nil || !strings.Contains(err.Error(), "scale") {
			t.Errorf("scale %d: %.20q, %v", scale, got, err)
		}
	}
	if got, err := OfBytes(make([]byte, maxUnscaled+1), 0); err == nil {
		t.Errorf("a long decimal: %q", got)
	}
}
