package apps

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver" // the SQL database that the queries are checked with
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/generate"
	"github.com/slotwise/slotwise/mapreduce"
)

// The columns of the tables. Amounts are loaded as hundredths, so that SQL
// computes without rounding, as the apps do.
var tpchSchema = map[string]string{
	"supplier": "s_suppkey int, s_name text, s_address text, s_nationkey int, s_phone text, s_acctbal cents, s_comment text",
	"part": `p_partkey int, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, p_container text,
		p_retailprice cents, p_comment text`,
	"partsupp": "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost cents, ps_comment text",
	"customer": `c_custkey int, c_name text, c_address text, c_nationkey int, c_phone text, c_acctbal cents,
		c_mktsegment text, c_comment text`,
	"orders": `o_orderkey int, o_custkey int, o_orderstatus text, o_totalprice cents, o_orderdate text,
		o_orderpriority text, o_clerk text, o_shippriority int, o_comment text`,
	"lineitem": `l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity int,
		l_extendedprice cents, l_discount cents, l_tax cents, l_returnflag text, l_linestatus text,
		l_shipdate text, l_commitdate text, l_receiptdate text, l_shipinstruct text, l_shipmode text, l_comment text`,
}

// tpchFixture makes tables and a database of the same rows.
func tpchFixture(t *testing.T) (string, *sql.DB) {
	t.Helper()
	tables := filepath.Join(t.TempDir(), "tables")
	kind, _ := generate.Lookup("tpch")
	err := kind.Run(context.Background(), generate.Options{Dir: tables, Seed: 1, Params: generate.Params{"scale": "0.001"}})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // the database lives as long as its connection
	for name, columns := range tpchSchema {
		if err := loadTable(db, name, columns, filepath.Join(tables, name+".tbl")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return tables, db
}

// loadTable makes a table of a file, in one transaction.
func loadTable(db *sql.DB, name, columns, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	types := strings.Split(columns, ",")
	if _, err := db.Exec("create table " + name + " (" + strings.ReplaceAll(columns, "cents", "int") + ")"); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.Prepare("insert into " + name + " values (?" + strings.Repeat(",?", len(types)-1) + ")")
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	row := make([]any, len(types))
	for lines.Scan() {
		for i, v := range strings.Split(strings.TrimSuffix(lines.Text(), "|"), "|") {
			if strings.HasSuffix(types[i], " cents") {
				v = strings.Replace(v, ".", "", 1)
			}
			row[i] = v
		}
		if _, err := insert.Exec(row...); err != nil {
			return err
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return tx.Commit()
}

// queryLines returns the rows of a query, '|' between the columns.
func queryLines(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, into := make([]string, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	var b strings.Builder
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.Join(values, "|") + "\n")
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return b.String()
}

const sqlQ15 = `
	with revenue (supplier_no, total_revenue) as (
		select l_suppkey, sum(l_extendedprice * (100 - l_discount)) from lineitem
		where l_shipdate >= ?1 and l_shipdate < date(?1, '+3 months') group by l_suppkey)
	select s_suppkey, s_name, s_address, s_phone, printf('%d.%02d', (total_revenue + 50) / 10000, (total_revenue + 50) / 100 % 100)
	from supplier, revenue
	where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
	order by s_suppkey`

const sqlQ16 = `
	select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
	from partsupp, part
	where p_partkey = ps_partkey and p_brand <> ?1 and p_type not like ?2 || '%'
		and instr(',' || ?3 || ',', ',' || p_size || ',')
		and ps_suppkey not in (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
	group by p_brand, p_type, p_size
	order by supplier_cnt desc, p_brand, p_type, p_size`

const sqlQ18 = `
	select c_name, c_custkey, o_orderkey, o_orderdate, printf('%d.%02d', o_totalprice / 100, o_totalprice % 100),
		sum(l_quantity) || '.00'
	from customer, orders, lineitem
	where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > ?1)
		and c_custkey = o_custkey and o_orderkey = l_orderkey
	group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
	order by o_totalprice desc, o_orderdate, o_orderkey limit ?2`

// tpchCases are the queries with parameters that give no, one or many rows:
// the specification's values first.
var tpchCases = []struct {
	app    string
	params mapreduce.Params
	sql    string
	args   []any
	rows   int // at least
}{
	{"tpch-q15", nil, sqlQ15, []any{"1996-01-01"}, 1},
	{"tpch-q15", mapreduce.Params{"date": "1993-11-01"}, sqlQ15, []any{"1993-11-01"}, 1},
	{"tpch-q15", mapreduce.Params{"date": "2001-01-01"}, sqlQ15, []any{"2001-01-01"}, 0},
	{"tpch-q16", nil, sqlQ16, []any{"Brand#45", "MEDIUM POLISHED", "49,14,23,45,19,3,36,9"}, 15},
	{"tpch-q16", mapreduce.Params{"brand": "Brand#11", "type": "STANDARD", "sizes": "1,2,3"}, sqlQ16, []any{"Brand#11", "STANDARD", "1,2,3"}, 5},
	{"tpch-q16", mapreduce.Params{"sizes": "99"}, sqlQ16, []any{"Brand#45", "MEDIUM POLISHED", "99"}, 0},
	{"tpch-q18", nil, sqlQ18, []any{300, 100}, 0},
	{"tpch-q18", mapreduce.Params{"quantity": "200"}, sqlQ18, []any{200, 100}, 15},
	{"tpch-q18", mapreduce.Params{"quantity": "150", "limit": "7"}, sqlQ18, []any{150, 7}, 7},
}

// TestTPCH compares each app with the same query in SQL, first unchanged, then
// with options that must not change a result.
func TestTPCH(t *testing.T) {
	dir, db := tpchFixture(t)
	want := make([]string, len(tpchCases))
	for i, c := range tpchCases {
		t.Run(fmt.Sprint(c.app, c.params), func(t *testing.T) {
			want[i] = queryLines(t, db, c.sql, c.args...)
			if n := strings.Count(want[i], "\n"); n < c.rows {
				t.Fatalf("SQL gives %d rows, too few to test with", n)
			}
			got, err := chainText(t.TempDir(), c.app, c.params, mapreduce.Options{Inputs: []string{dir}, Reduces: 2})
			if err != nil || got != want[i] {
				t.Errorf("error %v, got:\n%s\nSQL gives:\n%s", err, got, want[i])
			}
		})
	}
	for seed := range 12 {
		i := seed % len(tpchCases)
		o := rapid.Custom(anyOptions).Example(seed)
		o.Inputs = []string{dir}
		got, err := chainText(t.TempDir(), tpchCases[i].app, tpchCases[i].params, o)
		if err != nil || got != want[i] {
			t.Errorf("%s with %+v: error %v, got:\n%s\nSQL gives:\n%s", tpchCases[i].app, o, err, got, want[i])
		}
	}
}

func TestTPCHBadParameters(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		app    string
		params mapreduce.Params
		inputs []string
		want   string
	}{
		{"tpch-q15", mapreduce.Params{"date": "1996"}, []string{dir}, "date"},
		{"tpch-q15", mapreduce.Params{"date": "1996-01-02"}, []string{dir}, "first day of a month"},
		{"tpch-q16", mapreduce.Params{"sizes": "1,x"}, []string{dir}, `"x" is not a whole number`},
		{"tpch-q18", mapreduce.Params{"limit": "-1"}, []string{dir}, "limit"},
		{"tpch-q18", nil, []string{dir, dir}, "one directory"},
		{"tpch-q18", nil, []string{dir}, "lineitem.tbl"},
	} {
		_, err := chainText(t.TempDir(), c.app, c.params, mapreduce.Options{Inputs: c.inputs})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want one with %q", c.app, c.params, err, c.want)
		}
	}
}

// TestTPCHBadRows checks that a broken table fails the query and is named.
func TestTPCHBadRows(t *testing.T) {
	for row, want := range map[string]string{
		"1|2|3":                               `lineitem: row "1|2|3" has 3 columns, not 5`,
		"x|2|3|1|5|6|":                        "lineitem: column 1 of row",
		"1|2|3|1|5.123|6|":                    "lineitem: column 5 of row",
		strings.Repeat("9", 500) + "|2|3|1|5": "lineitem: column 1 of row",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "lineitem.tbl"), []byte(row+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := chainText(t.TempDir(), "tpch-q18", nil, mapreduce.Options{Inputs: []string{dir}, Request: mapreduce.Request{MaxAttempts: 1}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("row %.30q: error %v, want one with %q", row, err, want)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		s     string
		scale int
		want  int64
		ok    bool
	}{
		{"0", 0, 0, true}, {"17", 0, 17, true}, {"-5", 0, -5, true}, {"17", 2, 1700, true}, {"17.5", 2, 1750, true},
		{"17.05", 2, 1705, true}, {"-0.01", 2, -1, true}, {"17.", 2, 1700, true}, {"0012.10", 2, 1210, true},
		{"", 0, 0, false}, {"-", 0, 0, false}, {".5", 2, 0, false}, {"1.234", 2, 0, false}, {"1.2", 0, 0, false},
		{"1.2.3", 2, 0, false}, {"+1", 0, 0, false}, {" 1", 0, 0, false}, {"1e3", 0, 0, false}, {"--1", 0, 0, false},
		{"99999999999999999999", 0, 0, false},
	} {
		n, ok := parseDecimal([]byte(c.s), c.scale)
		if ok != c.ok || ok && n != c.want {
			t.Errorf("parseDecimal(%q, %d) = %d, %v", c.s, c.scale, n, ok)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1e15, 1e15).Draw(t, "n")
		if got, ok := parseDecimal(appendHundredths(nil, n), 2); !ok || got != n {
			t.Fatalf("%d becomes %q becomes %d, %v", n, appendHundredths(nil, n), got, ok)
		}
	})
}
