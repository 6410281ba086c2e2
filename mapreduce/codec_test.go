package mapreduce

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkCodec draws two values and checks that both survive encoding and that their
// codes are ordered as compare says.
func checkCodec[T any](t *testing.T, c Codec[T], gen *rapid.Generator[T], compare func(a, b T) int) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		x, y := c.Append([]byte("xy"), a)[2:], c.Append(nil, b)
		for code, want := range map[*[]byte]T{&x: a, &y: b} {
			if got, err := c.Decode(*code); err != nil || compare(got, want) != 0 {
				t.Fatalf("%v comes back as %v, %v", want, got, err)
			}
		}
		if got, want := bytes.Compare(x, y), compare(a, b); got != want {
			t.Fatalf("codes of %v and %v compare as %d, want %d", a, b, got, want)
		}
	})
}

func TestCodecs(t *testing.T) {
	hard := rapid.OneOf(rapid.SampledFrom([]string{"", "\x00", "\x00\x00", "\x00\xff", "\xff", "a", "a\x00", "a\x00\x01"}), rapid.String())
	checkCodec(t, Int64Code, rapid.Int64(), cmp.Compare)
	checkCodec(t, Float64Code, rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, math.Inf(1), math.Inf(-1), 5e-324})), compareFloats)
	checkCodec(t, StringCode, hard, strings.Compare)
	checkCodec(t, BytesCode, rapid.SliceOf(rapid.Byte()), bytes.Compare)
	pairs := rapid.Custom(func(t *rapid.T) Pair[string, Pair[int64, string]] {
		return Pair[string, Pair[int64, string]]{hard.Draw(t, "1"), Pair[int64, string]{rapid.Int64Range(-2, 2).Draw(t, "2"), hard.Draw(t, "3")}}
	})
	checkCodec(t, PairCode(StringCode, PairCode(Int64Code, StringCode)), pairs, func(a, b Pair[string, Pair[int64, string]]) int {
		return cmp.Or(strings.Compare(a.First, b.First), cmp.Compare(a.Second.First, b.Second.First), strings.Compare(a.Second.Second, b.Second.Second))
	})
}

// compareFloats orders by size and, unlike cmp.Compare, -0 before 0.
func compareFloats(a, b float64) int {
	if c := cmp.Compare(a, b); c != 0 || math.Signbit(a) == math.Signbit(b) {
		return c
	}
	if math.Signbit(a) {
		return -1
	}
	return 1
}

func TestBadCodes(t *testing.T) {
	if _, err := Int64Code.Decode([]byte("1234567")); err == nil {
		t.Error("an integer of 7 bytes was decoded")
	}
	if _, err := Float64Code.Decode(nil); err == nil {
		t.Error("a number of no bytes was decoded")
	}
	for _, s := range []string{"", "a", "a\x00", "a\x00\xff", "a\x00\xffb\x00"} {
		if _, err := PairCode(StringCode, StringCode).Decode([]byte(s)); err == nil {
			t.Errorf("%q was decoded as a pair", s)
		}
		if _, _, ok := CutPair([]byte(s)); ok {
			t.Errorf("%q was cut", s)
		}
	}
}

func TestByFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"", "\x00", "\x00\xff", "a", "a\x00", "ab", "b"})
		a, b, n := part.Draw(t, "a"), part.Draw(t, "b"), rapid.IntRange(1, 100).Draw(t, "n")
		x := AppendPair(nil, []byte(a), []byte(part.Draw(t, "x")))
		y := AppendPair(nil, []byte(b), []byte(part.Draw(t, "y")))
		if got := SameFirst(x, y); got != (a == b) {
			t.Fatalf("SameFirst(%q, %q) = %v", x, y, got)
		}
		p, q := ByFirst(x, n), ByFirst(y, n)
		if p < 0 || p >= n || a == b && p != q {
			t.Fatalf("%q and %q of %d: %d and %d", x, y, n, p, q)
		}
	})
}
