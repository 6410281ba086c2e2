package yarntest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSchedules runs a streaming job under each of several random schedules of scaling and
// kills, and compares its result. It runs by command only:
//
//	SLOTWISE_YARN_SCHEDULES=20 go -C lab test -count=1 -timeout 60m -v -run TestSchedules ./yarntest
func TestSchedules(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("SLOTWISE_YARN_SCHEDULES"))
	if err != nil || n < 1 {
		t.Skip("SLOTWISE_YARN_SCHEDULES is not set to a number of schedules")
	}
	c := start(t)
	c.words("/yarntest/logs", 24)
	out := filepath.Join(c.dir, "streamed")
	job := "--mapper 'sleep 0.5; cat' --reducer 'uniq -c' --split-size 32KiB --reduces 3 "
	c.must("slotwise run --mapper cat --reducer 'uniq -c' " + filepath.Join(c.dir, "in") + " --output " + out + " -q")
	want := sorted(c.must("cat " + out + "/part-*"))
	c.must("slotwise yarn up " + c.line("slotwise yarn up "))
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		dir := fmt.Sprintf("/yarntest/random%d", seed)
		id := c.must("slotwise submit " + job + "--input hdfs:///yarntest/logs --output hdfs://" + dir + " -q")
		var actions []string
		for {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
			if s := c.job(id).State; s != "waiting" && s != "running" {
				break
			}
			if names := c.workers(); r.IntN(2) == 0 && len(names) > 0 {
				slices.Sort(names)
				victim := names[r.IntN(len(names))]
				if pid := c.process(victim); pid != 0 {
					actions = append(actions, "kill "+victim)
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
				continue
			}
			scale := fmt.Sprintf("scale %d --hold %ds", 1+r.IntN(4), 5*r.IntN(2))
			actions = append(actions, scale)
			c.must("slotwise yarn " + scale + "")
		}
		c.await("job "+id+" ends", func() bool {
			s := c.job(id).State
			return s != "waiting" && s != "running" && s != "committing"
		})
		t.Logf("seed %d: %s", seed, strings.Join(actions, ", "))
		if s := c.job(id); s.State != "succeeded" {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		c.check(dir, want)
	}
	c.must("slotwise yarn down")
	c.nothingLeft("slotwise")
}
