// Package dynamicmr holds DynamicMR's three parts. DHSA lends idle slots to the other kind
// of task, SEPB balances copies of slow tasks against new work, and Preschedule launches
// local work ahead of its turn. They share exact fractions, and the labels that record by
// which case of the algorithms an attempt got its slot. The two measures by which the paper judges a schedule are Balance
// in internal/virtual/metrics.
//
// Source: Tang, Lee and He, DynamicMR: A Dynamic Slot Allocation Optimization
// Framework for MapReduce Clusters, IEEE Transactions on Cloud Computing, 2014,
// supplemental material; Alg 1 to 4 and App. A to F are numbered as there.
package dynamicmr

import "github.com/slotwise/slotwise/sched/job"

// Paper is the reference that the registry prints.
const Paper = "Tang, Lee and He, DynamicMR: A Dynamic Slot Allocation Optimization Framework, 2014"

// Label records the case of the algorithms by which a slot was assigned. It
// stays on the attempt, which is how borrowed slots are counted.
type Label int32

// The cases. Alg 1 and Alg 2 number them differently; the comments give the numbers
// of Alg 2.
const (
	OwnMap     Label = iota + 1 // a map in a map slot, Case 1
	OwnReduce                   // a reduce in a reduce slot, Case 2
	MapLent                     // a map in a reduce slot, Case 3; Case 4 of Alg 1
	ReduceLent                  // a reduce in a map slot, Case 4; Case 3 of Alg 1
	FarMap                      // a map whose data may be anywhere, Case 5
	AboveLine                   // a local map in a map slot above the balance line, P1
	AboveLent                   // a local map in a reduce slot above the balance line, P2
	WithinLent                  // the same below the line, P2 inside Alg 2
	ReduceBack                  // a reduce in a map slot, for a reduce slot that P2 took, P3
	Rescued                     // a map that reduces have waited for too long
	CopyOnly                    // a slot for copies, offered when nothing is pending
)

// names are the texts of the labels, in order of the constants.
var names = [...]string{"?", "1", "2", "3", "4", "5", "P1", "P2", "P2", "P3", "rescue", "copy"}

// String returns the case's number in Alg 2 or App. A.
func (l Label) String() string {
	if l < 0 || int(l) >= len(names) {
		l = 0
	}
	return names[l]
}

// Presched reports whether an attempt is a map that slot prescheduling started
// in a reduce slot (P2). It checks the kind of the slot too, because attempts
// started by another policy may have any label.
func Presched(a *job.Attempt) bool {
	l := Label(a.Label())
	return a.Kind() == job.Map && a.Slot() == job.Reduce && (l == AboveLent || l == WithinLent)
}

// PaidBack reports whether an attempt is a reduce in a map slot by P3.
func PaidBack(a *job.Attempt) bool {
	return a.Kind() == job.Reduce && a.Slot() == job.Map && Label(a.Label()) == ReduceBack
}
