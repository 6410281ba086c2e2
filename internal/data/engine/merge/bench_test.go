package merge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// arenaStream is a stream like a sorted buffer in memory: fixed-size records, one after
// the other, the key first.
type arenaStream struct {
	data []byte
	keyN int
	at   int
	cur  []byte
}

const benchRecord = 100

func (s *arenaStream) Next() bool {
	if s.at == len(s.data) {
		return false
	}
	s.cur = s.data[s.at : s.at+benchRecord : s.at+benchRecord]
	s.at += benchRecord
	return true
}
func (s *arenaStream) Key() []byte   { return s.cur[:s.keyN] }
func (s *arenaStream) Value() []byte { return s.cur[s.keyN:] }
func (s *arenaStream) Err() error    { return nil }
func (s *arenaStream) Close() error  { return nil }

func benchStreams(k, n int, fill func(rng *rand.Rand, key []byte), keyN int) []*arenaStream {
	rng := rand.New(rand.NewPCG(1, 2))
	streams := make([]*arenaStream, k)
	for i := range streams {
		recs := make([][]byte, n/k)
		for j := range recs {
			recs[j] = make([]byte, benchRecord)
			fill(rng, recs[j][:keyN])
		}
		slices.SortFunc(recs, bytes.Compare)
		streams[i] = &arenaStream{data: bytes.Join(recs, nil), keyN: keyN}
	}
	return streams
}

func randomKey(rng *rand.Rand, key []byte) {
	binary.BigEndian.PutUint64(key, rng.Uint64())
	binary.BigEndian.PutUint16(key[8:], uint16(rng.Uint64()))
}

func sharedKey(rng *rand.Rand, key []byte) {
	copy(key, fmt.Sprintf("http://www.example.org/some/path/%07d", rng.IntN(1e7)))
}

func fewKeys(rng *rand.Rand, key []byte) {
	copy(key, fmt.Sprintf("word%06d", rng.IntN(1000)))
}

func BenchmarkMerge(b *testing.B) {
	for _, keys := range []struct {
		name string
		fill func(rng *rand.Rand, key []byte)
		n    int
	}{{"random", randomKey, 10}, {"shared", sharedKey, 40}, {"few", fewKeys, 10}} {
		for _, k := range []int{1, 2, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", keys.name, k), func(b *testing.B) {
				const total = 1 << 20
				arenas := benchStreams(k, total, keys.fill, keys.n)
				b.SetBytes(total * benchRecord)
				for b.Loop() {
					streams := make([]kv.Stream, k)
					for i, a := range arenas {
						a.at = 0
						streams[i] = a
					}
					m := New(streams)
					n := 0
					for m.Next() {
						n += len(m.Key()) + len(m.Value())
					}
					if n != total/k*k*benchRecord {
						b.Fatal(n, m.Err())
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/total, "ns/record")
			})
		}
	}
}
