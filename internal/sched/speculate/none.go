// Package speculate holds the parts that say which running task deserves a
// copy.
package speculate

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// None never copies a task.
type None struct{}

var (
	_ sched.Speculate = (*None)(nil)
	_ sched.NoCopies  = (*None)(nil)
)

// Copy implements sched.Speculate.
func (*None) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// NeverCopies implements sched.NoCopies.
func (*None) NeverCopies() {}
