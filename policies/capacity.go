package policies

// capacityProfiles make the capacity policy decide as Hadoop 1.2.1 does.
var capacityProfiles = hadoop12("CapacityTaskScheduler", map[string]string{
	"reduces-per-heartbeat": "1", "unlocated": "far", "off-rack": "by-rack", "tiny-limits": "hadoop",
	"speculative-lag": "1m", "speculative-lag-from": "job", "speculative-stall": "0s"})
