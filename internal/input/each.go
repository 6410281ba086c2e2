package input

// Each calls fn for every record of a block as NextBlock returned it, file
// being the path that the Reader gives, until fn returns an error, which it
// returns. A record shares the block's memory. Runs have no blocks.
func (f Format) Each(block []byte, file string, fn func(key, value []byte) error) (err error) {
	switch f.Kind {
	case Fixed:
		n := f.RecordLen
		for ; len(block) > 0 && err == nil; block = block[n:] {
			err = fn(nil, block[:n:n])
		}
	case Whole:
		err = fn([]byte(file), block)
	case KeyValue:
		Lines(block, func(line []byte) bool {
			k, v := SplitTab(line)
			err = fn(k, v)
			return err == nil
		})
	default:
		Lines(block, func(line []byte) bool {
			err = fn(nil, line)
			return err == nil
		})
	}
	return err
}
