// Command customers joins a CSV file of customers with Parquet files of orders, and prints what
// each customer has spent:
//
//	customers --input customers=customers --input orders=orders --output spent
//
// Customers without orders have zeros; orders of unknown customers are counted.
package main

import (
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

type customer struct {
	ID      int64  `column:"id"`
	Name    string `column:"name"`
	Country string `column:"country"`
}

type order struct {
	Customer int64   `column:"customer"`
	Amount   float64 `column:"amount"`
}

type spent struct {
	Name    string  `column:"name"`
	Country string  `column:"country"`
	Orders  int     `column:"orders"`
	Amount  float64 `column:"amount"`
}

var (
	customers = mapreduce.TableOf[customer]()
	orders    = mapreduce.TableOf[order]()
	totals    = mapreduce.TableOf[spent]()
	join      = mapreduce.Join[int64, customer, order]{Key: mapreduce.Int64Code, Left: customers, Right: orders}
)

func main() {
	mapreduce.Main(&mapreduce.Job{
		Name: "customers", Output: totals.Output("csv"),
		Sources: []mapreduce.Source{
			{Name: "customers", Input: customers.Input("csv"), Mapper: join.LeftMapper(func(_, line []byte, out *mapreduce.TypedEmitter[int64, customer]) error {
				c, err := customers.Decode(line)
				out.Put(c.ID, c)
				return err
			})},
			{Name: "orders", Input: orders.Input("parquet"), Mapper: join.RightMapper(func(_, line []byte, out *mapreduce.TypedEmitter[int64, order]) error {
				o, err := orders.Decode(line)
				out.Put(o.Customer, o)
				return err
			})},
		},
		// Not LeftOuter, which calls its function for each pair: the sum needs all orders of a customer at
		// once.
		Reducer: join.CoGroup(func(_ int64, who []customer, bought []order, out *mapreduce.Emitter) error {
			if len(who) == 0 {
				out.Count("orders of unknown customers", int64(len(bought)))
				return nil
			}
			row := spent{Name: who[0].Name, Country: who[0].Country, Orders: len(bought)}
			for _, o := range bought {
				row.Amount += o.Amount
			}
			out.Emit(nil, totals.Append(nil, row))
			return nil
		}),
	}, formats.Readers())
}
