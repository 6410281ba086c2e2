package svg

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// Scale maps the values Low to High to the positions From to To. Values outside are moved
// to the nearer end, so that no mark leaves the plotting area.
type Scale struct {
	Low, High, From, To float64
	// Log makes equal ratios equally long. Low must be positive.
	Log bool
}

// At returns the position of a value. NaN, and any value of a scale without a range, is at From.
func (s Scale) At(v float64) float64 {
	if math.IsNaN(v) || !(s.High > s.Low) || s.Log && s.Low <= 0 {
		return s.From
	}
	low, high := s.Low, s.High
	v = min(max(v, low), high)
	if s.Log {
		v, low, high = logarithm(v), logarithm(low), logarithm(high)
	}
	// Halves, because the difference of two large numbers may overflow.
	part := (v/2 - low/2) / (high/2 - low/2)
	if !(part >= 0) { // the range is too small for its half
		return s.From
	}
	return s.From + float64((s.To-s.From)*part)
}

// logarithm returns the natural logarithm of a positive number, to about 15 digits.
// math.Log differs in its last bit between processors, and then figures would.
func logarithm(x float64) float64 {
	if math.IsInf(x, 1) {
		x = math.MaxFloat64
	}
	fraction, exponent := math.Frexp(x)
	// ln(f) = 2 artanh(z) with z = (f-1)/(f+1), which is between -1/3 and 0. The conversions
	// keep the compiler from fusing a product with a sum.
	z := (fraction - 1) / (fraction + 1)
	square, sum := float64(z*z), 0.
	// At |z| = 1/3 the first term that is left out is 3^-37/37, below the last bit.
	for k := 35; k >= 1; k -= 2 {
		sum = 1/float64(k) + float64(square*sum)
	}
	return float64(float64(exponent)*math.Ln2) + float64(2*z*sum)
}

// Tick labels a value of an axis. Label is "" for a tick without a label.
type Tick struct {
	At    float64
	Label string
}

// decade returns the largest power of ten that is not above a positive number.
func decade(x float64) float64 {
	text := strconv.FormatFloat(x, 'e', -1, 64)
	for i := range text {
		if text[i] == 'e' {
			power, err := strconv.ParseFloat("1"+text[i:], 64)
			if err == nil && power > 0 {
				return power
			}
		}
	}
	return 1
}

// Steps returns the multiples of 1, 2 or 5 times a power of ten that are between low and
// high: as many as fit, about n. Without a range it returns low alone, and nothing if low or
// high is no number.
func Steps(low, high float64, n int) []float64 {
	span := high - low
	switch {
	case math.IsNaN(span) || math.IsInf(low, 0) || math.IsInf(high, 0):
		return nil
	case math.IsInf(span, 0):
		return []float64{low, 0, high}
	case span <= 0:
		return []float64{low}
	}
	// The power of ten below the wanted distance; 2, 5 or 10 times this unit then give at most n steps.
	unit := decade(span / float64(n))
	factors := []float64{0.5, 1, 2, 5, 10}
	i := 1
	for i < len(factors)-1 && span/float64(factors[i]*unit) > float64(n) {
		i++
	}
	list := multiples(low, high, factors[i]*unit)
	if len(list) < 2 { // few multiples fit, and the range may lie between two
		list = multiples(low, high, factors[i-1]*unit)
	}
	if len(list) == 0 {
		return []float64{low}
	}
	return list
}

// multiples returns the multiples of step from low to high, which must be few.
func multiples(low, high, step float64) (list []float64) {
	// The margin keeps a multiple that lies at low but for a rounding error.
	first := math.Ceil(low/step - 1e-9)
	// The bound ends the loop where step is lost in a large v.
	for k := range 20 {
		v := rounded(float64((first + float64(k)) * step))
		if v > high && v-high > step/1e6 {
			break
		}
		// Far from zero, neighbours may be closer than floating-point numbers are. The first
		// and last may be beyond the range by a rounding error.
		if v = min(max(v, low), high); len(list) == 0 || v > list[len(list)-1] {
			list = append(list, v)
		}
	}
	return list
}

