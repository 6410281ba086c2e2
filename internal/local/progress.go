package local

import "time"

// Progress is a snapshot of a job, for a progress bar. Fractions are of work,
// 0 to 1.
type Progress struct {
	Job          string // name
	ID           string // job_1
	State        string // pending, running, succeeded, failed or killed
	Maps         int    // tasks
	MapsDone     int
	MapsRunning  int
	Reduces      int
	ReducesDone  int
	ReducesRun   int
	MapFrac      float64
	ReduceFrac   float64
	BytesIn      int64 // bytes of input in all
	BytesRead    int64 // bytes of input read so far
	Elapsed      time.Duration
	Failed       int // failed attempts so far
	LastError    string
}
