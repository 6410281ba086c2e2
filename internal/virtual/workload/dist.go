package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/sched/portable"
)

// Shape is a kind of distribution.
type Shape uint8

// The shapes. The zero Dist is Unset.
const (
	Unset       Shape = iota
	Constant          // always A
	Uniform           // from A to B
	Normal            // mean A, standard deviation B; negative draws are drawn again
	LogNormal         // mean A, standard deviation B, of the value and not of its logarithm
	Exponential       // mean A
	Table             // one of Values, each as likely
)

// Dist is a distribution of times (in seconds), sizes (in bytes) or counts. It
// never yields a negative value.
type Dist struct {
	Shape  Shape
	A, B   float64
	Values []float64
}

// Fixed returns the distribution that always yields v.
func Fixed(v float64) Dist { return Dist{Shape: Constant, A: v} }

// LogNormalCV2 returns the log-normal distribution with a mean and a squared
// coefficient of variation (variance over squared mean).
func LogNormalCV2(mean, cv2 float64) Dist {
	return Dist{Shape: LogNormal, A: mean, B: float64(mean * math.Sqrt(cv2))}
}

// Draw draws a value.
func (d *Dist) Draw(g *rand.Rand) float64 {
	switch d.Shape {
	case Constant:
		return d.A
	case Uniform:
		// The conversion forbids fused multiply-add, which some processors have: draws have the same bits
		// everywhere.
		return d.A + float64((d.B-d.A)*g.Float64())
	case Normal:
		// The mean is at least 0, so a draw is negative in at most half of the cases, and 64 in a row do not
		// happen. The bound makes the loop end whatever the generator returns.
		for range 64 {
			if v := d.A + float64(d.B*portable.Normal(g)); v >= 0 {
				return v
			}
		}
		return d.A // the mean is not negative
	case LogNormal:
		// ln 0, and 0/0 below. A deviation of 0 is a constant.
		if d.A == 0 || d.B == 0 {
			return d.A
		}
		// With variance s² and mean m: σ² = ln(1 + s²/m²), μ = ln m − σ²/2.
		ratio := d.B / d.A
		s2 := portable.Log1p(float64(ratio * ratio))
		return portable.Exp(portable.Log(d.A) - s2/2 + float64(math.Sqrt(s2)*portable.Normal(g)))
	case Exponential:
		return d.A * portable.Exponential(g)
	case Table:
		return d.Values[g.IntN(len(d.Values))]
	}
	return 0
}

// Mean returns the mean of the distribution. For Normal it ignores that
// negative draws are repeated.
func (d *Dist) Mean() float64 {
	switch d.Shape {
	case Uniform:
		return (d.A + d.B) / 2
	case Table:
		sum := 0.
		for _, v := range d.Values {
			sum += v
		}
		return sum / float64(len(d.Values))
	}
	return d.A
}

// check returns an error in a distribution that was made in code.
func (d *Dist) check() error {
	for _, v := range append([]float64{d.A, d.B}, d.Values...) {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return fmt.Errorf("%g, must be a number of at least 0", v)
		}
	}
	switch {
	case d.Shape > Table:
		return fmt.Errorf("unknown shape %d", d.Shape)
	case d.Shape == Uniform && d.A > d.B:
		return fmt.Errorf("from %g to %g is empty", d.A, d.B)
	case d.Shape == LogNormal && d.A == 0 && d.B > 0:
		return errors.New("a log-normal mean must be above 0")
	case d.Shape == Table && len(d.Values) == 0:
		return errors.New("an empty table")
	}
	return nil
}

// shapes are the names of the shapes in a file.
var shapes = []string{"constant", "uniform", "normal", "lognormal", "exponential", "table"}

// dist reads a distribution; parse reads its numbers. It returns the unset
// distribution if the key is absent.
func (o *object) dist(key string, parse func(string) (float64, error)) Dist {
	n := o.get(key)
	if n == nil {
		return Dist{}
	}
	what := o.what + ": " + key
	if n.Kind == yaml.ScalarNode {
		return Dist{Shape: Constant, A: scalar(o.r, n, what, parse)}
	}
	in := o.r.object(n, what)
	if in == nil {
		return Dist{}
	}
	if len(n.Content) != 2 || !slices.Contains(shapes, n.Content[0].Value) {
		o.r.fail(n, "%s: should be a value or one of %q with its numbers", what, shapes)
		return Dist{}
	}
	name := n.Content[0].Value
	d := in.shape(name, parse)
	if err := d.check(); err != nil {
		o.r.fail(n, "%s: %s", what, err)
	}
	return d
}

// shape reads the numbers of a distribution.
func (o *object) shape(name string, parse func(string) (float64, error)) Dist {
	what := o.what + ": " + name
	switch name {
	case "constant":
		return Dist{Shape: Constant, A: field(o, name, 0, parse)}
	case "exponential":
		return Dist{Shape: Exponential, A: field(o, name, 0, parse)}
	case "uniform", "table":
		var values []float64
		n := o.get(name)
		for _, c := range o.r.list(n, what) {
			values = append(values, scalar(o.r, c, what, parse))
		}
		if name == "table" {
			return Dist{Shape: Table, Values: values}
		}
		if len(values) != 2 {
			o.r.fail(n, "%s: should be [least, most]", what)
			return Dist{}
		}
		return Dist{Shape: Uniform, A: values[0], B: values[1]}
	}
	return o.bell(name, what, parse)
}

// bell reads the mean and the spread of a normal or log-normal distribution.
func (o *object) bell(name, what string, parse func(string) (float64, error)) Dist {
	in := o.r.object(o.get(name), what)
	if in == nil {
		return Dist{}
	}
	d := Dist{Shape: Normal, A: field(in, "mean", 0, parse), B: field(in, "sd", 0, parse)}
	if name == "lognormal" {
		d.Shape = LogNormal
	}
	cv2 := field(in, "cv2", 0, number(0, 1e6))
	in.end()
	_, hasMean := in.value["mean"]
	_, hasSD := in.value["sd"]
	_, hasCV := in.value["cv2"]
	switch {
	case !hasMean || hasSD == hasCV:
		o.r.fail(in.node, "%s: should have mean and either sd or cv2 (variance over squared mean)", what)
	case hasCV:
		d.B = float64(d.A * math.Sqrt(cv2))
	}
	return d
}

// timeValue parses a time, in seconds.
func timeValue(s string) (float64, error) {
	d, err := parseTime(s)
	return d.Seconds(), err
}

// byteValue parses a size, in bytes.
func byteValue(s string) (float64, error) {
	b, err := ParseBytes(s)
	return float64(b), err
}

// countValue parses a number of tasks.
var countValue = number(0, MaxTasks)