// rounded removes the error of a few products and sums: it keeps 12 digits.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return v
	}
	return r + 0 // no -0
}

// label formats a tick's value.
func label(v float64) string {
	if a := math.Abs(v); a >= 1e9 || a != 0 && a < 1e-6 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(rounded(v), 'f', -1, 64)
}

// Ticks returns the labelled Steps of a range.
func Ticks(low, high float64, n int) []Tick {
	var ticks []Tick
	for _, v := range Steps(low, high, n) {
		ticks = append(ticks, Tick{v, label(v)})
	}
	return ticks
}

// WholeTicks returns Ticks without those at fractions.
func WholeTicks(low, high float64, n int) []Tick {
	return slices.DeleteFunc(Ticks(low, high, n), func(t Tick) bool { return t.At != math.Trunc(t.At) })
}

// LogTicks returns ticks for a logarithmic axis from low, which is positive, to high: at 1, 2
// and 5 times the powers of ten if these are not many more than n, at powers alone if the range is
// larger, and at Steps if it is smaller.
func LogTicks(low, high float64, n int) []Tick {
	if !(low > 0) || math.IsInf(high, 0) || !(high > low) {
		return nil
	}
	decades := (logarithm(high) - logarithm(low)) / math.Ln10
	factors, every := []float64{1, 2, 5}, 1
	if 2*decades > float64(n) {
		factors, every = factors[:1], 1+int(decades)/n
	}
	var ticks []Tick
	count := 0
	// Ten times a power may be rounded to a number just below the next one.
	for p := decade(low); p <= high && p > 0; p = decade(p * 10.5) {
		for _, m := range factors {
			if v := rounded(m * p); v >= low && v <= high && count%every == 0 {
				ticks = append(ticks, Tick{v, label(v)})
			}
		}
		if count++; p > math.MaxFloat64/11 {
			break
		}
	}
	// Less than a decade: 1, 2 and 5 leave the axis nearly without labels.
	if len(ticks) < 3 {
		return Ticks(low, high, n)
	}
	return ticks
}

// Unit returns a readable unit for times up to a number of seconds, and its length in seconds.
func Unit(seconds float64) (name string, length float64) {
	switch {
	case seconds > 3*3600:
		return "h", 3600
	case seconds > 10*60:
		return "min", 60
	}
	return "s", 1
}

// SecondsTicks returns ticks for an axis of seconds, labelled in the Unit of high.
func SecondsTicks(low, high float64, n int) []Tick {
	_, unit := Unit(high)
	ticks := Ticks(low/unit, high/unit, n)
	for i := range ticks {
		ticks[i].At = min(max(float64(ticks[i].At*unit), low), high)
	}
	return ticks
}

// clockSteps are the distances of ticks on an axis of moments, up to a day. Longer ones are
// doubled.
var clockSteps = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour}

// ClockTicks returns at most eight ticks for an axis of moments in ms since the Unix epoch,
// labelled with the time of day in loc, and with the date if they are days apart.
func ClockTicks(from, to int64, loc *time.Location) []Tick {
	const most = 8
	span := to - from
	if span <= 0 { // no range, or one that overflows
		return nil
	}
	step := int64(0)
	for _, s := range clockSteps {
		if step = s.Milliseconds(); span/step <= most {
			break
		}
	}
	for span/step > most {
		step *= 2
	}
	layout := "15:04:05"
	if step >= time.Minute.Milliseconds() {
		layout = "15:04"
	}
	if step >= 12*time.Hour.Milliseconds() {
		layout = "01-02 15:04"
	}
	var ticks []Tick
	// Also from a negative moment the first tick is after it. A sum that overflows ends the loop.
	for t := from - ((from%step)+step)%step + step; t <= to && t > from; t += step {
		ticks = append(ticks, Tick{float64(t), time.UnixMilli(t).In(loc).Format(layout)})
	}
	return ticks
}
