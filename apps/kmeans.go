package apps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// kMeans finds clusters by Lloyd's algorithm, as K-Means of the PUMA suite does:
// each iteration is a job that puts every point to the nearest centroid and
// makes the means of the clusters the next centroids, until they rest. Sums are
// exact, so every run gives the same centroids to the last bit. A cluster that
// loses all points stays where it was.
//
//	input       points: numbers with commas, perhaps after a name and a colon;
//	            others, and ones of another length, are counted and skipped
//	parameters  k and seed: that many different points, or all if there are
//	            fewer, picked at random, are the first centroids;
//	            or centroids: a file of centroids
//	            iterations: the largest number of iterations
//	            tolerance: stop when no centroid moves farther than this
//	            assign=true: write the points with their clusters instead
//	output      cluster TAB centroid; or cluster TAB point
//
// The steps of the chain:
//
//	points ─► pick ─► centroids ─┬─► iterate ─► centroids ─┐
//	                             └──────── moved? ◄────────┤
//	                                         rest: result, or assign
var kMeans = &mapreduce.App{
	Name:    "kmeans",
	Summary: "finds clusters of points by iterated means",
	Reads:   "points: name:number,number,…",
	Writes:  "cluster TAB centroid",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "k", Default: "8", Help: "number of clusters"},
		{Name: "seed", Default: "1", Help: "picks the points to begin with"},
		{Name: "centroids", Help: "file of centroids to begin with, instead of k"},
		{Name: "iterations", Default: "20", Help: "stop after so many"},
		{Name: "tolerance", Default: "0", Help: "stop when no centroid moves farther"},
		{Name: "assign", Default: "false", Help: "write the points with their clusters"},
		metricHelp,
	},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"pick":    pickJob,
		"iterate": iterateJob,
		"assign":  classificationJob,
		"result":  resultJob,
	},
	Chain: kMeansChain,
}

func kMeansChain(ctx context.Context, c *mapreduce.Chain) error {
	assign, err := boolParam(c.Params, "assign")
	if err != nil {
		return err
	}
	limit, err := c.Params.Int("iterations", 1)
	if err != nil {
		return err
	}
	tolerance, err := c.Params.Float("tolerance")
	if err != nil {
		return err
	}
	p := maps.Clone(c.Params)
	if p["centroids"] == "" {
		if err := pick(ctx, c, p); err != nil {
			return err
		}
	}
	for i := int64(1); i <= limit; i++ {
		next := c.Temp(fmt.Sprintf("iteration-%d", i))
		if err := c.Step(ctx, "iterate", p, c.Inputs, next); err != nil {
			return err
		}
		// Between two steps and not in one: only the chain sees the centroids of both iterations.
		moved, err := movement(ctx, c.Files(), p["centroids"], next)
		if err != nil {
			return err
		}
		p = maps.Clone(p)
		p["centroids"] = next
		if moved <= tolerance {
			break
		}
	}
	if assign {
		return c.Step(ctx, "assign", p, c.Inputs, c.Output())
	}
	return c.Step(ctx, "result", p, []string{p["centroids"]}, c.Output())
}

// pick makes centroids to begin with.
func pick(ctx context.Context, c *mapreduce.Chain, p mapreduce.Params) error {
	picked := c.Temp("picked")
	if err := c.Step(ctx, "pick", p, c.Inputs, picked); err != nil {
		return err
	}
	found := false
	// Without points the next step would fail for an empty file of centroids, with an error that does not
	// help.
	err := c.Files().ReadRecords(ctx, picked, mapreduce.Text, func(_, _ []byte) error {
		found = true
		return nil
	})
	if err == nil && !found {
		err = errors.New("kmeans: the input has no points")
	}
	p["centroids"] = picked
	return err
}

