package fair

import "github.com/slotwise/slotwise/internal/job"

// PoolShare returns a pool's minimum shares in slots and its weight, for whoever
// shares slots of both kinds among pools.
func (f *Order) PoolShare(name string) (least [job.Kinds]int, weight float64) {
	p := f.cfg.Pools.Pool(name)
	for k := range least {
		least[k] = min(p.Min[k], p.Max[k])
	}
	return least, p.Weight
}
