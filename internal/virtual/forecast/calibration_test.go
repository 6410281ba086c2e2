package forecast

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// TestCalibration checks that corrected intervals contain about 80 % of the true ends, for
// futures that vary too little, vary too much, or end too early.
func TestCalibration(t *testing.T) {
	for _, c := range []struct {
		name         string
		shift, apart float64 // of the truth's logarithm: mean, and spread as a multiple of the futures'
	}{{"right", 0, 1}, {"too sure", 0, 4}, {"too unsure", 0, 0.25}, {"too early", 0.4, 1}} {
		t.Run(c.name, func(t *testing.T) {
			var cal Calibration
			d := draw(7)
			var past []Past
			inside, late, asked := 0, 0, 0
			for id := job.ID(1); id <= 400; id++ {
				at := time.Duration(id) * time.Minute
				s := State{At: at, Past: past, Jobs: []LiveJob{{ID: id}}}
				cal.Observe(&s)
				const unit = 0.2
				interval := func(x float64) time.Duration { return at + seconds(100*math.Exp(1.28*unit*x)) }
				f := Forecast{Made: at, Jobs: []JobForecast{{ID: id, Known: true, Early: interval(-1), End: interval(0), Late: interval(1)}}}
				cal.Note(&f)
				cal.Apply(&f)
				end := at + seconds(100*math.Exp(c.shift+unit*c.apart*d.normal()))
				if a := f.Jobs[0]; id > 100 {
					asked++
					if a.Early <= end && end <= a.Late {
						inside++
					}
					if end > a.End {
						late++
					}
				}
				past = append(past[max(0, len(past)-50):], Past{ID: id, Ended: end})
			}
			if share := float64(inside) / float64(asked); share < 0.7 || share > 0.9 {
				t.Errorf("%.0f %% of the truths are inside", 100*share)
			}
			if share := float64(late) / float64(asked); share < 0.4 || share > 0.6 {
				t.Errorf("%.0f %% of the truths are later than the median", 100*share)
			}
		})
	}
}

// TestCalibrationByPart gives answers that are too early at the beginning of each job, and right near its end. The
// errors of the first must not move the second.
func TestCalibrationByPart(t *testing.T) {
	var cal Calibration
	d := draw(5)
	var past []Past
	const unit, asked = 0.2, 300
	var late, inside [2]int
	for id := job.ID(1); id <= 100+asked; id++ {
		begin := time.Duration(id) * time.Hour
		end := begin + seconds(100*math.Exp(0.4+unit*d.normal()))
		for k, x := range []struct {
			at   time.Duration
			left float64
		}{{begin, 100}, {begin + (end-begin)*3/4, (end - begin).Seconds() / 4 * math.Exp(unit*d.normal())}} {
			cal.Observe(&State{At: x.at, Past: past, Jobs: []LiveJob{{ID: id}}})
			interval := func(z float64) time.Duration { return x.at + seconds(x.left*math.Exp(1.28*unit*z)) }
			f := Forecast{Made: x.at, Jobs: []JobForecast{{ID: id, Submitted: begin, Known: true, Early: interval(-1), End: interval(0), Late: interval(1)}}}
			cal.Note(&f)
			cal.Apply(&f)
			if a := f.Jobs[0]; id > 100 {
				if a.Early <= end && end <= a.Late {
					inside[k]++
				}
				if end > a.End {
					late[k]++
				}
			}
		}
		past = append(past[max(0, len(past)-50):], Past{ID: id, Ended: end})
	}
	for k, when := range []string{"at the beginning", "near the end"} {
		if share := float64(late[k]) / asked; share < 0.4 || share > 0.6 {
			t.Errorf("%s %.0f %% of the truths are later than the median", when, 100*share)
		}
		if share := float64(inside[k]) / asked; share < 0.7 || share > 0.9 {
			t.Errorf("%s %.0f %% of the truths are inside", when, 100*share)
		}
	}
}

// A calibration keeps nothing about jobs that were killed, or about more jobs than openJobs.
func TestCalibrationForgets(t *testing.T) {
	var cal Calibration
	f := Forecast{}
	for id := range job.ID(openJobs + 10) {
		f.Jobs = append(f.Jobs, JobForecast{ID: id, Known: true, Early: time.Minute, End: 2 * time.Minute, Late: 3 * time.Minute})
	}
	for range 3 * jobAnswers {
		cal.Note(&f)
	}
	if len(cal.open) != openJobs || len(cal.open[5].answers) != 1 {
		t.Errorf("%d jobs, %d answers", len(cal.open), len(cal.open[5].answers))
	}
	s := State{Jobs: []LiveJob{{ID: 5}}, Finishing: []job.ID{6}}
	for range 2 {
		if cal.Observe(&s); len(cal.open) != 2 {
			t.Errorf("%d jobs remain", len(cal.open))
		}
	}
}

func TestStems(t *testing.T) {
	for _, c := range []struct {
		name string
		want []string
	}{
		{"", []string{""}},
		{"sort", []string{"sort"}},
		{"step1-003", []string{"step1-003", "step1", "step"}},
		{"nightly-2026-04-12", []string{"nightly-2026-04-12", "nightly-2026-04", "nightly-2026", "nightly"}},
		{"2026-04-12", []string{"2026-04-12", "2026-04", "2026"}},
		{"1-2-3-4-5-6-7-8-9-10", []string{"1-2-3-4-5-6-7-8-9-10", "1-2-3-4-5-6-7-8-9", "1-2-3-4-5-6-7-8", "1-2-3-4-5-6-7", "1-2-3-4-5-6", "1-2-3-4-5", "1-2-3-4"}},
	} {
		if got := stems(c.name); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPredictions checks that a reduce's time is predicted from the job's maps if that rule
// has had the smallest errors, and that a map's time comes from jobs with the same stem.
func TestPredictions(t *testing.T) {
	s := State{}
	for i := range 24 {
		app := i % 2
		maps := []float64{10, 100}[app] * []float64{1, 2, 0.5}[i%3]
		p := Past{ID: job.ID(i + 1), Name: fmt.Sprintf("step%d-%03d", app, i/2), Maps: 10, Spec: job.Spec{Reduces: 2, Request: job.Request{SlowStart: -1}}}
		p.Times.Seconds[job.Map] = slices.Repeat([]float64{maps}, 10)
		p.Times.Seconds[job.Reduce] = slices.Repeat([]float64{3 * maps}, 2)
		s.Past = append(s.Past, p)
	}
	h := newHistory(&s)
	fresh := donor{id: 99, stems: stems("step1-099"), times: &Times{}, tasks: [job.Kinds]int{10, 2}}
	if p := h.predict(&fresh, job.Map); !p.named || math.Abs(math.Exp(p.center)-100) > 30 {
		t.Errorf("maps by name: %+v, %.0f s", p, math.Exp(p.center))
	}
	fresh.even[job.Map], fresh.log[job.Map] = []float64{700}, math.Log(700)
	if p := h.predict(&fresh, job.Reduce); math.Abs(math.Exp(p.center)-2100) > 100 {
		t.Errorf("reduces by maps: %+v, %.0f s", p, math.Exp(p.center))
	}
}
