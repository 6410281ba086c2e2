package apps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

// item holds the columns of a lineitem row that the test reads.
func item(order, supplier, quantity, price, discount, shipped string) string {
	return strings.Join([]string{order, "1", supplier, "1", quantity, price, discount, "0.00", "N", "O", shipped}, "|")
}

// TestTPCHEdges runs the queries over tables that are all edges: first and last
// days, ties, sums that just reach a limit, comments that nearly match.
func TestTPCHEdges(t *testing.T) {
	for _, c := range []struct {
		name, app string
		params    mapreduce.Params
		tables    map[string][]string
		want      string
	}{
		{
			"first and last day, two winners to the last digit", "tpch-q15", nil,
			map[string][]string{
				"lineitem": {
					item("1", "7", "1", "100.00", "0.10", "1996-01-01"),
					item("1", "7", "1", "100.00", "0.10", "1995-12-31"),
					item("2", "3", "1", "60.00", "0.00", "1996-03-31"),
					item("2", "3", "1", "900.00", "0.00", "1996-04-01"),
					item("3", "3", "1", "30.00", "0.00", "1996-02-29"),
					"", // an empty line is no row
					item("4", "5", "1", "90.90", "0.01", "1996-02-01"),
				},
				"supplier": {"3|three|here|1|11-1|0.00|", "5|five|there|2|12-2|0.00|", "7|seven||3|13-3|0.00|"},
			},
			"3|three|here|11-1|90.00\n7|seven||13-3|90.00\n",
		},
		{
			"rounding half up", "tpch-q15", nil,
			map[string][]string{
				"lineitem": {item("1", "1", "1", "0.50", "0.01", "1996-01-05")}, // 0.495
				"supplier": {"1|a|b|1|c|0.00|"},
			},
			"1|a|b|c|0.50\n",
		},
		{
			"comments that nearly match, repeated offers", "tpch-q16", mapreduce.Params{"sizes": "5"},
			map[string][]string{
				"part": {
					"1|p|m|Brand#11|SMALL TIN|5|", "2|p|m|Brand#11|SMALL TIN|5|", "3|p|m|Brand#45|SMALL TIN|5|",
					"4|p|m|Brand#11|MEDIUM POLISHED TIN|5|", "5|p|m|Brand#11|MEDIUM PLATED TIN|5|", "6|p|m|Brand#11|SMALL TIN|6|",
				},
				"partsupp": {"1|1|", "1|2|", "2|1|", "2|3|", "3|1|", "4|1|", "5|3|", "5|4|", "6|1|", "9|1|"},
				"supplier": {
					"1|a|b|1|c|0|Complaints of a Customer|", "2|a|b|1|c|0|a Customer with Complaints|",
					"3|a|b|1|c|0|Customer Recommends|", "4|a|b|1|c|0|CustomerComplaints|",
				},
			},
			"Brand#11|SMALL TIN|5|2\nBrand#11|MEDIUM PLATED TIN|5|1\n",
		},
		{
			"sums at the limit, equal prices", "tpch-q18", mapreduce.Params{"quantity": "60"},
			map[string][]string{
				"lineitem": {
					item("1", "1", "30", "1.00", "0.00", "1996-01-01"), item("1", "1", "30", "1.00", "0.00", "1996-01-01"),
					item("2", "1", "30", "1.00", "0.00", "1996-01-01"), item("3", "1", "60.01", "1.00", "0.00", "1996-01-01"),
					item("2", "1", "31", "1.00", "0.00", "1996-01-01"), item("4", "1", "99", "1.00", "0.00", "1996-01-01"),
				},
				"orders":   {"1|1|O|9.00|1996-01-01|", "2|1|O|5.00|1996-01-02|", "3|2|O|5.00|1996-01-01|", "4|2|O|11.00|1996-01-03|"},
				"customer": {"1|one|", "2|two|", "3|three|"},
			},
			"two|2|4|1996-01-03|11.00|99.00\ntwo|2|3|1996-01-01|5.00|60.01\none|1|2|1996-01-02|5.00|61.00\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for table, rows := range c.tables {
				// In two files, as parallel generators write them.
				half := len(rows) / 2
				for name, part := range map[string][]string{".tbl.1": rows[:half], ".tbl.2": rows[half:]} {
					if err := os.WriteFile(filepath.Join(dir, table+name), []byte(strings.Join(part, "\n")), 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := chainText(t.TempDir(), c.app, c.params, mapreduce.Options{Inputs: []string{dir + "/"}})
			if err != nil || got != c.want {
				t.Errorf("error %v, got:\n%s\nwant:\n%s", err, got, c.want)
			}
		})
	}
}
