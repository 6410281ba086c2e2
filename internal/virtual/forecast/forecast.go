// Package forecast predicts when jobs end, by simulating the tracker's future with the
// scheduling code that the tracker runs.
//
//	Copier   reads a live tracker, in small portions, into a State
//	State    the jobs, tasks, attempts and nodes of one moment; shares nothing that changes
//	Run      forks a tracker from the State for each sampled future. Package sim simulates it
//	         with the times of attempts that the future draws
//	Forecast the quantiles of the ends, and the assumptions
//
// A future samples the time of each task that has not ended: from finished attempts of the
// same job, else from earlier runs of the same name, else from all jobs that the tracker
// remembers. Draws depend only on the seed, the future, and the name of the attempt. Two
// runs on different variants of one State therefore draw the same times, and the
// difference of their answers comes from the variant.
//
// A job without a basis for an answer is unknown, with a reason. The package is pure: it
// has no clock and no I/O. Times are the tracker's, since the start of its run.
// What a forecast may know: everything that the tracker knew at State.At, and nothing later. A task's time is
// never read before the task has ended; jobs that have not been submitted are unknown, and futures draw them
// from the rate of the past hour. Recorded runs judge the forecasts (lab/forecast), and a peek at the
// recorded end would make them look better than a user's.
//
// Where the times come from is the model (times.go): a job's own finished tasks, its running attempts by
// progress and age (future.go, belief.go), and other jobs (history.go). Errors of earlier answers correct
// intervals (calibration.go). Chooser (choose.go) compares policies by the same futures. To use a further
// fact of the tracker, copy it in Copier.begin or Copier.read, which bound the time that the tracker's
// goroutine is held.
package forecast

import (
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Forecast is the answer for all jobs that had not ended at one moment.
type Forecast struct {
	// Made is the time of the State, and Took how long the calculation lasted. The shell
	// sets Took, because this package has no clock.
	Made, Took time.Duration
	// Futures is the number of sampled futures.
	Futures int
	// Policy is the policy under which the futures were simulated.
	Policy string
	// Assumptions says in sentences what holds for all answers.
	Assumptions []string
	// Jobs are in order of submission.
	Jobs []JobForecast
}

// JobForecast is the answer for one job.
type JobForecast struct {
	ID        job.ID
	Submitted time.Duration // of the job
	// Position is the job's place among the jobs without a running attempt, in the order in
	// which they are expected to start: 1 starts next. 0 means that an attempt of the job
	// runs, or that the start is unknown.
	Position int
	// Start is the median of the times at which the job's next attempt is launched. It is 0
	// unless Position is above 0.
	Start time.Duration
	// End is the median of the times at which the job's last task ends, and Early and Late
	// are their 10th and 90th percentiles. All are 0 unless Known.
	End, Early, Late time.Duration
	// Known is false if there is no basis for an answer; Unknown then says why, as a phrase.
	Known   bool
	Unknown string
	// MapsEnd, MapsEarly and MapsLate are the same for the end of the last map. They are set only if
	// the end is unknown, the end of the maps is known, and maps are left.
	MapsEnd, MapsEarly, MapsLate time.Duration
	// Never is set if the job cannot end on the present cluster, however long it waits.
	Never bool
	// WaitsFor says as a sentence why no attempt of the job runs; "" if one runs.
	WaitsFor string
	// Basis says as a phrase where the times of the job's tasks come from.
	Basis string
}

// Job returns the answer for a job, or nil.
func (f *Forecast) Job(id job.ID) *JobForecast {
	if f == nil {
		return nil
	}
	for lo, hi := 0, len(f.Jobs); lo < hi; {
		mid := (lo + hi) / 2
		switch j := &f.Jobs[mid]; {
		case j.ID == id:
			return j
		case j.ID < id:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return nil
}
