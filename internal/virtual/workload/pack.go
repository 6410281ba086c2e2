package workload

import (
	"encoding/binary"
	"slices"
	"time"
)

// pack replaces the tasks of a job by an Outline that decodes them. A task of a recorded time takes
// 4 to 15 bytes in place of 64, so that traces of millions of tasks fit into memory. Jobs whose
// tasks name hosts keep them.
// Make decodes all tasks in one allocation, for the simulator's one call when the job is submitted.
func (j *Job) pack() {
	if j.Outline != nil {
		return
	}
	var b []byte
	for _, tasks := range [...][]Task{j.Maps, j.Reduces} {
		for i := range tasks {
			if tasks[i].Hosts != nil {
				return
			}
			b = tasks[i].pack(b)
		}
	}
	maps, reduces := len(j.Maps), len(j.Reduces)
	packed := slices.Clone(b) // without spare capacity
	j.Maps, j.Reduces = nil, nil
	j.Outline = &Outline{Maps: maps, Reduces: reduces, Make: func() ([]Task, []Task) {
		rest := packed
		all := make([]Task, maps+reduces)
		for i := range all {
			rest = all[i].unpack(rest)
		}
		if reduces == 0 {
			// nil and not an empty slice, so that a packed job equals one that was not.
			return all, nil
		}
		// The capacity ends with the maps: a caller that appends one must not overwrite a reduce.
		return all[:maps:maps], all[maps:]
	}}
}

// inMillis is the bit of a packed task's first byte that says that all its times are in whole
// milliseconds. The lower bits say which fields are not 0.
const inMillis = 1 << 5

// fields returns the times and the bytes of a task, in the order of packed tasks.
func (t *Task) fields() (times [3]*time.Duration, sizes [2]*int64) {
	return [...]*time.Duration{&t.Duration, &t.Fetch, &t.CPU}, [...]*int64{&t.Input, &t.Output}
}

// pack appends a task: a byte of flags, then the fields that are not 0 as varints.
func (t *Task) pack(b []byte) []byte {
	times, sizes := t.fields()
	head, unit := byte(inMillis), time.Millisecond
	for _, d := range times {
		if *d%time.Millisecond != 0 {
			// One byte more or less for each time, but nearly all importers have whole ms.
			head, unit = 0, 1
		}
	}
	at := len(b)
	b = append(b, head)
	for i, d := range times {
		if *d != 0 {
			b[at] |= 1 << i
			b = binary.AppendVarint(b, int64(*d/unit))
		}
	}
	for i, n := range sizes {
		if *n != 0 {
			b[at] |= 1 << (len(times) + i)
			b = binary.AppendVarint(b, *n)
		}
	}
	return b
}

// unpack decodes a task and returns the bytes after it. t must be zero.
func (t *Task) unpack(b []byte) []byte {
	times, sizes := t.fields()
	head, unit := b[0], time.Duration(1)
	if head&inMillis != 0 {
		unit = time.Millisecond
	}
	b = b[1:]
	next := func(bit int) (int64, bool) {
		if head&(1<<bit) == 0 {
			return 0, false
		}
		v, n := binary.Varint(b)
		b = b[n:]
		return v, true
	}
	for i, d := range times {
		if v, ok := next(i); ok {
			*d = time.Duration(v) * unit
		}
	}
	for i, to := range sizes {
		if v, ok := next(len(times) + i); ok {
			*to = v
		}
	}
	return b
}
