package local

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// fallbackMemory is the assumed size of the machine's memory if it cannot be read.
const fallbackMemory = 4 << 30

// DefaultMemory is a quarter of what this process may use: of the machine's
// memory or of the control group's limit, whichever is less.
func DefaultMemory() int64 { return UsableMemory() / 4 }

// reserve is the least memory that a worker leaves to the system and to itself.
const reserve = 512 << 20

// WorkerMemory returns the default memory of the attempts of a worker on this machine: the
// usable memory less a tenth and at least 512 MiB, but at least half.
func WorkerMemory() int64 { return WorkerMemoryOf(UsableMemory()) }

// WorkerMemoryOf returns the same for a worker that may use total bytes.
func WorkerMemoryOf(total int64) int64 {
	return max(total/2, total-max(reserve, total/10))
}

// UsableMemory returns the bytes that this process may use: the machine's memory or the control
// group's limit, whichever is less.
func UsableMemory() int64 {
	total, _ := KnownMemory()
	return total
}

// KnownMemory returns the bytes that this process may use, as UsableMemory does, and false if
// the system does not say. A limit above it would not limit: tasks would fill the machine
// until the kernel ends one of its processes.
//
// It looks once in the life of the process.
func KnownMemory() (total int64, known bool) { return knownMemory() }

var knownMemory = sync.OnceValues(func() (total int64, known bool) {
	total = fallbackMemory
	if n, ok := memTotal(); ok {
		total, known = n, true
	}
	// Of cgroup v2 and v1. In a container the group of the process is the root of its view; "max",
	// which v2 says for no limit, is no number and is passed over.
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			// v1 says "no limit" by a number near 2^63, which the minimum drops.
			total, known = min(total, n), true
		}
	}
	return total, known
})

// memTotal reads the size of the machine's memory.
func memTotal() (int64, bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	rest, ok := strings.CutPrefix(string(b), "MemTotal:")
	if !ok {
		return 0, false
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
	return n << 10, err == nil
}
