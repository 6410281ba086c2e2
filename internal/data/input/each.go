package input

// Each calls fn for every record of a block that NextBlock has returned, until fn
// returns an error, and returns that error. file is the result of Reader.File; it is
// the key of a whole file. Keys and values are slices of the block. Runs have no
// blocks.
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
