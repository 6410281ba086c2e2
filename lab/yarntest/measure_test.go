package yarntest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMeasure prints the times that lab/results/yarn.md gives. It runs by command only, and on a quiet
// machine:
//
//	SLOTWISE_YARN_MEASURE=1 go -C lab test -count=1 -timeout 60m -v -run TestMeasure ./yarntest
func TestMeasure(t *testing.T) {
	if os.Getenv("SLOTWISE_YARN_MEASURE") == "" {
		t.Skip("SLOTWISE_YARN_MEASURE is not set")
	}
	c := start(t)
	c.must("slotwise hadoop fs -mkdir -p /yarntest")
	began := time.Now()
	id := c.must("slotwise submit sleep --output hdfs:///yarntest/first --param maps=1x1ms -q")
	c.must("slotwise yarn up " + c.line("slotwise yarn up "))
	c.ended(id)
	t.Logf("from yarn up to the end of a job of one task of 1 ms, with the upload of the program: %.1f s", time.Since(began).Seconds())

	in := c.dir + "/text"
	c.must("slotwise generate text --size 1GiB --output " + in + " -q && slotwise hadoop fs -put " + in + " /yarntest/text")
	var run, onYARN []float64
	for i := range 5 {
		timed := func(line string) float64 {
			began := time.Now()
			c.must(line)
			return time.Since(began).Seconds()
		}
		run = append(run, timed(fmt.Sprintf("slotwise run wordcount hdfs:///yarntest/text --output hdfs:///yarntest/run%d -q", i)))
		onYARN = append(onYARN, timed(fmt.Sprintf("slotwise submit wordcount hdfs:///yarntest/text --output hdfs:///yarntest/yarn%d --wait -q", i)))
	}
	slices.Sort(run)
	slices.Sort(onYARN)
	t.Logf("word count of 1 GiB on HDFS, 5 rounds, seconds: run %.1f, two workers %.1f; ratio of the medians %.2f", run, onYARN, onYARN[2]/run[2])
	c.must("slotwise yarn down")

	c.stopMaster()
	c.startMaster("--autoscale", "min=1,max=3,cool-down=2s,start-up=1s", "--yarn-service", "auto")
	c.must("slotwise yarn up --name auto" + strings.Replace(c.line("slotwise yarn up --name next"), "--workers 2", "--workers 1", 1))
	began = time.Now()
	c.must("slotwise submit sleep --output hdfs:///yarntest/demand --param maps=60x500ms -q")
	c.await("a new worker runs a task", func() bool {
		var nodes []struct {
			Name string
			Maps int
		}
		if err := json.Unmarshal([]byte(c.must("slotwise nodes -o json")), &nodes); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Name != "auto-0" && strings.HasPrefix(n.Name, "auto-") && n.Maps > 0 {
				return true
			}
		}
		return false
	})
	t.Logf("from a job that needs more workers to the first task of a new one: %.1f s", time.Since(began).Seconds())
	c.must("slotwise yarn down --name auto")
}
