package runfile

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/kv"
)

func openFile(t fatal, data []byte) *File {
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type fatal interface{ Fatal(...any) }

func all(t fatal, s kv.Stream) []record {
	var recs []record
	for s.Next() {
		recs = append(recs, record{string(s.Key()), string(s.Value())})
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return recs
}

// A section read on its own, from memory or through a reader, gives the
// records of its partition; the verifier agrees, however the bytes come.
func TestSectionsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := make([][]record, rapid.IntRange(1, 4).Draw(rt, "parts"))
		for p := range parts {
			keys := rapid.SliceOfN(rapid.StringN(0, 5, -1), 0, 50).Draw(rt, "keys")
			slices.Sort(keys)
			for _, k := range keys {
				parts[p] = append(parts[p], record{k, rapid.StringN(0, 50, -1).Draw(rt, "value")})
			}
		}
		codec := Codec(rapid.IntRange(0, len(coders)-1).Draw(rt, "codec"))
		data := writeRun(t, parts, Options{Codec: codec, BlockSize: rapid.SampledFrom([]int{64, 500, 0}).Draw(rt, "block")})
		f := openFile(rt, data)
		for p := range parts {
			s, ok := f.Section(p)
			text, err := s.MarshalText()
			var again Section
			if !ok || err != nil || again.UnmarshalText(text) != nil || again != s {
				rt.Fatalf("%+v became %q, %+v", s, text, again)
			}
			b := data[s.Offset : s.Offset+s.Length]
			inMemory, err := s.OpenBytes(b, "section")
			if err != nil {
				rt.Fatal(err)
			}
			for _, st := range []kv.Stream{inMemory, s.Open(bytes.NewReader(b), "section")} {
				if got := all(rt, st); !slices.Equal(got, parts[p]) {
					rt.Fatalf("got %q, want %q", got, parts[p])
				}
				if err := st.Close(); err != nil {
					rt.Fatal(err)
				}
			}
			checkVerifier(rt, s, b)
		}
	})
}

// checkVerifier wants b accepted, and nothing else.
func checkVerifier(t *rapid.T, s Section, b []byte) {
	verify := func(b []byte) error {
		v := NewVerifier(s, "section")
		for len(b) > 0 {
			n := min(len(b), rapid.IntRange(1, 100).Draw(t, "piece"))
			if _, err := v.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		return v.Finish()
	}
	if err := verify(b); err != nil {
		t.Fatal(err)
	}
	if err := verify(append(slices.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a byte too many: %v", err)
	}
	if len(b) == 0 {
		return
	}
	if err := verify(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); !errors.Is(err, ErrTruncated) {
		t.Fatalf("cut: %v", err)
	}
	bad := slices.Clone(b)
	bad[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	if err := verify(bad); err == nil {
		t.Fatal("a flipped bit passed")
	}
}

func TestSectionOfNoPartition(t *testing.T) {
	f := openFile(t, writeRun(t, [][]record{{{"a", "b"}}}, Options{}))
	for _, p := range []int{-1, 1} {
		if s, ok := f.Section(p); ok || s != (Section{}) {
			t.Errorf("partition %d: %+v", p, s)
		}
	}
	s, _ := f.Section(0)
	if _, err := s.OpenBytes(nil, "short"); !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v", err)
	}
}

// The buffers of other streams must not become a section's bytes.
func TestSectionBytesStayTheirOwners(t *testing.T) {
	data := writeRun(t, [][]record{{{"a", "b"}, {"c", "d"}}}, Options{})
	s, _ := openFile(t, data).Section(0)
	own := make([]byte, s.Length, pooled) // the size that is pooled
	copy(own, data[s.Offset:])
	st, err := s.OpenBytes(own, "own")
	if err != nil {
		t.Fatal(err)
	}
	all(t, st)
	_ = st.Close()
	if b := getBuffer(pooled); &b[0] == &own[0] {
		t.Error("the bytes have been given away")
	}
}

func FuzzSectionText(f *testing.F) {
	text, _ := Section{Offset: 8, Length: 100, Records: 3, Bytes: 50, MaxRaw: 70, MaxStored: 70}.MarshalText()
	f.Add(text)
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Section
		if s.UnmarshalText(text) != nil {
			return
		}
		if s.Offset < 8 || s.Length < 0 || s.MaxRaw < 0 || s.MaxStored < 0 {
			t.Errorf("accepted %+v", s)
		}
	})
}
