package apps

import (
	"bytes"
	"iter"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// tpchQ16 is the Parts/Supplier Relationship Query: how many suppliers without
// complaints offer the parts that a customer may want.
//
//	select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
//	from partsupp, part
//	where p_partkey = ps_partkey and p_brand <> 'BRAND' and p_type not like 'TYPE%'
//	  and p_size in (SIZES) and ps_suppkey not in
//	  (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
//	group by p_brand, p_type, p_size
//	order by supplier_cnt desc, p_brand, p_type, p_size
//
//	offers    part ⋈ partsupp    → n8 suppkey → group, joined on the part's key
//	trusted   supplier ▷ offers  → group ‖ n8 suppkey → (nothing), for suppliers without complaints
//	distinct  trusted            → group → (nothing), once for each supplier
//	count     distinct           → group → n8 count, folded in the maps
//	order     count              → brand|type|size|count
//
// A group is brand ‖ 0 ‖ type ‖ 0 ‖ n8 size, which sorts as the result does.
var tpchQ16 = stagesApp(mapreduce.App{
	Name:    "tpch-q16",
	Summary: "TPC-H query 16: how many suppliers without complaints offer which parts",
	Reads:   tpchTables,
	Writes:  "p_brand|p_type|p_size|supplier_cnt",
	Params: []mapreduce.Param{
		{Name: "brand", Default: "Brand#45", Help: "the brand that is not wanted"},
		{Name: "type", Default: "MEDIUM POLISHED", Help: "what types that are not wanted begin with"},
		{Name: "sizes", Default: "49,14,23,45,19,3,36,9", Help: "the sizes that are wanted, with commas"},
	},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"offers":   q16Offers,
		"trusted":  q16Trusted,
		"distinct": q16Distinct,
		"count":    q16Count,
		"order":    q16Order,
	},
}, tableFiles,
	stage{"offers", []string{"part", "partsupp"}},
	stage{"trusted", []string{"supplier", "offers"}},
	stage{"distinct", []string{"trusted"}},
	stage{"count", []string{"distinct"}},
	stage{"order", []string{"count"}},
)

func q16Offers(p mapreduce.Params) (*mapreduce.Job, error) {
	brand, kind := []byte(p.Get("brand")), []byte(p.Get("type"))
	sizes, err := wholeNumbers(p, "sizes")
	if err != nil {
		return nil, err
	}
	part := tableSide(leftSide, "part", 6, func(r *tableRow) bool {
		size := r.integer(5)
		// The conditions on part come before the join, as a SQL compiler pushes them down: about one part in
		// seven is left.
		if bytes.Equal(r.text(3), brand) || bytes.HasPrefix(r.text(4), kind) || !slices.Contains(sizes, size) {
			return false
		}
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		r.value = append(append(r.value[:0], r.text(3)...), 0)
		r.value = append(append(r.value, r.text(4)...), 0)
		r.value = mapreduce.AppendInt64(r.value, size)
		return true
	})
	partsupp := tableSide(rightSide, "partsupp", 2, func(r *tableRow) bool {
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		r.value = mapreduce.AppendInt64(r.value[:0], r.integer(1))
		return true
	})
	return joinJob("q16 offers",
		readsFrom(p, "part", mapreduce.Text, part),
		readsFrom(p, "partsupp", mapreduce.Text, partsupp),
		innerJoin(func(_, group, supplier []byte, out *mapreduce.Emitter) {
			out.Emit(supplier, group)
		})), nil
}

func q16Trusted(p mapreduce.Params) (*mapreduce.Job, error) {
	complained := tableSide(leftSide, "supplier", 7, func(r *tableRow) bool {
		// like '%Customer%Complaints%': the words in this order, with anything between them.
		_, after, found := bytes.Cut(r.text(6), []byte("Customer"))
		if !found || !bytes.Contains(after, []byte("Complaints")) {
			return false
		}
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		return true
	})
	return joinJob("q16 trusted",
		readsFrom(p, "supplier", mapreduce.Text, complained),
		readsFrom(p, "offers", mapreduce.Runs, recordSide(rightSide)),
		// "not in" of SQL. The suppliers with complaints are the left side, so that one is enough to drop all
		// offers.
		antiJoin(func(supplier, group []byte, out *mapreduce.Emitter) {
			out.Emit(append(bytes.Clone(group), supplier...), nil)
		})), nil
}

// q16Distinct leaves one of equal records; the combiner does so early.
func q16Distinct(mapreduce.Params) (*mapreduce.Job, error) {
	const supplierLen = 8 // of n8
	once := func(cut int) func() mapreduce.Reducer {
		return func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, _ iter.Seq[[]byte], out *mapreduce.Emitter) error {
				out.Emit(key[:len(key)-cut], nil)
				return nil
			})
		}
	}
	return &mapreduce.Job{
		Name:   "q16 distinct",
		Input:  mapreduce.Runs,
		Mapper: sameRecords,
		// Allowed, because the reduce, too, leaves one of equal records.
		Combiner: once(0),
		Reducer:  once(supplierLen),
		Output:   mapreduce.Runs,
	}, nil
}

func q16Count(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "q16 count",
		Input: mapreduce.Runs,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(group, _ []byte, out *mapreduce.Emitter) error {
				out.Add(group, 1)
				return nil
			})
		},
		Aggregate: mapreduce.Sum,
		Reducer:   sumReducer(keepAll),
		Output:    mapreduce.Runs,
	}, nil
}

// q16Order sorts by the negated count, then by the group.
func q16Order(mapreduce.Params) (*mapreduce.Job, error) {
	// order by supplier_cnt desc: the negated number in eight bytes sorts the largest first, and the group
	// sorts by brand, type and size.
	return sortedLines("q16 order", func() mapreduce.Mapper {
		var key, line []byte
		return mapreduce.MapperFunc(func(group, count []byte, out *mapreduce.Emitter) error {
			n := mapreduce.Int64(count)
			key = append(mapreduce.AppendInt64(key[:0], -n), group...)
			brand, rest, _ := bytes.Cut(group, []byte{0})
			kind, size, _ := bytes.Cut(rest, []byte{0})
			line = append(append(line[:0], brand...), '|')
			line = append(append(line, kind...), '|')
			line = append(strconv.AppendInt(line, mapreduce.Int64(size), 10), '|')
			line = strconv.AppendInt(line, n, 10)
			out.Emit(key, line)
			return nil
		})
	}), nil
}
