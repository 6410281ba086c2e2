// Command join prints what each user has ordered:
//
//	join --input users=users.txt --input orders=orders.txt --output bought
//
// Lines of both inputs are an id, a TAB and a name or an order.
package main

import "github.com/slotwise/slotwise/mapreduce"

var join = mapreduce.Join[string, string, string]{
	Key: mapreduce.StringCode, Left: mapreduce.StringCode, Right: mapreduce.StringCode,
}

func pass(id, text []byte, out *mapreduce.TypedEmitter[string, string]) error {
	out.Put(string(id), string(text))
	return nil
}

func main() {
	mapreduce.Main(&mapreduce.Job{
		Name: "join",
		Sources: []mapreduce.Source{
			// Users come first because the left side is kept in memory, and there is one of each id.
			{Name: "users", Input: mapreduce.KeyValue, Mapper: join.LeftMapper(pass)},
			{Name: "orders", Input: mapreduce.KeyValue, Mapper: join.RightMapper(pass)},
		},
		Reducer: join.LeftOuter(func(_, user string, order *string, out *mapreduce.Emitter) error {
			if order == nil {
				out.Count("users without an order", 1)
				return nil
			}
			out.Emit([]byte(user), []byte(*order))
			return nil
		}),
	})
}
