package mapreduce

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// visit has a field of each kind that has an order.
type visit struct {
	User  string
	Score float64 `order:"desc"`
	Place struct {
		Room  int8
		Quiet bool
	}
	Host string `order:"desc"`
	N    uint16
}

// Encodings of structs have the order of the fields, and decoding restores the struct.
func TestStructCode(t *testing.T) {
	hard := rapid.OneOf(rapid.SampledFrom([]string{"", "\x00", "\x00\xff", "\xff", "\xff\xff", "a", "a\x00", "ab"}), rapid.String())
	visits := rapid.Custom(func(t *rapid.T) (v visit) {
		v.User = hard.Draw(t, "user")
		v.Score = rapid.SampledFrom([]float64{math.Inf(-1), -1, 0, 5e-324, 2}).Draw(t, "score")
		v.Place.Room = rapid.Int8Range(-2, 2).Draw(t, "room")
		v.Place.Quiet = rapid.Bool().Draw(t, "quiet")
		v.Host = hard.Draw(t, "host")
		v.N = rapid.Uint16().Draw(t, "n")
		return v
	})
	number := func(b bool) int { return map[bool]int{true: 1}[b] }
	checkCodec(t, StructCode[visit](), visits, func(a, b visit) int {
		return cmp.Or(strings.Compare(a.User, b.User), cmp.Compare(b.Score, a.Score), cmp.Compare(a.Place.Room, b.Place.Room),
			number(a.Place.Quiet)-number(b.Place.Quiet), strings.Compare(b.Host, a.Host), cmp.Compare(a.N, b.N))
	})
	type pair struct {
		First  []byte
		Second int64
	}
	pairs := PairCode(BytesCode, Int64Code)
	rapid.Check(t, func(t *rapid.T) {
		p := pair{[]byte(hard.Draw(t, "first")), rapid.Int64().Draw(t, "second")}
		if got, want := StructCode[pair]().Append(nil, p), pairs.Append(nil, Pair[[]byte, int64](p)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v is %q as a struct and %q as a pair", p, got, want)
		}
	})
}

// Bytes that are no encoding are errors, never panics.
func TestStructCodeOfBadBytes(t *testing.T) {
	c := StructCode[visit]()
	good := c.Append(nil, visit{User: "a", Host: "b"})
	for n := range good {
		if v, err := c.Decode(good[:n]); err == nil {
			t.Errorf("the first %d bytes were decoded as %v", n, v)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		_, _ = c.Decode(rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xff, 'a'})).Draw(t, "bytes"))
	})
}

// Types without an order are refused with the name of the field.
func TestStructCodeLimits(t *testing.T) {
	for _, c := range []struct {
		limits func() (KeyUse, error)
		want   string
	}{
		{func() (KeyUse, error) { return limits(StructCode[string]()) }, "type string as key: it is no struct"},
		{func() (KeyUse, error) { return limits(StructCode[struct{}]()) }, "it has no fields"},
		{func() (KeyUse, error) { return limits(StructCode[struct{ A []string }]()) }, "the field A: values of type []string have no order"},
		{func() (KeyUse, error) { return limits(StructCode[struct{ A *int }]()) }, "the field A: values of type *int have no order"},
		{func() (KeyUse, error) { return limits(StructCode[struct{ a int }]()) }, "the field a is not exported"},
		{func() (KeyUse, error) {
			return limits(StructCode[struct {
				A int `order:"down"`
			}]())
		}, `the tag order:"down"; the only order is desc`},
		{func() (KeyUse, error) { return limits(Descending(JSONCode[visit]())) }, "no order for values of type mapreduce.visit"},
		{func() (KeyUse, error) {
			return limits(PairCode(StringCode, Descending(PairCode(Int64Code, JSONCode[int]()))))
		}, "the codec that Descending reverses has no order"},
	} {
		if _, err := c.limits(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if use, err := limits(PairCode(StringCode, JSONCode[int]())); use != KeyGrouped || err != nil {
		t.Errorf("a pair with JSON: %v, %v", use, err)
	}
	if use, err := limits(Descending(PairCode(StringCode, StructCode[visit]()))); use != KeySorted || err != nil {
		t.Errorf("a descending pair: %v, %v", use, err)
	}
}

// CodeOf refuses types of which JSON would lose fields without an error.
func TestCodeOfHiddenFields(t *testing.T) {
	type inner struct{ a int }
	type base struct{ N []int }
	type outer struct{ Inner *inner }
	type list struct {
		Next *list
		base
		Skipped func()   `json:"-"`
		own     chan int `json:"-"`
	}
	for want, c := range map[string]struct {
		use KeyUse
		err error
	}{
		"the field a is": limitsOf(CodeOf[inner]()), "the field Inner.a is": limitsOf(CodeOf[map[string][]outer]()),
		"": limitsOf(CodeOf[list]()), "\x00": limitsOf(CodeOf[[]time.Time]()),
	} {
		if (c.err == nil) != (strings.Trim(want, "\x00") == "") || c.err != nil && !strings.Contains(c.err.Error(), want) {
			t.Errorf("%q: %v", want, c.err)
		}
	}
	_ = list{own: nil}
	_ = inner{a: 1}
}

// The usual codec of a type keeps the order where there is one, and refuses a wrong order instead of dropping it.
func TestCodeOf(t *testing.T) {
	type wrong struct {
		N int `order:"down"`
	}
	type inner struct{ Wrong wrong }
	for name, c := range map[string]struct {
		use KeyUse
		err error
	}{
		"string": limitsOf(CodeOf[string]()), "int64": limitsOf(CodeOf[int64]()), "float64": limitsOf(CodeOf[float64]()), "none": limitsOf(CodeOf[None]()),
		"int": limitsOf(CodeOf[int]()), "bool": limitsOf(CodeOf[bool]()), "bytes": limitsOf(CodeOf[[]byte]()), "visit": limitsOf(CodeOf[visit]()),
		"grouped list": limitsOf(CodeOf[[]string]()), "grouped map": limitsOf(CodeOf[map[string]int]()), "grouped time": limitsOf(CodeOf[time.Time]()), "grouped any": limitsOf(CodeOf[any]()),
		"bad tag": limitsOf(CodeOf[wrong]()), "bad inner tag": limitsOf(CodeOf[inner]()),
	} {
		want := KeySorted
		if strings.HasPrefix(name, "grouped") {
			want = KeyGrouped
		}
		if bad := strings.HasPrefix(name, "bad"); c.use != want || (c.err != nil) != bad {
			t.Errorf("%s: %v, %v", name, c.use, c.err)
		}
	}
	for _, n := range []int{-300, -1, 0, 7} {
		b := CodeOf[int]().Append(nil, n)
		if got, err := CodeOf[int]().Decode(b); err != nil || got != n || bytes.Compare(b, CodeOf[int]().Append(nil, n+1)) >= 0 {
			t.Errorf("%d becomes %d, %v", n, got, err)
		}
	}
	b := CodeOf[[]string]().Append(nil, []string{"a"})
	if got, err := CodeOf[[]string]().Decode(b); err != nil || !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func limitsOf[T any](c Codec[T]) (out struct {
	use KeyUse
	err error
},
) {
	out.use, out.err = limits(c)
	return out
}
