// Package terminal is the terminal interface of programs that run jobs: numbers with
// units, progress lines, a summary of counters, interrupts, and the escaping of text that
// others have chosen. The slotwise command
// shares it with the programs that call mapreduce.Main.
package terminal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes as a flag: 512k, 256MiB, 1.5G. The units k, kB and KiB all
// mean 1024 bytes, as in GNU sort.
type Size int64

// unitLetters lists the units, each 1024 times its predecessor.
const unitLetters = "kmgtp"

// Set implements flag.Value and pflag.Value.
func (z *Size) Set(s string) error {
	n, err := parseSize(s)
	if err == nil {
		*z = Size(n)
	}
	return err
}

// String returns the number in the largest unit that needs no fraction, in a
// form that Set reads.
func (z Size) String() string {
	n, unit := int64(z), ""
	for i := 0; i < len(unitLetters) && n != 0 && n%1024 == 0; i++ {
		n /= 1024
		unit = strings.ToUpper(unitLetters[i:i+1]) + "iB"
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type implements pflag.Value.
func (Size) Type() string { return "size" }

// parseSize parses a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	// Letters and spaces at the end are the unit. The e of an exponent is inside of the digits, as in
	// 1e9.
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(s[len(digits):]))
	shift := 0
	if i := strings.IndexAny(unit, unitLetters); i == 0 {
		shift = 10 * (1 + strings.IndexByte(unitLetters, unit[0]))
		unit = unit[1:]
		if unit == "ib" {
			unit = "b"
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	// ParseFloat also reads hexadecimal numbers.
	if err != nil || (unit != "" && unit != "b") || strings.ContainsAny(digits, "xX_") {
		return 0, fmt.Errorf("%q is not a size; examples: 512k, 256MiB, 2GiB", s)
	}
	bytes := f * float64(int64(1)<<shift)
	switch {
	case math.IsNaN(bytes) || bytes < 0:
		return 0, fmt.Errorf("%q: a size cannot be negative", s)
	case bytes >= math.MaxInt64:
		return 0, fmt.Errorf("%q is too large", s)
	case bytes != math.Trunc(bytes):
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	return int64(bytes), nil
}

// Bytes returns n rounded to about three digits, with a unit.
func Bytes(n int64) string {
	if n < 1024 && n > -1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), -1
	// 1023.5 would be shown as 1024, and 99.95 below as 100.0.
	for math.Abs(f) >= 1023.5 && unit+1 < len(unitLetters) {
		f /= 1024
		unit++
	}
	decimals := 0
	if math.Abs(f) < 99.95 {
		decimals = 1
	}
	return fmt.Sprintf("%.*f %ciB", decimals, f, unitLetters[unit]-'a'+'A')
}

// Count returns n with commas between thousands.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	// The minus sign gets no comma behind it.
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Duration returns d rounded for people: 35 ms, 4.2 s, 2 min 5 s, 3 h 7 min.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	// Rounded first: 59 min 59.6 s would be shown as 60 min 0 s.
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// Plural returns "1 thing" or "n things".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