// movement returns the largest distance that a centroid has moved.
func movement(ctx context.Context, files *mapreduce.Files, from, to string) (float64, error) {
	a, err := readCentroids(ctx, files, from)
	if err != nil {
		return 0, err
	}
	b, err := readCentroids(ctx, files, to)
	if err != nil {
		return 0, err
	}
	// A reducer writes a centroid for each cluster. Fewer mean that somebody has changed the file between two
	// steps.
	if len(a) != len(b) {
		return 0, errors.New("the number of clusters changed")
	}
	var most float64
	for i := range a {
		most = max(most, math.Sqrt(squaredDistance(a[i], b[i])))
	}
	return most, nil
}

// pickJob picks k different points at random: the points with the smallest hashes.
func pickJob(p mapreduce.Params) (*mapreduce.Job, error) {
	k, err := p.Int("k", 1)
	if err != nil {
		return nil, err
	}
	seed, err := p.Int("seed", 0)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:        "kmeans: pick",
		Mapper:      func() mapreduce.Mapper { return &picker{k: int(k), seed: seed} },
		Partitioner: oneReduce,
		Reducer:     func() mapreduce.Reducer { return &pickedWriter{k: k} },
		Reduces:     1,
	}, nil
}

// picker keeps the k points with the smallest hashes. A hash depends on the
// coordinates and the seed alone, so the choice does not depend on how the
// input is split, and equal points are one.
type picker struct {
	k     int
	seed  int64
	best  [][]byte // hash and point; sorted up to k, newer ones behind
	point []float64
}

// Map takes a point.
func (m *picker) Map(_, line []byte, _ *mapreduce.Emitter) error {
	var ok bool
	// Not counted as malformed here: the iterations count these lines.
	if m.point, ok = parseVector(m.point[:0], line); !ok {
		return nil
	}
	// The numbers and not the line: points with names, or with 1.0 instead of 1, would be different and give
	// two centroids at one point.
	text := appendVector(nil, m.point)
	h := fnv.New64a()
	h.Write(mapreduce.AppendInt64(nil, m.seed))
	h.Write(text)
	m.best = append(m.best, append(mapreduce.AppendInt64(nil, mix(h.Sum64())), text...))
	// As many new points as are kept, so that sorting costs each point little.
	if len(m.best) >= 2*m.k+64 {
		m.shrink()
	}
	return nil
}

// mix spreads the bits of a hash.
func mix(h uint64) int64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int64(h ^ h>>31)
}

func (m *picker) shrink() {
	slices.SortFunc(m.best, bytes.Compare)
	m.best = slices.CompactFunc(m.best, bytes.Equal)
	m.best = m.best[:min(m.k, len(m.best))]
}

// Finish emits the points kept.
func (m *picker) Finish(out *mapreduce.Emitter) error {
	m.shrink()
	for _, b := range m.best {
		out.Emit(b, nil)
	}
	return nil
}

// pickedWriter writes the first k points and numbers them.
type pickedWriter struct{ k, n int64 }

// Reduce takes a point.
func (w *pickedWriter) Reduce(key []byte, _ iter.Seq[[]byte], out *mapreduce.Emitter) error {
	if w.n < w.k {
		out.Emit(strconv.AppendInt(nil, w.n, 10), key[8:])
		w.n++
	}
	return nil
}

// iterateJob makes the next centroids. All its values are integers to be added
// up, so that the job's fold does most of the work and no order of additions
// can change a bit of the result:
//
//	key: cluster, dimension, limb   value: that limb of the sum (see exactSum)
//	key: cluster, -1, 0             value: number of points
//
// All keys of a cluster go to one reduce, where the count comes first.
func iterateJob(p mapreduce.Params) (*mapreduce.Job, error) {
	distance, err := metricParam(p)
	if err != nil {
		return nil, err
	}
	var centroids [][]float64
	return &mapreduce.Job{
		Prepare: prepareCentroids(p, &centroids),
		Name:    "kmeans: iterate",
		Mapper: func() mapreduce.Mapper {
			m := &clusterSums{counts: make([]int64, len(centroids)), sums: make([][]exactSum, len(centroids))}
			m.centroids, m.distance = centroids, distance
			return m
		},
		Aggregate: mapreduce.Sum,
		Partitioner: func(key []byte, n int) int {
			// Not the hash of the key, which has dimension and limb in it, too.
			return int(mapreduce.Int64(key) % int64(n))
		},
		Reducer: func() mapreduce.Reducer { return &meanWriter{centroids: centroids, cluster: -1} },
		Reduces: 1,
	}, nil
}

