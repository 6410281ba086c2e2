package apps

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// tpchQ15 is the Top Supplier Query: who sold most in three months.
//
//	create view revenue (supplier_no, total_revenue) as
//	  select l_suppkey, sum(l_extendedprice * (1 - l_discount)) from lineitem
//	  where l_shipdate >= date 'DATE' and l_shipdate < date 'DATE' + interval '3' month
//	  group by l_suppkey
//	select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
//	where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
//	order by s_suppkey
//
//	revenue   lineitem           → n8 suppkey → n8 revenue, a sum folded in the maps
//	maximum   revenue            → (nothing) → n8 the greatest revenue
//	best      revenue ⋈ maximum  → n8 suppkey → n8 revenue, joined on the revenue
//	suppliers best ⋈ supplier    → n8 suppkey → the line of the result, joined on the key
//	order     suppliers          → suppkey|name|address|phone|revenue, in order of suppkey
//
// Revenue is summed in ten-thousandths, exactly; the result is rounded to
// cents once. Suppliers tie only if they are equal to the last digit.
var tpchQ15 = stagesApp(mapreduce.App{
	Name:    "tpch-q15",
	Summary: "TPC-H query 15: the suppliers with the greatest revenue of three months",
	Reads:   tpchTables,
	Writes:  "s_suppkey|s_name|s_address|s_phone|total_revenue",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "date", Default: "1996-01-01", Help: "first day of the three months, itself the first of a month"},
	},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"revenue":   q15Revenue,
		"maximum":   q15Maximum,
		"best":      q15Best,
		"suppliers": q15Suppliers,
		"order": func(mapreduce.Params) (*mapreduce.Job, error) {
			return sortedLines("q15 order", sameRecords), nil
		},
	},
}, tableFiles,
	stage{"revenue", []string{"lineitem"}},
	stage{"maximum", []string{"revenue"}},
	stage{"best", []string{"revenue", "maximum"}},
	stage{"suppliers", []string{"best", "supplier"}},
	stage{"order", []string{"suppliers"}},
)

// q15Quarter returns the first day and the day after the last one. Dates as
// the tables write them compare like their text.
func q15Quarter(p mapreduce.Params) (from, to []byte, err error) {
	day, err := time.Parse(time.DateOnly, p.Get("date"))
	if err != nil {
		return nil, nil, fmt.Errorf("parameter date: %q is not a date like 1996-01-01", p.Get("date"))
	}
	if day.Day() != 1 {
		return nil, nil, fmt.Errorf("parameter date: %s is not the first day of a month", p.Get("date"))
	}
	return []byte(day.Format(time.DateOnly)), []byte(day.AddDate(0, 3, 0).Format(time.DateOnly)), nil
}

func q15Revenue(p mapreduce.Params) (*mapreduce.Job, error) {
	from, to, err := q15Quarter(p)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name: "q15 revenue",
		Mapper: rowsOf("lineitem", 11, func(r *tableRow, out *mapreduce.Emitter) {
			shipped := r.date(10)
			if bytes.Compare(shipped, from) < 0 || bytes.Compare(shipped, to) >= 0 {
				return
			}
			r.key = mapreduce.AppendInt64(r.key[:0], r.integer(2))
			// Cents times hundredths are ten-thousandths: extendedprice * (1 - discount) without a fraction.
			out.Add(r.key, r.hundredths(5)*(100-r.hundredths(6)))
		}),
		Aggregate: mapreduce.Sum,
		Reducer:   sumReducer(keepAll),
		Output:    mapreduce.Runs,
	}, nil
}

func q15Maximum(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "q15 maximum",
		Input: mapreduce.Runs,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, revenue []byte, out *mapreduce.Emitter) error {
				// One key, so that one reduce has the maximum of all; each map sends one record.
				out.Add([]byte{}, mapreduce.Int64(revenue))
				return nil
			})
		},
		Aggregate: mapreduce.Max,
		Reducer:   foldReducer(func(a, b int64) int64 { return max(a, b) }, keepAll),
		Output:    mapreduce.Runs,
	}, nil
}

func q15Best(p mapreduce.Params) (*mapreduce.Job, error) {
	return joinJob("q15 best",
		// The left side has one record. The right side's suppliers of that revenue stream past it; there may
		// be several.
		readsFrom(p, "maximum", mapreduce.Runs, valueSide(leftSide)),
		readsFrom(p, "revenue", mapreduce.Runs, valueSide(rightSide)),
		innerJoin(func(revenue, _, supplier []byte, out *mapreduce.Emitter) {
			out.Emit(supplier, revenue)
		})), nil
}

func q15Suppliers(p mapreduce.Params) (*mapreduce.Job, error) {
	supplier := tableSide(rightSide, "supplier", 5, func(r *tableRow) bool {
		r.key = mapreduce.AppendInt64(r.key[:0], r.integer(0))
		r.value = append(append(r.value[:0], r.text(1)...), '|')
		r.value = append(append(r.value, r.text(2)...), '|')
		r.value = append(r.value, r.text(4)...)
		return true
	})
	return joinJob("q15 suppliers",
		readsFrom(p, "best", mapreduce.Runs, recordSide(leftSide)),
		readsFrom(p, "supplier", mapreduce.Text, supplier),
		innerJoin(func(key, revenue, columns []byte, out *mapreduce.Emitter) {
			line := append(strconv.AppendInt(nil, mapreduce.Int64(key), 10), '|')
			line = append(append(line, columns...), '|')
			// Half up. Revenue is not negative, so no half is rounded the other way.
			out.Emit(key, appendHundredths(line, (mapreduce.Int64(revenue)+50)/100))
		})), nil
}
