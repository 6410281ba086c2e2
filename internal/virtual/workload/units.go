package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the suffixes of sizes. A suffix that ends with another one stands
// before it.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
	{"B", 1}, {"", 1},
}

// maxBytes bounds sizes to an exbibyte, so that sums of a few cannot overflow.
const maxBytes = 1 << 60

// ParseBytes reads a size: 64MiB, 10GB (a power of ten), 1.5GiB, 4096.
func ParseBytes(text string) (int64, error) {
	v, err := parseUnit(text)
	if err != nil {
		return 0, err
	}
	return int64(math.Round(v)), nil
}

// ParseRate reads bytes a second: 100MB/s, 1Gbit/s, 1e8. The "/s" is optional.
func ParseRate(text string) (float64, error) {
	return parseUnit(strings.TrimSuffix(strings.TrimSpace(text), "/s"))
}

// parseBinaryBytes reads the size of a split in the way of the --split-size
// flag: k, kB and KiB all mean 1024 bytes, and so on up to P.
func parseBinaryBytes(text string) (int64, error) {
	number := strings.TrimRight(strings.TrimSpace(text), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(strings.TrimSpace(text)[len(number):]))
	if unit != "" && strings.Contains("kmgtp", unit[:1]) {
		rest := strings.TrimPrefix(unit[1:], "i")
		unit = strings.ToUpper(unit[:1]) + "iB"
		// "?" is no unit, so ParseBytes rejects it: 5mib is a size, 5mi2 is not.
		if rest != "" && rest != "b" {
			unit = "?"
		}
	}
	b, err := ParseBytes(number + strings.ToUpper(unit[:min(1, len(unit))]) + unit[min(1, len(unit)):])
	if err != nil {
		return 0, fmt.Errorf("%q is not a size such as 512k, 64MiB or 2GiB", text)
	}
	return b, nil
}

// parseUnit reads a number with one of the units.
func parseUnit(text string) (float64, error) {
	text = strings.TrimSpace(text)
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a size such as 64MiB or 10GB", text)
		}
		v = float64(v * u.bytes)
		if !(v >= 0 && v <= maxBytes) {
			return 0, fmt.Errorf("%q is not a size from 0 to 1024PiB", text)
		}
		return v, nil
	}
	return 0, nil // the last unit fits everything
}

// maxTime bounds durations and times of submission to ten years, so that sums
// cannot overflow.
const maxTime = 10 * 365 * 24 * time.Hour

// parseTime reads a duration: 1h2m3.5s, or a number of seconds.
func parseTime(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(v)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time such as 90s or 1h30m", text)
	}
	return d, checkTime(d)
}

// seconds makes a duration of a number of seconds, to the nearest nanosecond.
func seconds(v float64) (time.Duration, error) {
	if !(v >= 0 && v <= maxTime.Seconds()) {
		return 0, fmt.Errorf("%g s is not a time from 0 to 10 years", v)
	}
	// Rounded: 2.01 s is 2009999999.9999998 ns as a float, and must equal 2010ms.
	return time.Duration(math.Round(v * 1e9)), nil
}

// checkTime returns an error for a time that is negative or longer than maxTime.
func checkTime(d time.Duration) error {
	if d < 0 || d > maxTime {
		return fmt.Errorf("%v is not a time from 0 to 10 years", d)
	}
	return nil
}
