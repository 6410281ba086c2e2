package apps

import (
	"iter"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// tpchQ18 is the Large Volume Customer Query: the greatest orders among those
// of more than a given number of pieces.
//
//	select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
//	from customer, orders, lineitem
//	where o_orderkey in (select l_orderkey from lineitem
//	                     group by l_orderkey having sum(l_quantity) > QUANTITY)
//	  and c_custkey = o_custkey and o_orderkey = l_orderkey
//	group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
//	order by o_totalprice desc, o_orderdate          -- the first 100 rows
//
//	large   lineitem          → n8 orderkey → n8 pieces, a sum folded in the maps
//	priced  large ⋈ orders    → n8 custkey → order, joined on the order's key
//	owned   customer ⋈ priced → n8 orderkey → n8 custkey ‖ order ‖ name, joined on the customer's
//	pieces  owned ⋈ lineitem  → rank → line of the result; joined and summed by the order's key
//	top     pieces            → name|custkey|orderkey|date|price|pieces, the first rows
//
// An order is n8 orderkey ‖ n8 price ‖ date; a rank is n8 -price ‖ date ‖ n8
// orderkey, whose last part orders what the query leaves open.
var tpchQ18 = stagesApp(mapreduce.App{
	Name:    "tpch-q18",
	Summary: "TPC-H query 18: the greatest orders of many pieces, and whose they are",
	Reads:   tpchTables,
	Writes:  "c_name|c_custkey|o_orderkey|o_orderdate|o_totalprice|sum(l_quantity)",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "quantity", Default: "300", Help: "how many pieces an order must exceed"},
		{Name: "limit", Default: "100", Help: "how many orders to write"},
	},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"large":  q18Large,
		"priced": q18Priced,
		"owned":  q18Owned,
		"pieces": q18Pieces,
		"top":    q18Top,
	},
}, tableFiles,
	stage{"large", []string{"lineitem"}},
	stage{"priced", []string{"large", "orders"}},
	stage{"owned", []string{"customer", "priced"}},
	stage{"pieces", []string{"owned", "lineitem"}},
	stage{"top", []string{"pieces"}},
)

// The columns of an order, in bytes.
const (
	orderKeyEnd   = 8
	orderPriceEnd = 16
	orderDateEnd  = 26
)

func q18Large(p mapreduce.Params) (*mapreduce.Job, error) {
	quantity, err := p.Int("quantity", 0)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name: "q18 large",
		Mapper: rowsOf("lineitem", 5, func(r *tableRow, out *mapreduce.Emitter) {
			r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
			// Quantities have two decimals in the tables, though all that dbgen writes are whole.
			out.Add(r.key, r.hundredths(4))
		}),
		Aggregate: mapreduce.Sum,
		// HAVING asks for the whole sum, so the fold in the maps must not drop a part that is still too
		// small.
		Reducer: sumReducer(func(sum int64) bool { return sum > 100*quantity }),
		Output:  mapreduce.Runs,
	}, nil
}

func q18Priced(p mapreduce.Params) (*mapreduce.Job, error) {
	orders := tableSide(rightSide, "orders", 5, func(r *tableRow) bool {
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		r.value = mapreduce.AppendInt64(r.value[:0], r.integer(1))
		r.value = append(r.value, r.key...)
		r.value = mapreduce.AppendInt64(r.value, r.hundredths(3))
		r.value = append(r.value, r.date(4)...)
		return true
	})
	// "large" is the left side: an order of more than 300 pieces is one in 25,000, and the others are dropped
	// here.
	return joinJob("q18 priced",
		readsFrom(p, "large", mapreduce.Runs, recordSide(leftSide)),
		readsFrom(p, "orders", mapreduce.Text, orders),
		innerJoin(func(_, _, right []byte, out *mapreduce.Emitter) {
			out.Emit(right[:8], right[8:])
		})), nil
}

