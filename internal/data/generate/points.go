package generate

import (
	"context"
	"io"
	"strconv"
)

// Coordinates are integers, in thousandths.
const (
	pointRange  = 100_000 // centres lie between -100 and 100
	pointSpread = 6000    // of the points of a cluster: the sum of four times -1.5 to 1.5
	spreadTerms = 4
)

// points makes vectors in clusters, for kmeans and classification: on each
// line a name, a colon and numbers with commas.
//
//	p17:-3.250,81.007,…
//
// Centres are spread evenly; points are spread about them by a sum of even
// distributions, which is nearly a normal one.
func points(ctx context.Context, o Options) error {
	clusters, err := o.Params.Int("clusters", 1)
	if err != nil {
		return err
	}
	dimensions, err := o.Params.Int("dimensions", 1)
	if err != nil {
		return err
	}
	r := rng{derive(o.Seed, "centres", 0)}
	centres := make([][]int64, clusters)
	for i := range centres {
		centres[i] = make([]int64, dimensions)
		for d := range centres[i] {
			centres[i][d] = int64(r.below(2*pointRange+1)) - pointRange
		}
	}
	return inParts(pointParts, partSize, func(w io.Writer, p part, _ Params) error {
		return writePoints(w, p, centres)
	})(ctx, o)
}

// writePoints writes the points of one part.
func writePoints(w io.Writer, p part, centres [][]int64) error {
	r := rng{p.seed}
	// A point has at least four bytes for each number, so that the bytes before
	// a part are more than the points in them.
	id := p.offset
	return writeLines(w, p.size, func(b []byte) []byte {
		b = append(b, 'p')
		b = append(strconv.AppendInt(b, id, 10), ':')
		id++
		for d, x := range centres[r.below(uint64(len(centres)))] {
			if d > 0 {
				b = append(b, ',')
			}
			for range spreadTerms {
				x += int64(r.below(2*pointSpread/spreadTerms+1)) - pointSpread/spreadTerms
			}
			b = appendThousandths(b, x)
		}
		return append(b, '\n')
	})
}

// appendThousandths appends n/1000 with its three decimals.
func appendThousandths(b []byte, n int64) []byte {
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendInt(b, n/1000, 10)
	return append(b, '.', byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
}
