package slots

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/slotwise/slotwise/sched"
)

// Fill says how fast Static fills a node's slots.
type Fill uint8

// The ways to fill slots.
const (
	// FillFree fills every free slot at once, maps first.
	FillFree Fill = iota
	// FillLoad is the rule of Hadoop 1.2.1's JobQueueTaskScheduler.
	FillLoad
	// FillBalance is the rule of Hadoop 1.2.1's FairScheduler.
	FillBalance
)

// ParseFill reads free, load or balance.
func ParseFill(s string) (Fill, error) {
	switch s {
	case "free":
		return FillFree, nil
	case "load":
		return FillLoad, nil
	case "balance":
		return FillBalance, nil
	}
	return 0, errors.New("must be free, load or balance")
}

// StaticConfig configures Static. The zero value fills every free slot.
type StaticConfig struct {
	Fill Fill
	// Padding, with FillLoad, is the share of all tasks that is kept free of
	// slots for failures and copies in clusters of more than three nodes: within
	// it a heartbeat gets one map, and only the first job gets reduces.
	Padding float64
	// PadReducing counts only jobs with reduces in the padding of both kinds,
	// as Hadoop 1.2.1 does by mistake.
	PadReducing bool
	// MaxDiff, with FillBalance, is by how much a node may be fuller than the
	// cluster would be with all tasks running, as a share of its slots; 1 lifts
	// the limit.
	MaxDiff float64
	// Single, with FillBalance, gives one task per heartbeat.
	Single bool
	// MaxMaps and MaxReduces, with FillBalance, limit what one heartbeat gets;
	// negative is no limit.
	MaxMaps, MaxReduces int
}

// StaticParams are the parameters that ReadStatic reads.
var StaticParams = []sched.Param{
	{Name: "fill", Default: "free", Help: "How fast a node's slots are filled. free: all free slots at once, maps first. " +
		"load: by Hadoop's FIFO scheduler, which spreads tasks over the nodes as the ratio of waiting work to slots asks " +
		"for, and gives at most one map without local data and one reduce per heartbeat. balance: by Hadoop's fair " +
		"scheduler, which gives the kind of which the node runs less first, and spreads as load does."},
	{Name: "padding", Default: "0.01", Help: "With fill=load: the share of all tasks whose number of slots is kept free " +
		"for failures and copies once there are more than 3 nodes, 0 to 1. A large share slows big jobs down."},
	{Name: "pad-jobs", Default: "all", Help: "With fill=load: whose tasks the padding counts. all, or reducing: only jobs " +
		"with reduces, which is a mistake of Hadoop 1.2.1 kept for comparison."},
	{Name: "load-max-diff", Default: "0", Help: "With fill=balance: how much fuller than the cluster a node may be, as a " +
		"share of its slots, 0 to 1. 1 fills nodes as they come."},
	{Name: "assign-multiple", Default: "true", Help: "With fill=balance: whether one heartbeat may get several tasks. " +
		"false makes a node with many slots fill up slowly."},
	{Name: "assign-maps", Default: "-1", Help: "With fill=balance: the most maps that one heartbeat gets; -1 is no limit."},
	{Name: "assign-reduces", Default: "-1", Help: "With fill=balance: the most reduces that one heartbeat gets; -1 is no limit."},
}

// ReadStatic makes typed slots from their parameters.
func ReadStatic(k *sched.Kit) (sched.Slots, error) {
	var c StaticConfig
	var multiple bool
	var errs [7]error
	c.Fill, errs[0] = sched.Setting(k, "fill", ParseFill)
	c.Padding, errs[1] = sched.Setting(k, "padding", parseShare)
	c.PadReducing, errs[2] = sched.Setting(k, "pad-jobs", parsePadJobs)
	c.MaxDiff, errs[3] = sched.Setting(k, "load-max-diff", parseShare)
	multiple, errs[4] = sched.Setting(k, "assign-multiple", strconv.ParseBool)
	c.MaxMaps, errs[5] = sched.Setting(k, "assign-maps", strconv.Atoi)
	c.MaxReduces, errs[6] = sched.Setting(k, "assign-reduces", strconv.Atoi)
	c.Single = !multiple
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if c.MaxMaps == 0 || c.MaxReduces == 0 {
		return nil, errors.New("assign-maps and assign-reduces must not be 0: no task would ever start")
	}
	return NewStatic(c), nil
}

func parsePadJobs(s string) (bool, error) {
	if s != "all" && s != "reducing" {
		return false, errors.New("must be all or reducing")
	}
	return s == "reducing", nil
}

// parseShare reads a number from 0 to 1.
func parseShare(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && !(x >= 0 && x <= 1) {
		err = fmt.Errorf("must be from 0 to 1")
	}
	return x, err
}