func q18Owned(p mapreduce.Params) (*mapreduce.Job, error) {
	customer := tableSide(leftSide, "customer", 2, func(r *tableRow) bool {
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		r.value = append(r.value[:0], r.text(1)...)
		return true
	})
	return joinJob("q18 owned",
		readsFrom(p, "customer", mapreduce.Text, customer),
		readsFrom(p, "priced", mapreduce.Runs, recordSide(rightSide)),
		innerJoin(func(key, name, order []byte, out *mapreduce.Emitter) {
			value := append(append([]byte(nil), key...), order...)
			out.Emit(order[:orderKeyEnd], append(value, name...))
		})), nil
}

func q18Pieces(p mapreduce.Params) (*mapreduce.Job, error) {
	lineitem := func() mapreduce.Mapper {
		return &pieceMapper{
			tableRow: tableRow{table: "lineitem", sep: '|', columns: 5},
			marker:   marker{side: rightSide},
		}
	}
	return joinJob("q18 pieces",
		readsFrom(p, "owned", mapreduce.Runs, recordSide(leftSide)),
		readsFrom(p, "lineitem", mapreduce.Text, lineitem),
		func() mapreduce.Reducer { return mapreduce.ReducerFunc(q18Sum) }), nil
}

// pieceMapper emits the right side of the join: n8 orderkey → n8 pieces. The
// items of an order are neighbours in the table, so it adds them up before they
// are shuffled; a table in another order gives more records and the same sums.
type pieceMapper struct {
	tableRow
	marker
	order, pieces int64
}

// Map reads an item.
func (m *pieceMapper) Map(_, line []byte, out *mapreduce.Emitter) error {
	if len(line) == 0 {
		return nil
	}
	if n := m.split(line); n < m.columns {
		return m.short(n)
	}
	if order := m.integer(0); order != m.order {
		m.flush(out)
		m.order = order
	}
	m.pieces += m.hundredths(4)
	return m.err
}

// Finish emits the last order.
func (m *pieceMapper) Finish(out *mapreduce.Emitter) error {
	m.flush(out)
	return nil
}

// flush emits the order so far, if it has pieces at all.
func (m *pieceMapper) flush(out *mapreduce.Emitter) {
	if m.pieces == 0 {
		return
	}
	m.tableRow.key = mapreduce.AppendInt64(m.tableRow.key[:0], m.order)
	m.tableRow.value = mapreduce.AppendInt64(m.tableRow.value[:0], m.pieces)
	m.emit(m.tableRow.key, m.tableRow.value, out)
	m.pieces = 0
}

// q18Sum adds up the pieces of one order, if it is wanted: its left value, the
// only one since order keys are unique, then comes first.
func q18Sum(_ []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	var customer, order, name []byte
	var pieces int64
	for v := range values {
		if v[0] == leftSide {
			v = append([]byte(nil), v[1:]...)
			customer, order, name = v[:8], v[8:8+orderDateEnd], v[8+orderDateEnd:]
			continue
		}
		if order == nil {
			return nil
		}
		pieces += mapreduce.Int64(v[1:])
	}
	if order == nil {
		return nil
	}
	price, date := mapreduce.Int64(order[orderKeyEnd:orderPriceEnd]), order[orderPriceEnd:]
	rank := append(mapreduce.AppendInt64(nil, -price), date...)
	rank = append(rank, order[:orderKeyEnd]...)
	// name is the end of the copy above, so it may grow.
	line := append(name, '|')
	line = append(strconv.AppendInt(line, mapreduce.Int64(customer), 10), '|')
	line = append(strconv.AppendInt(line, mapreduce.Int64(order), 10), '|')
	line = append(append(line, date...), '|')
	line = append(appendHundredths(line, price), '|')
	out.Emit(rank, appendHundredths(line, pieces))
	return nil
}

// q18Top sorts all in one reduce, which writes the first rows.
func q18Top(p mapreduce.Params) (*mapreduce.Job, error) {
	limit, err := p.Int("limit", 0)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:        "q18 top",
		Input:       mapreduce.Runs,
		Mapper:      sameRecords,
		Partitioner: oneReduce,
		Reducer: func() mapreduce.Reducer {
			written := int64(0)
			return mapreduce.ReducerFunc(func(_ []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				for v := range values {
					// A reduce cannot end early with success, so it passes over the other groups.
					if written == limit {
						return nil
					}
					written++
					out.Emit(nil, v)
				}
				return nil
			})
		},
		Reduces: 1,
	}, nil
}
