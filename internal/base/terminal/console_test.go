package terminal

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1, "512": 512, "512b": 512, "512B": 512,
		"1k": 1024, "1K": 1024, "1kB": 1024, "1KiB": 1024, "512k": 512 << 10,
		"256MiB": 256 << 20, "2GiB": 2 << 30, "2g": 2 << 30, "1.5G": 3 << 29,
		"1 MiB": 1 << 20, "3T": 3 << 40, "1PiB": 1 << 50, "8191PiB": 8191 << 50,
	} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "k", "MiB", "-1", "-1k", "1x", "1kk", "1iB", "1 2", "0x10", "1_000", "NaN", "inf", "1e", "8192PiB", "1e30", "0.3", "1.0001k", "12q",
	} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q is taken for %d", s, got)
		}
	}
}

// Set must parse the result of String to the same size.
func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Beyond 2^53 a float64 cannot represent every number of bytes.
		n := rapid.Int64Range(0, 1<<53).Draw(t, "n")
		shift := rapid.IntRange(0, 40).Draw(t, "shift")
		z := Size(n >> shift << shift)
		var got Size
		if err := got.Set(z.String()); err != nil || got != z {
			t.Fatalf("%d prints as %s and is read as %d (%v)", int64(z), z, int64(got), err)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 102_400: "100 KiB", 1_023_999: "1000 KiB",
		1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 1 << 30: "1.0 GiB", 1100 << 30: "1.1 TiB",
		-2048: "-2.0 KiB", math.MaxInt64: "8192 PiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567",
		-999: "-999", -1000: "-1,000", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 35 * time.Millisecond: "35 ms", 999 * time.Millisecond: "999 ms",
		time.Second: "1.0 s", 4200 * time.Millisecond: "4.2 s", 99 * time.Second: "99.0 s",
		125 * time.Second: "2 min 5 s", 3*time.Hour + 7*time.Minute: "3 h 7 min",
		25*time.Hour - time.Second: "25 h 0 min", -time.Second: "-1.0 s",
		time.Hour - 400*time.Millisecond: "1 h 0 min", time.Hour - 600*time.Millisecond: "59 min 59 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	var b strings.Builder
	Summary(&b, &Outcome{
		Job: "j", State: "succeeded", Took: 2 * time.Second, Maps: 1, Reduces: 3,
		Counters: map[string]int64{
			"reduce.output_records": 7, "map.input_bytes": 1 << 20, "map.cpu_ms": 1500,
			"map.input_records": 1234567, "map.something_new": 1,
		},
		User: map[string]int64{"bad lines": 3, "a": 1000},
	})
	want := `j: succeeded in 2.0 s; 1 map, 3 reduces
  map
    input records   1,234,567
    input bytes       1.0 MiB
    cpu time            1.5 s
    something new           1
  reduce
    output records          7
  job's own
    a                   1,000
    bad lines               3
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
