package parquet

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	types "github.com/parquet-go/parquet-go/format"

	"github.com/slotwise/slotwise/internal/data/format"
)

// wanted returns the row groups that may have a record that meets the conditions, by the bounds of the
// columns that the footer has.
func (r *rows) wanted(f *types.FileMetaData, groups []int, s *format.Spec) []int {
	if len(s.Where) == 0 {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), func(group int) bool {
		// One condition that no value of the group can meet excludes the group, since all must hold.
		return slices.ContainsFunc(r.cols, func(c *column) bool {
			conditions := s.ConditionsOn(c.name)
			// A nested column has bounds for each leaf, and a condition compares the whole value as text.
			if c.node != nil || len(conditions) == 0 {
				return false
			}
			leaf := c.leaves[0]
			chunks := f.RowGroups[group].Columns
			if leaf.index >= len(chunks) {
				return false // the library reports it
			}
			least, most, ok := leaf.kind.bounds(&chunks[leaf.index].MetaData.Statistics)
			return ok && slices.ContainsFunc(conditions, func(w format.Condition) bool {
				return w.Excludes(least, most, leaf.kind.numeric(), leaf.kind.layout != "")
			})
		})
	})
}

// numeric reports whether values are compared as numbers.
func (k *kind) numeric() bool {
	// Booleans and fixed bytes count as numbers here, and have no bounds in bound, so that does no harm.
	return k.layout == "" && (k.decimal || k.physical != parquet.ByteArray)
}

// bounds returns the bounds of a column's values as lines have them. ok is false if there are none, or if
// their order is not the order of conditions.
func (k *kind) bounds(s *types.Statistics) (least, most []byte, ok bool) {
	low, ok1 := k.bound(s.MinValue)
	high, ok2 := k.bound(s.MaxValue)
	if !ok1 || !ok2 {
		return nil, nil, false
	}
	// Bounds are compared as the text that the line of a record would have.
	spec := &format.Spec{Raw: true}
	for _, b := range []struct {
		value *parquet.Value
		text  *[]byte
	}{{&low, &least}, {&high, &most}} {
		// Through the same code as records, so a bound and a value of the same bytes cannot have two texts.
		line := format.NewLine(spec, []string{""})
		line.Begin(nil)
		if k.append(line, b.value) != nil {
			return nil, nil, false
		}
		text := line.End()
		*b.text = text[:len(text)-1]
	}
	return least, most, true
}

// bound decodes a bound, whose bytes are a value in the encoding PLAIN. Old files have bounds of texts in
// signed bytes in other fields, which are not used.
func (k *kind) bound(b []byte) (v parquet.Value, ok bool) {
	switch {
	// A UUID's text and half a number's bytes have an order of their own.
	case k.uuid || k.half:
		return v, false
	case k.physical == parquet.Int32 && len(b) == 4:
		return parquet.Int32Value(int32(binary.LittleEndian.Uint32(b))), true
	case k.physical == parquet.Int64 && len(b) == 8:
		return parquet.Int64Value(int64(binary.LittleEndian.Uint64(b))), true
	case k.physical == parquet.Float && len(b) == 4:
		f := math.Float32frombits(binary.LittleEndian.Uint32(b))
		// NaN is no bound: some writers put it there when the column has one.
		return parquet.FloatValue(f), f == f
	case k.physical == parquet.Double && len(b) == 8:
		f := math.Float64frombits(binary.LittleEndian.Uint64(b))
		return parquet.DoubleValue(f), f == f
	// Writers shorten long texts, the upper bound upwards, so both stay bounds. Decimals in bytes have the
	// order of signed numbers and not of bytes, and are left out.
	case k.physical == parquet.ByteArray && !k.decimal && b != nil:
		return parquet.ByteArrayValue(b), true
	}
	return v, false
}
