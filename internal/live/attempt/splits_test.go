package attempt

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/input"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestSplits passes a split through the messages that bring it to an attempt. Every field has
// a value, so one that the messages lack is found. Attempts on a cluster once did not know
// the sample of a file, and took an overwritten one for a log.
func TestSplits(t *testing.T) {
	var want input.Split
	next := int64(1)
	fill(t, reflect.ValueOf(&want).Elem(), &next)
	want.Sample = false // only the process that plans a job samples
	list, layouts := EncodeSplits([]engine.SourceSplit{{Source: 1, Split: want}})
	got, err := decodeSplit(list[0], &slotwisev1.JobSpec{Layouts: layouts})
	if diff := cmp.Diff(want, got); err != nil || diff != "" || list[0].GetSource() != 1 {
		t.Errorf("source %d, error %v, difference %s", list[0].GetSource(), err, diff)
	}
}

// fill gives every field of a value another number or text.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.String:
		v.SetString(string(rune('a' + *next)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
