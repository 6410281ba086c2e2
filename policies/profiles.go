package policies

import "github.com/slotwise/slotwise/sched"

// hadoop12 is the profile under which a baseline decides as Hadoop 1.2.1 does.
func hadoop12(scheduler string, set map[string]string) []sched.Profile {
	return []sched.Profile{{Name: "hadoop-1.2", Summary: "decides as the " + scheduler + " of Hadoop 1.2.1", Set: set}}
}

// The settings of the profile hadoop-1.2 for each baseline.
var (
	fifoProfiles = hadoop12("JobQueueTaskScheduler", map[string]string{
		"fill": "load", "pad-jobs": "reducing", "off-rack": "by-rack",
		"speculative-lag": "1m", "speculative-lag-from": "job", "speculative-stall": "0s"})
	fairProfiles = hadoop12("FairScheduler", map[string]string{
		"fill": "balance", "demand": "update", "off-rack": "by-rack", "wait-until": "heartbeat",
		"speculative-lag": "1m", "speculative-lag-from": "job", "speculative-stall": "0s"})
)

// modfairProfiles are the settings of the paper's experiments.
var modfairProfiles = []sched.Profile{{Name: "paper", Summary: "the limits of the paper's experiments, for 16 to 32 map slots",
	Set: map[string]string{"max-allocated": "6"}}}
