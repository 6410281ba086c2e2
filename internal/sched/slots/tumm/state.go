package tumm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/slotwise/slotwise/internal/job"
)

// stateHead is the first line of a saved state: what it is, its version and the
// checksum of the rest.
const stateHead = "slotwise-tumm 1 %08x\n"

// learned is what outlives a restart: the mean times that jobs start with until
// their own tasks have finished. The means of live jobs need not be saved, since
// they follow from the finished tasks that the tracker keeps.
type learned struct {
	MapSeconds    float64 `json:"map_seconds"`
	ReduceSeconds float64 `json:"reduce_seconds"`
}

// Save implements sched.Stateful.
func (b *base) Save() ([]byte, error) {
	body, err := json.Marshal(learned{b.mon.last[job.Map], b.mon.last[job.Reduce]})
	if err != nil {
		return nil, err
	}
	return seal(body), nil
}

func seal(body []byte) []byte {
	return append(fmt.Appendf(nil, stateHead, crc32.ChecksumIEEE(body)), body...)
}

// Load implements sched.Stateful. What was saved by TuMM suits H_TuMM and the
// other way round. State that is damaged or of something else is refused, and
// nothing changes.
func (b *base) Load(state []byte) error {
	head, body, _ := bytes.Cut(state, []byte("\n"))
	var version int
	var sum uint32
	if _, err := fmt.Sscanf(string(head), "slotwise-tumm %d %x", &version, &sum); err != nil {
		return fmt.Errorf("not saved by tumm or htumm: it starts with %.40q", state)
	}
	if version != 1 {
		return fmt.Errorf("saved by tumm in version %d; only version 1 can be read", version)
	}
	if string(head)+"\n" != fmt.Sprintf(stateHead, sum) || crc32.ChecksumIEEE(body) != sum {
		return fmt.Errorf("state of tumm is damaged: its checksum is wrong")
	}
	var l learned
	if err := json.Unmarshal(body, &l); err != nil {
		return fmt.Errorf("state of tumm is damaged: %w", err)
	}
	for _, x := range []float64{l.MapSeconds, l.ReduceSeconds} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("state of tumm is damaged: a task time of %g s", x)
		}
	}
	b.mon.last = [job.Kinds]float64{l.MapSeconds, l.ReduceSeconds}
	b.mon.stale = true
	return nil
}
