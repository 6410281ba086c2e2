package forecast

import (
	"math"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// history holds the jobs whose task times predict the times of other jobs, and the measured
// errors of such predictions.
type history struct {
	donors []donor
	byName map[string][]int // indices of donors by each of their stems, ascending
	nodes  nodeFactors
	// overlap is the fraction of a reduce's time that may overlap with the maps on this cluster.
	overlap overlap
	// workAlone is as in Config.
	workAlone bool
	shape     [job.Kinds][]float64 // as model.shape
	within    [job.Kinds]float64   // standard deviation of a task's log time in its job
	rules     [job.Kinds][2]rule   // the best rule for jobs without and with peers of their name
	// byStem holds, by the stem that jobs have in common with their peers, how such jobs differ.
	byStem [job.Kinds]map[string]*squares
}

// squares holds, by measure, the sum of the squared errors of predictions as the variance of one peer around a job,
// and their number.
type squares struct {
	sum   [measures]float64
	count [measures]int
}

// variance returns the variance of a measure, in which a prior counts as priorWeight predictions.
func (q *squares) variance(by measure, prior float64) float64 {
	if q == nil {
		return prior
	}
	return (max(0, q.sum[by]) + float64(priorWeight*prior)) / float64(q.count[by]+priorWeight)
}

// donor is a job whose times other jobs may use.
type donor struct {
	id    job.ID
	stems []string
	times *Times
	tasks [job.Kinds]int
	even  [job.Kinds][]float64 // times by kind as on an average node, sorted
	log   [job.Kinds]float64   // logarithm of their median, if there are any
	// mapsDoubt is the variance of log[job.Map]. It is 0 for a job of the history.
	mapsDoubt float64
}

// rule predicts a job's median time as its measure times a factor. The factor is the
// geometric mean, over the job's peers, of median time divided by measure.
type rule struct {
	by       measure
	variance float64 // of one peer around a job, of logarithms
}

// measure is a quantity of a job to which its times may be proportional.
type measure uint8

const (
	byNothing measure = iota
	bySplit           // mean size of a split
	byMaps            // median time of a map
	byWork            // time of all maps, divided by the number of reduces
	measures
)

// priorSpread is the assumed standard deviation of one job's log median around another's,
// without and with a name in common. It counts as much as priorWeight predictions.
var priorSpread = [2]float64{0.5, 0.25}

const (
	priorWeight  = 4
	leastRule    = 4 // predictions from which on a measure other than byNothing is judged
	mostJudged   = 200
	withinSpread = 0.35 // of tasks in a job, until there are enough times
)

// newHistory reads the ended jobs of a state, and the live ones that have finished tasks.
func newHistory(s *State) *history {
	h := &history{byName: map[string][]int{}}
	add := func(id job.ID, name string, t *Times, tasks [job.Kinds]int) {
		h.donors = append(h.donors, donor{id: id, stems: stems(name), times: t, tasks: tasks})
	}
	for i := range s.Past {
		p := &s.Past[i]
		add(p.ID, p.Name, &p.Times, [job.Kinds]int{p.Maps, p.Spec.Reduces})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		// A live job with finished tasks helps other jobs, too. It comes last, because donors are
		// in order of age.
		if len(j.Times.Seconds[job.Map])+len(j.Times.Seconds[job.Reduce]) > 0 {
			add(j.ID, j.Spec.Name, &j.Times, [job.Kinds]int{len(j.Done[job.Map]), len(j.Done[job.Reduce])})
		}
	}
	// In this order: the overlap makes reduces comparable, which node factors need, which even times need,
	// which the rules are judged by.
	h.overlap = overlapOf(h.donors)
	h.nodes = newNodeFactors(h.donors, h.overlap)
	for i := range h.donors {
		d := &h.donors[i]
		for k := range job.Kind(job.Kinds) {
			// Corrected to an average node, so that a job that ran on slow nodes does not predict
			// slow tasks everywhere.
			if d.even[k] = h.even(d.times, k); len(d.even[k]) > 0 {
				d.log[k] = portable.Log(max(minTask, middle(d.even[k])))
			}
		}
		for _, stem := range d.stems {
			// A name has several stems, so a donor is in several lists: the longest common stem decides
			// later.
			h.byName[stem] = append(h.byName[stem], i)
		}
	}
	for k := range job.Kind(job.Kinds) {
		h.shape[k], h.within[k] = h.shapeOf(k)
		h.judge(k)
	}
	return h
}

// stems returns a job's name, then the name without its last number, without its last two,
// and so on: nightly-2026-04-12 has the stems nightly-2026-04, nightly-2026 and nightly.
func stems(name string) []string {
	list := []string{name}
	for len(list) <= mostStems {
		cut := strings.TrimRight(name, "0123456789")
		if cut == name {
			break
		}
		// T separates date and time in ISO 8601.
		cut = strings.TrimRight(cut, "-_.:/ T")
		if cut == "" {
			break
		}
		list = append(list, cut)
		name = cut
	}
	return list
}

const mostStems = 6

// shapeOf returns how the times of tasks differ from the median of their job, and the
// standard deviation of the logarithm.
func (h *history) shapeOf(k job.Kind) (all []float64, spread float64) {
	square := 0.
	for i := max(0, len(h.donors)-maxDonors); i < len(h.donors); i++ {
		if v := h.donors[i].even[k]; len(v) >= enoughOwn {
			center := max(minTask, middle(v))
			// Values are closer to their own center than to the job's true one, which counts where a job has four
			// reduces (Bessel's correction).
			wider := math.Sqrt(float64(len(v)) / float64(len(v)-1))
			for _, x := range v {
				l := float64(wider * portable.Log(max(minTask, x/center)))
				all = append(all, portable.Exp(l))
				square += float64(l * l)
			}
		}
	}
	slices.Sort(all)
	const weight = 10
	return all, math.Sqrt((square + weight*withinSpread*withinSpread) / (float64(len(all)) + weight))
}

// judge chooses the rules of a kind. It predicts each donor's median time from the donors
// before it by each measure, and takes the measure with the smallest mean square error.
func (h *history) judge(k job.Kind) {
	var all [2]squares
	h.byStem[k] = map[string]*squares{}
	// Only earlier donors predict: in use, later runs are not known either.
	for i := max(1, len(h.donors)-mostJudged); i < len(h.donors); i++ {
		d := &h.donors[i]
		if len(d.even[k]) == 0 {
			continue
		}
		for named := range 2 {
			peers, stem := h.peers(d.stems, d.id, i, k, named == 1)
			list := []*squares{&all[named]}
			if stem != "" {
				if h.byStem[k][stem] == nil {
					h.byStem[k][stem] = &squares{}
				}
				list = append(list, h.byStem[k][stem])
			}
			for by := range measures {
				if center, n, luck := h.mean(peers, k, by); n > 0 {
					if x, ok := d.measure(by, k); ok {
						off := d.log[k] - center - x
						// What the medians of few tasks differ by luck is no difference of the jobs: futures draw
						// each task's luck, and would else count it twice. The mean of n peers has itself a
						// variance of one n-th. The factor n/(n+1) leaves the variance of a single peer.
						square := (float64(off*off) - luck - h.luck(d, k)) * float64(n) / float64(n+1)
						for _, q := range list {
							q.sum[by] += square
							q.count[by]++
						}
					}
				}
			}
		}
	}
	for named := range 2 {
		best := rule{variance: math.Inf(1)}
		for by := range measures {
			// A measure that was known for few jobs may win by chance.
			count := &all[named].count
			if by != byNothing && (count[by] < leastRule || 2*count[by] < count[byNothing]) {
				continue
			}
			// Strictly smaller, and byNothing first: another measure must earn its place.
			if v := all[named].variance(by, float64(priorSpread[named]*priorSpread[named])); v < best.variance {
				best = rule{by, v}
			}
		}
		h.rules[k][named] = best
	}
}

// peers returns the donors before one index, except one job, that a job resembles most: those
// with its longest stem that others have, or all. The latest come first. It also returns that stem, if any.
func (h *history) peers(stems []string, self job.ID, before int, k job.Kind, named bool) (list []int, stem string) {
	if !named {
		for i := before - 1; i >= 0 && len(list) < maxDonors; i-- {
			if len(h.donors[i].even[k]) > 0 && h.donors[i].id != self {
				list = append(list, i)
			}
		}
		return list, ""
	}
	for _, stem = range stems {
		same := h.byName[stem]
		for i := len(same) - 1; i >= 0 && len(list) < maxRuns; i-- {
			if d := &h.donors[same[i]]; same[i] < before && len(d.even[k]) > 0 && d.id != self {
				list = append(list, same[i])
			}
		}
		if len(list) > 0 {
			return list, stem
		}
	}
	return nil, ""
}

// mean returns the logarithm of a rule's factor, the number of peers whose measure is known and on which the factor
// therefore rests, and the variance of the factor that comes from the luck of the peers' tasks.
func (h *history) mean(peers []int, k job.Kind, by measure) (center float64, n int, luck float64) {
	for _, i := range peers {
		if x, ok := h.donors[i].measure(by, k); ok {
			center += h.donors[i].log[k] - x
			luck += h.luck(&h.donors[i], k)
			n++
		}
	}
	of := float64(max(1, n))
	// The luck of independent peers averages out: a mean of n has a variance of one n-th.
	return center / of, n, luck / (of * of)
}

// luck returns the variance of a job's log median that comes from the times of its finished tasks.
func (h *history) luck(d *donor, k job.Kind) float64 {
	return float64(h.within[k]*h.within[k]) / float64(max(1, len(d.even[k])))
}

// measure returns the logarithm of a measure of a job for the times of a kind.
func (d *donor) measure(by measure, k job.Kind) (float64, bool) {
	maps := k == job.Reduce && len(d.even[job.Map]) > 0 && d.tasks[job.Reduce] > 0
	switch {
	case by == byNothing:
		return 0, true
	case by == bySplit && k == job.Map && d.times.SplitBytes > 0:
		return portable.Log(d.times.SplitBytes), true
	case by == byMaps && maps:
		return d.log[job.Map], true
	case by == byWork && maps:
		return d.log[job.Map] + portable.Log(float64(d.tasks[job.Map])/float64(d.tasks[job.Reduce])), true
	}
	return 0, false
}

// prediction is a job's median time of tasks, estimated from other jobs.
type prediction struct {
	peers    []int // none if there is nothing to go by
	named    bool  // the peers have a stem of the job's name
	center   float64
	variance float64 // of center, the logarithm of the median time
}

// predict asks the jobs of the same name and all jobs, each by its best rule, and returns the
// prediction with the smaller variance.
func (h *history) predict(d *donor, k job.Kind) (best prediction) {
	best.variance = math.Inf(1)
	for _, named := range []bool{true, false} {
		peers, stem := h.peers(d.stems, d.id, len(h.donors), k, named)
		p := prediction{peers: peers, named: named}
		r := h.rules[k][0]
		if named {
			r = h.rules[k][1]
		}
		// The best rule, or none if this job or its peers lack the measure.
		for _, by := range []measure{r.by, byNothing} {
			x, known := d.measure(by, k)
			if center, n, luck := h.mean(p.peers, k, by); known && n > 0 {
				// Runs of some names take the same times, and other names are used for many sorts of jobs.
				p.center, p.variance = center+x, float64(h.byStem[k][stem].variance(by, r.variance)*(1+1/float64(n)))+luck
				if by == byMaps || by == byWork {
					// A reduce's time that follows from the maps' is at least as uncertain as theirs.
					p.variance += d.mapsDoubt
				}
				break
			}
		}
		if len(p.peers) > 0 && p.variance < best.variance {
			best = p
		}
	}
	return best
}
