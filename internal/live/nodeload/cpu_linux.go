package nodeload

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// readCPU reads the first line of /proc/stat. The library for other systems would read the file twice in every
// command, when it initializes itself.
func readCPU() (*cpuTime, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	return parseCPU(text)
}

// parseCPU returns the times in the text of /proc/stat, in ticks.
func parseCPU(text []byte) (*cpuTime, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	// cpu user nice system idle iowait irq softirq steal; user time already includes the guest times that follow.
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return nil, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t [8]float64
	for i := range t {
		n, err := strconv.ParseUint(string(fields[i+1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/stat begins with %q", line)
		}
		t[i] = float64(n)
	}
	const idle, iowait = 3, 4
	c := &cpuTime{}
	for i, ticks := range t {
		c.all += ticks
		if i != idle && i != iowait {
			c.busy += ticks
		}
	}
	return c, nil
}
