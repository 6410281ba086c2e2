package apps

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// The three queries of TPC-H by which MapReduce schedulers are measured. Each is the
// chain of five jobs into which a SQL compiler for MapReduce translates it. Keys and
// values between the jobs are binary: n8 is a whole number in the eight bytes of
// mapreduce.AppendInt64, and ‖ joins the parts.
//
// The input is one directory with the tables as TABLE.tbl (or TABLE.tbl.1,
// TABLE.tbl.2, …), as `slotwise generate tpch` makes it.

// tpchTables describes the input of all three.
const tpchTables = "a directory with the TPC-H tables as *.tbl"

// stage is one job of a chain: its step and its inputs. An input is the output of an
// earlier stage or a table from the user.
// Later stages name its output by its step.
type stage struct {
	step  string
	reads []string
}

// stagesApp returns an app whose stages run one after the other. The last stage writes
// the result. given finds the inputs that are not the output of an earlier stage.
//
// A stage with one input gets it as the input of its job. A stage with several inputs
// gets each as a parameter, which [readsFrom] reads.
func stagesApp(a mapreduce.App, given finder, stages ...stage) *mapreduce.App {
	a.Chain = func(ctx context.Context, c *mapreduce.Chain) error {
		// A wrong parameter of the last step is found before the first one runs.
		for _, s := range stages {
			if _, err := a.Steps[s.step](c.Params); err != nil {
				return err
			}
		}
		made := map[string]string{} // where the outputs of stages are
		for i, s := range stages {
			params, inputs, err := s.sources(c, made, given)
			if err != nil {
				return err
			}
			output := c.Output()
			if i < len(stages)-1 {
				output = c.Temp(s.step)
			}
			if err := c.Step(ctx, s.step, params, inputs, output); err != nil {
				return err
			}
			made[s.step] = output
		}
		return nil
	}
	return &a
}

// finder finds, among the user's inputs, what a stage reads by that name.
type finder func(inputs []string, name string) ([]string, error)

// sources returns the parameters and inputs of a stage's step.
func (s stage) sources(c *mapreduce.Chain, made map[string]string, given finder) (mapreduce.Params, []string, error) {
	params := maps.Clone(c.Params)
	for _, name := range s.reads {
		paths := []string{made[name]}
		if made[name] == "" {
			var err error
			if paths, err = given(c.Inputs, name); err != nil {
				return nil, nil, err
			}
		}
		if len(s.reads) == 1 {
			return params, paths, nil
		}
		params[sourceParam(name)] = strings.Join(paths, "\n")
	}
	return params, nil, nil
}

// sourceParam is the parameter that tells a step where a source is; no user
// sets it.
func sourceParam(name string) string { return "source " + name }

// readsFrom is a source of a stage that reads several.
func readsFrom(p mapreduce.Params, name string, f mapreduce.Format, mapper func() mapreduce.Mapper) mapreduce.Source {
	return mapreduce.Source{Inputs: strings.Split(p.Get(sourceParam(name)), "\n"), Input: f, Mapper: mapper}
}

// tableFiles finds the files of a table in the user's directory.
func tableFiles(inputs []string, table string) ([]string, error) {
	if len(inputs) != 1 {
		return nil, fmt.Errorf("the query reads one directory with *.tbl files, not %d inputs", len(inputs))
	}
	// With a star, because dbgen writes large tables in parts. A table orders.tbl.gz is found, too.
	return []string{strings.TrimSuffix(inputs[0], "/") + "/" + table + ".tbl*"}, nil
}

// sumReducer makes reducers that emit each key with the sum of its values as
// n8, if keep accepts it.
func sumReducer(keep func(n int64) bool) func() mapreduce.Reducer {
	return foldReducer(func(a, b int64) int64 { return a + b }, keep)
}

func keepAll(int64) bool { return true }

// foldReducer makes reducers that fold the values of each key. Where the job
// declares the same fold as its Aggregate, there is one value mostly.
func foldReducer(fold func(a, b int64) int64, keep func(n int64) bool) func() mapreduce.Reducer {
	return func() mapreduce.Reducer {
		var value []byte
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			// No neutral element to begin with: a fold may be a minimum.
			total, first := int64(0), true
			for v := range values {
				if n := mapreduce.Int64(v); first {
					total, first = n, false
				} else {
					total = fold(total, n)
				}
			}
			if keep(total) {
				value = mapreduce.AppendInt64(value[:0], total)
				out.Emit(key, value)
			}
			return nil
		})
	}
}

// writeValues writes the values of all keys as lines.
func writeValues(_ []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	for v := range values {
		out.Emit(nil, v)
	}
	return nil
}

// sortedLines is the last job of a query without a limit: it sorts records by
// key over all output files and writes their values.
func sortedLines(name string, mapper func() mapreduce.Mapper) *mapreduce.Job {
	return &mapreduce.Job{
		Name:       name,
		Input:      mapreduce.Runs,
		Mapper:     mapper,
		Reducer:    func() mapreduce.Reducer { return mapreduce.ReducerFunc(writeValues) },
		TotalOrder: true,
	}
}

// sameRecords makes mappers that pass records on.
func sameRecords() mapreduce.Mapper {
	return mapreduce.MapperFunc(func(key, value []byte, out *mapreduce.Emitter) error {
		out.Emit(key, value)
		return nil
	})
}

// wholeNumbers returns a parameter that is a list of numbers with commas.
func wholeNumbers(p mapreduce.Params, name string) ([]int64, error) {
	var list []int64
	for item := range strings.SplitSeq(p.Get(name), ",") {
		n, ok := parseDecimal([]byte(strings.TrimSpace(item)), 0)
		if !ok {
			return nil, fmt.Errorf("parameter %s: %q is not a whole number", name, item)
		}
		list = append(list, n)
	}
	return list, nil
}
