package generate

import (
	"fmt"
	"math"
	"strconv"
)

// trackerWorld is the simulated state that the monitor observes. It is
// read-only once made.
//
// Sizes are floating point until a sample truncates them to whole numbers.
// Machines may differ in the last bit of a float, which reaches the logs once
// in some 10^12 samples.
type trackerWorld struct {
	swarms   []swarm
	trackers []tracker
	noise    stream // of one scrape: its time-outs and its repeated peers
	outages  stream // of one tracker and day
}

// swarm is a position in the ranking. A file holds it for swarmCycle hours and
// is then replaced by the next file, with another infohash. The swarm grows to
// its peak size within half a day of its birth, and halves every halfLife hours
// after that.
type swarm struct {
	hash     []byte // of all its files, up to the last eight digits
	salt     uint32 // the last digits of the first file
	born     int64  // hour at which the first file came, -swarmCycle to -1
	halfLife float64
	peers    float64
}

// tracker is one tracker with the swarms it knows.
type tracker struct {
	name     []byte
	timezone float64 // hours by which its day is late
	known    []membership
}

// membership is a swarm on a tracker, with the share of the peers it sees.
type membership struct {
	swarm int32
	share float32
}

// The shape of the world.
const (
	biggestSwarm  = 20_000 // peers of the first swarm at its best
	swarmExponent = 0.85   // of Zipf's law of sizes
	trackerSkew   = 2.5    // how much the first trackers are preferred
	swarmCycle    = 15 * 24
	farewell      = 0.5 // peers below which a swarm is dead
)

func newTrackerWorld(trackers, swarms int, seed uint64) *trackerWorld {
	w := &trackerWorld{
		swarms:   make([]swarm, swarms),
		trackers: make([]tracker, trackers),
		noise:    newStream(seed, "scrapes"),
		outages:  newStream(seed, "outages"),
	}
	places := newStream(seed, "trackers")
	for i := range w.trackers {
		r := places.at(int64(i))
		w.trackers[i].name = fmt.Appendf(nil, "tracker%03d.example:%d", i, 6969+r.between(0, 9)*100)
		w.trackers[i].timezone = 24 * r.unit()
	}
	births := newStream(seed, "swarms")
	for i := range w.swarms {
		r := births.at(int64(i))
		w.swarms[i] = newSwarm(&r, i)
		w.register(&r, int32(i))
	}
	return w
}

// newSwarm makes the swarm of a rank: Zipf's law with some noise.
func newSwarm(r *rng, rank int) swarm {
	return swarm{
		hash:     fmt.Appendf(nil, "%016x%016x", r.next(), r.next()),
		salt:     1<<31 | uint32(r.below(1<<30)), // eight digits, with room to count
		born:     r.between(-swarmCycle, -1),
		halfLife: 6 + 90*r.unit()*r.unit(),
		peers:    biggestSwarm * (0.5 + r.unit()) / math.Pow(float64(rank+1), swarmExponent),
	}
}

// register puts a swarm on one tracker or, with falling probability, on more.
func (w *trackerWorld) register(r *rng, s int32) {
	for {
		t := &w.trackers[int(float64(len(w.trackers))*math.Pow(r.unit(), trackerSkew))]
		// Swarms are registered in order, so a repeated draw of the same tracker finds this swarm last.
		if n := len(t.known); n == 0 || t.known[n-1].swarm != s {
			t.known = append(t.known, membership{swarm: s, share: float32(0.2 + 0.8*r.unit())})
		}
		if r.unit() < 0.45 {
			return
		}
	}
}

// file returns which of a swarm's files is current at an hour and the hours
// since it came.
func (s *swarm) file(hour int64) (number uint32, age float64) {
	since := hour - s.born
	return uint32(since / swarmCycle), float64(since % swarmCycle)
}

// size returns how many peers a swarm has, before day and night.
func (s *swarm) size(age float64) float64 {
	return s.peers * min(1, (age+1)/12) * math.Exp2(-max(0, age-12)/s.halfLife)
}

// loaded returns how often a file was loaded so far: a tenth of the peers each
// hour, as the integral of size without its rise. It never falls.
func (s *swarm) loaded(age float64) float64 {
	return 0.1 * s.peers * s.halfLife / math.Ln2 * (1 - math.Exp2(-age/s.halfLife))
}

// hour appends one hour of logs. Trackers are scraped one after the other.
func (w *trackerWorld) hour(hour int64, out []byte) []byte {
	for i := range w.trackers {
		// A generator for each hour and tracker: hours are made on several cores, in any order.
		r := w.noise.at(hour*int64(len(w.trackers)) + int64(i))
		second := trackerEpoch + hour*3600 + int64(i)*3500/int64(len(w.trackers))
		reason := ""
		switch {
		case w.isDown(i, hour):
			reason = "connection refused"
		case r.below(100) == 0:
			reason = "timed out"
		}
		if reason != "" {
			out = w.trackers[i].line(out, second)
			out = append(append(out, "-\t"...), reason...)
			out = append(out, '\n')
			continue
		}
		out = w.scrape(&w.trackers[i], &r, hour, second, out)
	}
	return out
}

// isDown reports whether a tracker is out of order: one day in twelve it is,
// for one to twelve hours.
func (w *trackerWorld) isDown(tracker int, hour int64) bool {
	// By the day: all hours of one day draw the same outage.
	r := w.outages.at(hour/24*int64(len(w.trackers)) + int64(tracker))
	if r.below(12) != 0 {
		return false
	}
	start := r.between(0, 23)
	return hour%24 >= start && hour%24 < start+r.between(1, 12)
}

// scrape appends a line for each swarm of a tracker that is not dead; one in
// fifty is seen again after 20 seconds, when it has changed a little.
func (w *trackerWorld) scrape(t *tracker, r *rng, hour, second int64, out []byte) []byte {
	local := float64(hour) - t.timezone
	daylight := 1 + 0.35*math.Sin(2*math.Pi*local/24)
	for _, m := range t.known {
		s := &w.swarms[m.swarm]
		number, age := s.file(hour)
		peers := s.size(age) * float64(m.share) * daylight
		if peers < farewell {
			continue
		}
		loaded := int64(float64(m.share) * s.loaded(age))
		out = t.sample(out, r, s, number, second, peers, loaded)
		if r.below(50) == 0 {
			out = t.sample(out, r, s, number, second+20, peers, loaded)
		}
	}
	return out
}

// sample appends what a tracker says of one file.
func (t *tracker) sample(out []byte, r *rng, s *swarm, number uint32, second int64, peers float64, loaded int64) []byte {
	out = append(t.line(out, second), s.hash...)
	out = append(strconv.AppendUint(out, uint64(s.salt+number), 16), '\t')
	out = append(strconv.AppendInt(out, int64(peers*(0.3+0.3*r.unit())), 10), '\t')
	out = append(strconv.AppendInt(out, int64(peers*(0.2+0.3*r.unit())), 10), '\t')
	return append(strconv.AppendInt(out, loaded, 10), '\n')
}

// line appends what all lines of a tracker begin with.
func (t *tracker) line(out []byte, second int64) []byte {
	out = append(strconv.AppendInt(out, second, 10), '\t')
	return append(append(out, t.name...), '\t')
}
