package hadoop

import (
	"fmt"
	"strconv"
	"strings"
)

// Tools parse exactly four digits at the end of a job id, so the numbers of one stamp
// are 1 to 9999.
// Job 10,000 is number 1 of the next stamp.
const perStamp = 9999

// ClusterStamp is the stamp of the first jobs of a cluster. A cluster's job jN has the same
// id for every client and for ever.
const ClusterStamp = 1_500_000_000_000

// JobNumber is the stamp and the number in ids: job_STAMP_NUMBER.
type JobNumber struct {
	Stamp  int64
	Number int
}

// NumberOf returns the number of the job with the id jN. stamp is the stamp of job 1.
func NumberOf(stamp int64, id string) (JobNumber, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "j"))
	if err != nil || n < 1 {
		return JobNumber{}, fmt.Errorf("%q is no job id", id)
	}
	return JobNumber{stamp + int64((n-1)/perStamp), (n-1)%perStamp + 1}, nil
}

// ClusterJob returns the id, jN, of a cluster's job that Hadoop's tools call
// job_STAMP_NUMBER or application_STAMP_NUMBER. It returns other ids unchanged.
func ClusterJob(id string) string {
	parts := strings.Split(id, "_")
	if len(parts) != 3 || parts[0] != "job" && parts[0] != "application" {
		return id
	}
	stamp, err1 := strconv.ParseInt(parts[1], 10, 64)
	number, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || stamp < ClusterStamp || number < 1 || number > perStamp {
		return id
	}
	return fmt.Sprintf("j%d", (stamp-ClusterStamp)*perStamp+int64(number))
}

// mrjob finds ids with a regular expression for digits of this form.
func (j JobNumber) tail() string { return fmt.Sprintf("%d_%04d", j.Stamp, j.Number) }

// Job returns job_STAMP_NUMBER.
func (j JobNumber) Job() string { return "job_" + j.tail() }

// Application returns application_STAMP_NUMBER.
func (j JobNumber) Application() string { return "application_" + j.tail() }

// Task returns the id of a task. kind is m or r.
func (j JobNumber) Task(kind byte, index int) string {
	return fmt.Sprintf("task_%s_%c_%06d", j.tail(), kind, index)
}

// Attempt returns the id of an attempt.
func (j JobNumber) Attempt(kind byte, index, try int) string {
	return fmt.Sprintf("attempt_%s_%c_%06d_%d", j.tail(), kind, index, try)
}
