package forecast

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched/portable"
)

// belief is a normal distribution of the logarithm of a job's median time.
type belief struct {
	center, variance float64
}

// and combines a belief with an independent one.
func (b belief) and(center, variance float64) belief {
	sum := variance + b.variance
	return belief{(float64(center*b.variance) + float64(b.center*variance)) / sum, variance * b.variance / sum}
}

const (
	// unlike is the share of jobs that resemble no earlier one, and unlikeSpread the standard
	// deviation of their log median around it. Without them attempts that run ten times as long as
	// all earlier ones of the name would count as about to end, because every longer time is out
	// of the question.
	unlike       = 0.05
	unlikeSpread = 1.5
	// beliefParts is the number of parts into which outlived divides a belief.
	beliefParts = 64
	// beliefReach is the distance of the highest part from the center: e to the power of 7 is 1,100 times.
	beliefReach = 7.
)

// outlived corrects the belief by the ages of running attempts in seconds, each of which will
// take longer than that: a censored observation. within is the standard deviation of a task's log
// time around the median. It returns beliefParts differences from the new center that are equally
// likely, in ascending order; or nil if the ages change nothing.
//
// The density of a median m is its density before, times the probability of each age or more,
//
//	S(a) = 1 / (1 + exp(1.702 (log a − m) / within))
//
// which is the logistic distribution that comes closest to the normal one (within 0.01; Johnson,
// Kotz, Balakrishnan, Continuous Univariate Distributions 2, 1995, section 23.2). Its long tail keeps
// one slow attempt of many from deciding.
func (b *belief) outlived(ages []float64, within float64) []float64 {
	sd := math.Sqrt(b.variance)
	news := false
	for i, a := range ages {
		ages[i] = portable.Log(a)
		// An age below nearly all times that are expected anyway is no news.
		news = news || ages[i] > b.center-sd-2*within
	}
	if !news {
		return nil
	}
	// The grid reaches far up and little down: ages can only say that times are longer.
	low := b.center - 4*sd
	step := (b.center + beliefReach - low) / grid
	var weight [grid]float64
	most := math.Inf(-1)
	for i := range weight {
		m := low + float64((float64(i)+0.5)*step)
		w := portable.Log(float64((1-unlike)*density(m-b.center, sd)) + float64(unlike*density(m-b.center, max(sd, unlikeSpread))))
		for _, a := range ages {
			// The logarithm of S above.
			w -= softplus(1.702 * (a - m) / within)
		}
		weight[i], most = w, max(most, w)
	}
	sum, mean := 0., 0.
	for i := range weight {
		// Relative to the greatest, or all would underflow for a hundred ages.
		weight[i] = portable.Exp(weight[i] - most)
		sum += weight[i]
		mean += float64(weight[i] * (low + float64((float64(i)+0.5)*step)))
	}
	mean /= sum
	square, below, offsets := 0., 0., make([]float64, 0, beliefParts)
	for i, w := range weight {
		m := low + float64((float64(i)+0.5)*step) - mean
		square += float64(w * m * m)
		// The part of a quantile inside this step of the grid is taken as even.
		for len(offsets) < beliefParts {
			at := float64((float64(len(offsets)) + 0.5) / beliefParts * sum)
			if at > below+w {
				break
			}
			offsets = append(offsets, m+float64(((at-below)/w-0.5)*step))
		}
		below += w
	}
	b.center, b.variance = mean, square/sum
	return offsets
}

// grid is the number of medians at which outlived evaluates the density.
const grid = 256

// density returns the density of a normal distribution around 0, without the constant factor.
func density(x, sd float64) float64 { return max(1e-300, portable.Exp(-x*x/(2*sd*sd))/sd) }

// softplus returns log(1 + exp(x)), without an overflow.
func softplus(x float64) float64 {
	if x > 30 {
		return x
	}
	return portable.Log(1 + portable.Exp(x))
}

// Again predicts how long something will take in all that took past before, of which there is at
// least one time, and that has lasted for elapsed: the median and the 10th and 90th percentile. A
// chain is predicted so, because the number of its steps is not known before its end.
func Again(past []time.Duration, elapsed time.Duration) (median, early, late time.Duration) {
	log := func(d time.Duration) float64 { return portable.Log(max(minTask, d.Seconds())) }
	n, mean, square := float64(len(past)), 0., 0.
	for _, d := range past {
		mean += log(d) / n
	}
	for _, d := range past {
		square += float64((log(d) - mean) * (log(d) - mean))
	}
	// A prior, because three chains that happened to take equally long are no proof.
	variance := (square + priorWeight*priorSpread[1]*priorSpread[1]) / (n + priorWeight)
	// Of the next one, not of the mean: hence 1 + 1/n.
	b := belief{mean, variance * (1 + 1/n)}
	offsets := b.outlived([]float64{max(minTask, elapsed.Seconds())}, sharp)
	at := func(p float64) time.Duration {
		if offsets == nil { // before the shortest time that is likely
			return seconds(portable.Exp(b.center + float64(apart*(p-0.5)/0.8*math.Sqrt(b.variance))))
		}
		return max(elapsed, seconds(portable.Exp(b.center+quantile(offsets, p))))
	}
	return at(0.5), at(0.1), at(0.9)
}

// sharp is a spread so small that outlived rules out all times below an age.
const sharp = 0.02
