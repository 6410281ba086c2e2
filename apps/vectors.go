package apps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// Vectors are written as numbers with commas, after a name and a colon or TAB
// if they have one:
//
//	1.5,2,-3e4
//	p7:1.5,2,-3e4

// parseVector appends the numbers of a line to v. It reports false if the line
// is no vector of finite numbers: infinities have no mean. Names may have
// colons; what follows the last one is numbers.
func parseVector(v []float64, line []byte) ([]float64, bool) {
	numbers := bytes.TrimRight(line, "\r")
	if end := bytes.LastIndexAny(numbers, ":\t"); end >= 0 {
		numbers = numbers[end+1:]
	}
	for {
		number, rest, more := bytes.Cut(numbers, []byte(","))
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 64)
		// ParseFloat also reads nan and inf, and 1e999 as an infinity with an error.
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return v, false
		}
		v = append(v, f)
		if !more {
			return v, true
		}
		numbers = rest
	}
}

// appendVector appends numbers with commas that read back exactly.
func appendVector(b []byte, v []float64) []byte {
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, f, 'g', -1, 64)
	}
	return b
}

// prepareCentroids returns the Prepare function of a job whose parameter
// "centroids" names a file. It stores the centroids in dst.
func prepareCentroids(p mapreduce.Params, dst *[][]float64) func(context.Context, *mapreduce.Files) error {
	return func(ctx context.Context, files *mapreduce.Files) (err error) {
		*dst, err = readCentroids(ctx, files, p.Get("centroids"))
		return err
	}
}

// readCentroids reads the centroids of clusters. If all lines begin with a
// number and a TAB, as kmeans writes them, the numbers identify
// the clusters; else clusters are numbered in their order, from 0.
func readCentroids(ctx context.Context, files *mapreduce.Files, uri string) ([][]float64, error) {
	if uri == "" {
		return nil, errors.New("parameter centroids is empty")
	}
	var centroids [][]float64
	var ids []int
	err := files.ReadRecords(ctx, uri, mapreduce.Text, func(_, line []byte) error {
		v, ok := parseVector(nil, line)
		if !ok || len(centroids) > 0 && len(v) != len(centroids[0]) {
			return fmt.Errorf("%s: line %d, %.80q, is no vector of the right length", uri, len(centroids)+1, line)
		}
		centroids = append(centroids, v)
		id, _, _ := bytes.Cut(line, []byte("\t"))
		if n, err := strconv.Atoi(string(id)); err == nil {
			ids = append(ids, n)
		}
		return nil
	})
	if err == nil && len(centroids) == 0 {
		err = fmt.Errorf("%s: no centroids", uri)
	}
	// A file with numbers on some lines only is one without numbers: they would be coordinates.
	if err != nil || len(ids) != len(centroids) {
		return centroids, err
	}
	ordered := make([][]float64, len(ids))
	for i, id := range ids {
		// The first numbers are no numbers of clusters, so the lines count.
		if id < 0 || id >= len(ids) || ordered[id] != nil {
			return centroids, nil
		}
		ordered[id] = centroids[i]
	}
	return ordered, nil
}

// metric is a distance of two vectors of one length; only its order matters.
// Machines must agree on it to the last bit, or attempts of one task could put
// a point into different clusters.
type metric func(a, b []float64) float64

func metricParam(p mapreduce.Params) (metric, error) {
	switch m := p.Get("metric"); m {
	case "euclidean":
		return squaredDistance, nil
	case "cosine":
		return cosineDistance, nil
	default:
		return nil, fmt.Errorf("parameter metric: %q is neither euclidean nor cosine", m)
	}
}

var metricHelp = mapreduce.Param{Name: "metric", Default: "euclidean", Help: "what is near: euclidean, cosine"}

// squaredDistance is the square of the Euclidean distance.
func squaredDistance(a, b []float64) (sum float64) {
	for i, x := range a {
		d := x - b[i]
		// The conversion keeps the product from being fused with the sum, so
		// that all machines agree.
		sum += float64(d * d)
	}
	return sum
}

// cosineDistance is one minus the cosine of the angle; vectors of length 0 are
// at right angles to all.
func cosineDistance(a, b []float64) float64 {
	var ab, aa, bb float64
	for i, x := range a {
		ab += float64(x * b[i])
		aa += float64(x * x)
		bb += float64(b[i] * b[i])
	}
	if aa == 0 || bb == 0 {
		return 1
	}
	return 1 - ab/math.Sqrt(aa)/math.Sqrt(bb)
}

// nearest returns the first of the centroids that is nearest to v.
func nearest(centroids [][]float64, v []float64, d metric) int {
	best, least := 0, math.Inf(1)
	for i, c := range centroids {
		// Less and not at most: of equally near centroids the first one wins on each machine. Distances that
		// overflow are not less than infinity, and such a point goes to cluster 0.
		if x := d(v, c); x < least {
			best, least = i, x
		}
	}
	return best
}
