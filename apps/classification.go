package apps

import (
	"iter"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// classification puts each point into the cluster with the nearest of the given
// centroids, as Classification of the PUMA suite does (whose points are movies
// and whose similarity is the cosine).
//
//	input       points: numbers with commas, perhaps after a name and a colon;
//	            others, and ones of another length, are counted and skipped
//	parameters  centroids: a file of centroids; metric: euclidean or cosine
//	output      cluster TAB point, the points of a cluster in input order
var classification = &mapreduce.App{
	Name:    "classification",
	Summary: "puts points into the clusters of the nearest given centroids",
	Reads:   "points: name:number,number,…",
	Writes:  "cluster TAB point",
	Params: []mapreduce.Param{
		{Name: "centroids", Required: true, Help: "file of centroids, a vector on each line"},
		metricHelp,
	},
	Job: classificationJob,
}

func classificationJob(p mapreduce.Params) (*mapreduce.Job, error) {
	distance, err := metricParam(p)
	if err != nil {
		return nil, err
	}
	var centroids [][]float64
	return &mapreduce.Job{
		Prepare: prepareCentroids(p, &centroids),
		Name:    "classification",
		Mapper:  func() mapreduce.Mapper { return &classifier{centroids: centroids, distance: distance} },
		Reducer: func() mapreduce.Reducer { return mapreduce.ReducerFunc(writeNumbered) },
	}, nil
}

// classifier emits points by cluster.
// centroids is shared by all tasks of the process and never changed; all other fields belong to the task.
type classifier struct {
	centroids [][]float64
	distance  metric
	point     []float64
	key       []byte
	malformed int64
}

// Map takes a point.
func (c *classifier) Map(_, line []byte, out *mapreduce.Emitter) error {
	var ok bool
	if c.point, ok = parseVector(c.point[:0], line); !ok || len(c.point) != len(c.centroids[0]) {
		c.malformed++
		return nil
	}
	c.key = mapreduce.AppendInt64(c.key[:0], int64(nearest(c.centroids, c.point, c.distance)))
	out.Emit(c.key, line)
	return nil
}

// Finish counts the lines that were not points.
func (c *classifier) Finish(out *mapreduce.Emitter) error {
	return countMalformed(out, c.malformed)
}

// writeNumbered writes values under a key that is a number.
func writeNumbered(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	number := strconv.AppendInt(nil, mapreduce.Int64(key), 10)
	for v := range values {
		out.Emit(number, v)
	}
	return nil
}
