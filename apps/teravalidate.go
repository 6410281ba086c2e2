package apps

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"iter"
	"math/big"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// teraValidate checks that records of 100 bytes are in order, within files and
// from file to file in the order of their names, as TeraValidate of Hadoop's
// examples does. The checksum, the sum of the CRC-32 of all records, is the
// same before and after sorting.
//
//	input   records of 100 bytes
//	output  records TAB number
//	        checksum TAB sum in hexadecimal
//	        misordered TAB number of places where a key is less than the one before
//	        misorder TAB where, for the first of these in each piece of input
//
// Each map describes its piece of a file; one reduce gets the descriptions in
// the order of the input and checks the borders.
var teraValidate = &mapreduce.App{
	Name:    "teravalidate",
	Summary: "checks that records of 100 bytes are in order; counts and sums them",
	Reads:   "records of 100 bytes",
	Writes:  "records, checksum and what is out of order",
	Small:   true,
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:        "teravalidate",
			Input:       mapreduce.Fixed(teraRecord),
			Mapper:      func() mapreduce.Mapper { return &orderChecker{} },
			Partitioner: oneReduce,
			Reducer:     func() mapreduce.Reducer { return &borderChecker{} },
			Reduces:     1,
		}, nil
	},
}

// oneReduce is the partitioner of jobs whose reduce must see all records. Reduces: 1 alone is not enough, because
// a user's --reduces has precedence; the other reduces then get nothing and write empty files.
func oneReduce([]byte, int) int { return 0 }

// piece describes consecutive records of one file, all that the check of the
// borders needs to know. As a value it is
//
//	first key, last key, records, misordered, checksum (two halves), file and bad as a pair
type piece struct {
	first, last [teraKey]byte
	records     uint64
	misordered  uint64
	sumHigh     uint64 // the checksum has 128 bits
	sumLow      uint64
	file, bad   string // bad: the first two keys out of order
}

// orderChecker describes the piece that it is given.
type orderChecker struct {
	piece
	begun bool
}

// Map takes a record.
func (c *orderChecker) Map(_, record []byte, out *mapreduce.Emitter) error {
	// A split may have pieces of several files.
	if file := out.Task().InputFile(); !c.begun || file != c.file {
		c.emit(out)
		c.piece, c.begun = piece{file: file}, true
		copy(c.first[:], record)
		// So the first key is compared with itself and never out of order.
		copy(c.last[:], record)
	}
	key := record[:teraKey]
	if bytes.Compare(key, c.last[:]) < 0 {
		// One position for each piece: a file in random order would give a line for every second record.
		if c.misordered == 0 {
			c.bad = fmt.Sprintf("%s: %q before %q", c.file, c.last, key)
		}
		c.misordered++
	}
	copy(c.last[:], key)
	c.records++
	// TeraValidate sums in 128 bits as well; the sum of 64 could overflow only beyond 2^32 records, 430 GB.
	low := c.sumLow + uint64(crc32.ChecksumIEEE(record))
	if low < c.sumLow {
		c.sumHigh++
	}
	c.sumLow = low
	return nil
}

// Finish emits the last piece.
func (c *orderChecker) Finish(out *mapreduce.Emitter) error {
	c.emit(out)
	return nil
}

// emit emits the summary of the piece. All keys are equal: such records
// reach the reduce in the order of the input.
func (c *orderChecker) emit(out *mapreduce.Emitter) {
	if !c.begun {
		return
	}
	v := append(append([]byte(nil), c.first[:]...), c.last[:]...)
	for _, n := range []uint64{c.records, c.misordered, c.sumHigh, c.sumLow} {
		v = mapreduce.AppendInt64(v, int64(n))
	}
	v = mapreduce.AppendPair(v, []byte(c.file), []byte(c.bad))
	out.Emit(nil, v)
}

// readPiece reads what emit wrote.
func readPiece(v []byte) (p piece, err error) {
	const fixed = 2*teraKey + 4*8
	if len(v) < fixed {
		return p, fmt.Errorf("a description of %d bytes", len(v))
	}
	copy(p.first[:], v)
	copy(p.last[:], v[teraKey:])
	for i, n := range []*uint64{&p.records, &p.misordered, &p.sumHigh, &p.sumLow} {
		*n = uint64(mapreduce.Int64(v[2*teraKey+8*i:]))
	}
	file, bad, ok := mapreduce.CutPair(v[fixed:])
	if !ok {
		return p, fmt.Errorf("a description without a file")
	}
	p.file, p.bad = string(file), string(bad)
	return p, nil
}

// borderChecker puts the pieces together.
type borderChecker struct {
	records, misordered uint64
	sum                 big.Int
	bad                 []string
}

// Reduce takes all pieces.
func (c *borderChecker) Reduce(_ []byte, values iter.Seq[[]byte], _ *mapreduce.Emitter) error {
	var before piece
	for v := range values {
		p, err := readPiece(v)
		if err != nil {
			return err
		}
		// Equal keys at a border are in order: a range of keys may end within them.
		if c.records > 0 && bytes.Compare(p.first[:], before.last[:]) < 0 {
			c.misordered++
			c.bad = append(c.bad, fmt.Sprintf("%s ends with %q, %s goes on with %q", before.file, before.last, p.file, p.first))
		}
		if p.misordered > 0 {
			c.misordered += p.misordered
			c.bad = append(c.bad, p.bad)
		}
		c.records += p.records
		sum := new(big.Int).SetUint64(p.sumHigh)
		c.sum.Add(&c.sum, sum.Lsh(sum, 64).Or(sum, new(big.Int).SetUint64(p.sumLow)))
		before = p
	}
	return nil
}

// Finish writes the verdict, also over no records; only the reduce that is
// asked for has any.
func (c *borderChecker) Finish(out *mapreduce.Emitter) error {
	if out.Task().Index() != 0 {
		return nil
	}
	write := func(name, value string) { out.Emit([]byte(name), []byte(value)) }
	write("records", strconv.FormatUint(c.records, 10))
	write("checksum", c.sum.Text(16))
	write("misordered", strconv.FormatUint(c.misordered, 10))
	for _, b := range c.bad {
		write("misorder", b)
	}
	return nil
}