// clusterSums adds up the points of each cluster.
type clusterSums struct {
	classifier
	counts []int64
	sums   [][]exactSum // of each cluster that has points here
}

// Map takes a point.
func (m *clusterSums) Map(_, line []byte, _ *mapreduce.Emitter) error {
	var ok bool
	if m.point, ok = parseVector(m.point[:0], line); !ok || len(m.point) != len(m.centroids[0]) {
		m.malformed++
		return nil
	}
	c := nearest(m.centroids, m.point, m.distance)
	m.counts[c]++
	// A sum of one dimension has 68 limbs, half a kilobyte; a map rarely has points of all clusters.
	if m.sums[c] == nil {
		m.sums[c] = make([]exactSum, len(m.point))
	}
	for i, x := range m.point {
		m.sums[c][i].add(x)
	}
	return nil
}

// Finish emits the sums, and a count for each cluster even if it is 0: the
// reducer writes a centroid for each cluster that has a record.
func (m *clusterSums) Finish(out *mapreduce.Emitter) error {
	emit := func(cluster, dimension, limb int, n int64) {
		m.key = mapreduce.AppendInt64(m.key[:0], int64(cluster))
		m.key = mapreduce.AppendInt64(m.key, int64(dimension))
		m.key = mapreduce.AppendInt64(m.key, int64(limb))
		out.Add(m.key, n)
	}
	for c, n := range m.counts {
		// Before the dimensions, in the order of keys: the reducer begins a cluster with it.
		emit(c, -1, 0, n)
		for d := range m.sums[c] {
			s := &m.sums[c][d]
			// Before the limbs are emitted: less than 2^32 each, two thousand million maps can add theirs
			// without an overflow.
			s.carry()
			for l, v := range s.limbs {
				if v != 0 {
					emit(c, d, l, v)
				}
			}
		}
	}
	return m.classifier.Finish(out)
}

// meanWriter puts the sums of each cluster together and writes its mean.
// It relies on the order of keys: a cluster's count comes first, and all its limbs before the next cluster.
type meanWriter struct {
	centroids [][]float64
	cluster   int64 // -1 before the first
	count     int64
	sums      []exactSum
}

// Reduce takes one limb or count.
func (w *meanWriter) Reduce(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	cluster, dimension, limb := mapreduce.Int64(key), mapreduce.Int64(key[8:]), mapreduce.Int64(key[16:])
	if dimension < 0 {
		w.write(out)
		w.cluster, w.count = cluster, total(values)
		w.sums = make([]exactSum, len(w.centroids[0]))
		return nil
	}
	w.sums[dimension].limbs[limb] = total(values)
	return nil
}

// Finish writes the last cluster.
func (w *meanWriter) Finish(out *mapreduce.Emitter) error {
	w.write(out)
	return nil
}

func (w *meanWriter) write(out *mapreduce.Emitter) {
	if w.cluster < 0 {
		return
	}
	mean := slices.Clone(w.centroids[w.cluster])
	for d := range mean {
		// The mean of no points does not exist. The cluster keeps its centroid.
		if w.count > 0 {
			mean[d] = w.sums[d].over(w.count)
		}
	}
	out.Emit(strconv.AppendInt(nil, w.cluster, 10), appendVector(nil, mean))
}

// resultJob writes the last centroids in the order of their clusters.
func resultJob(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "kmeans: result",
		Input: mapreduce.KeyValue,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(id, centroid []byte, out *mapreduce.Emitter) error {
				n, err := strconv.ParseInt(string(id), 10, 64)
				// As bytes the text 10 comes before 9.
				out.Emit(mapreduce.AppendInt64(nil, n), centroid)
				return err
			})
		},
		Partitioner: oneReduce,
		Reducer:     func() mapreduce.Reducer { return mapreduce.ReducerFunc(writeNumbered) },
		Reduces:     1,
	}, nil
}
