package apps

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/generate"
	"github.com/slotwise/slotwise/mapreduce"
)

// btTables make what the sections are made from: the last sample of each hour
// that has peers, the totals of each hour, and the lives of swarms.
var btTables = []string{
	`create table samples as select * from (
		select time / 3600 as hour, tracker, hash, seeders, leechers, downloads, seeders + leechers as peers,
			row_number() over (partition by time / 3600, tracker, hash
				order by time desc, seeders desc, leechers desc, downloads desc) as n
		from logs where reason is null) where n = 1 and peers > 0`,
	`create table totals as select hour, sum(peers) as peers, count(*) as swarms from samples group by hour`,
	`create table swarmhours as select hash, hour, sum(peers) as peers from samples group by hash, hour`,
	`create table lives as select hash, max(peers) as peak, min(hour) as first, max(hour) as last, count(*) as hours
		from swarmhours group by hash`,
	`create table loads as select hash, tracker,
			last_value(downloads) over w - first_value(downloads) over w as downloads,
			row_number() over w as n
		from samples window w as (partition by hash, tracker order by hour rows between unbounded preceding and unbounded following)`,
	`create table places as select distinct hash, tracker from samples`,
	`create index a on swarmhours (hash)`, `create index b on loads (hash)`, `create index c on places (hash)`,
}

// btSections are the sections of the report, in its order.
var btSections = []string{
	`select date(hour / 24 * 86400, 'unixepoch'), count(*), (2 * sum(peers) + count(*)) / (2 * count(*)), max(peers),
		(2 * sum(swarms) + count(*)) / (2 * count(*)) from totals group by hour / 24 order by 1`,
	`select date(day * 86400, 'unixepoch'), n, tracker, peers from (
		select day, tracker, peers, row_number() over (partition by day order by peers desc, tracker) as n from (
			select hour / 24 as day, tracker, sum(peers) as peers from samples group by 1, 2))
		where n <= ?1 order by day, n`,
	`select row_number() over (order by peak desc, hash), hash, peak,
		(select strftime('%Y-%m-%dT%H:00Z', min(hour) * 3600, 'unixepoch') from swarmhours s where s.hash = l.hash and s.peers = peak),
		hours, (select sum(downloads) from loads where loads.hash = l.hash and n = 1),
		(select count(*) from places p where p.hash = l.hash)
		from lives l order by peak desc, hash limit ?1`,
	`with recursive classes (low, high) as (select 1, 1 union all select high + 1, 2 * high from classes where high < 10000)
		select low, high, count(*) from classes, lives where last - first + 1 between low and high group by low, high order by low`,
	`with sizes as (select tracker, count(*) as n from places group by tracker),
		pairs as (select a.tracker as t, b.tracker as u, count(*) as both
			from places a, places b where a.hash = b.hash and a.tracker < b.tracker group by 1, 2),
		shares as (select t, u, both, x.n + y.n - both as either from pairs, sizes x, sizes y where x.tracker = t and y.tracker = u)
		select row_number() over (order by both desc, t, u), t, u, both,
			printf('%d.%d%%', (2000 * both + either) / (2 * either) / 10, (2000 * both + either) / (2 * either) % 10)
		from shares order by both desc, t, u limit ?1`,
	`select tracker, (select count(distinct hour) from samples s where s.tracker = l.tracker), count(reason)
		from logs l group by tracker order by tracker`,
}

// btFixture makes a log and loads it into a database.
func btFixture(t *testing.T) (string, *sql.DB) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "logs")
	kind, _ := generate.Lookup("trackerlogs")
	err := kind.Run(context.Background(), generate.Options{
		Dir: dir, Seed: 4, Params: generate.Params{"trackers": "7", "swarms": "50", "hours": "54"},
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // the database lives as long as its connection
	if err := loadLogs(db, filepath.Join(dir, "trackers.log")); err != nil {
		t.Fatal(err)
	}
	for _, table := range btTables {
		if _, err := db.Exec(table); err != nil {
			t.Fatalf("%v in %s", err, table)
		}
	}
	return dir, db
}

func loadLogs(db *sql.DB, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := db.Exec(`create table logs (time int, tracker text, hash text, seeders int, leechers int, downloads int, reason text)`); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		if c[2] == "-" {
			_, err = tx.Exec("insert into logs (time, tracker, reason) values (?, ?, ?)", c[0], c[1], c[3])
		} else {
			_, err = tx.Exec("insert into logs values (?, ?, ?, ?, ?, ?, null)", c[0], c[1], c[2], c[3], c[4], c[5])
		}
		if err != nil {
			return err
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return tx.Commit()
}

// TestBTWorld compares the report with SQL over the same log, section by
// section, and then runs it with options that must not matter.
func TestBTWorld(t *testing.T) {
	dir, db := btFixture(t)
	report := func(o mapreduce.Options) string {
		o.Inputs = []string{dir}
		text, err := chainText(t.TempDir(), "btworld", mapreduce.Params{"top": "5"}, o)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := report(mapreduce.Options{})
	sections := strings.Split(first, "\n\n")
	if len(sections) != len(btSections) {
		t.Fatalf("%d sections, want %d:\n%s", len(sections), len(btSections), first)
	}
	for i, query := range btSections {
		var args []any
		if strings.Contains(query, "?1") {
			args = []any{5}
		}
		want := "# " + btTitles[i] + "\n" + strings.ReplaceAll(queryLines(t, db, query, args...), "|", "\t")
		if got := strings.TrimSuffix(sections[i], "\n") + "\n"; got != want {
			t.Errorf("got:\n%s\nSQL gives:\n%s", got, want)
		}
		if strings.Count(want, "\n") < 4 {
			t.Errorf("too little to test with:\n%s", want)
		}
	}
	for seed := range 3 {
		o := rapid.Custom(anyOptions).Example(seed)
		if got := report(o); got != first {
			t.Errorf("with %+v:\n%s\nwithout:\n%s", o, got, first)
		}
	}
}

// TestBTWorldOrder checks that the order of the lines does not matter.
func TestBTWorldOrder(t *testing.T) {
	lines := []string{
		"7200\ta\tx\t1\t2\t10\n", "7200\ta\tx\t1\t3\t10\n", "7201\ta\tx\t0\t9\t11\n", "10800\ta\tx\t0\t0\t12\n",
		"10801\tb\tx\t5\t5\t3\n", "14400\tb\tx\t5\t5\t7\n", "14400\tb\t-\ttimed out\n", "\n",
		"14400\tb\ty\t1\t0\t5\n", "18000\ta\ty\t0\t1\t5\n",
	}
	// Swarm x: 9 peers at 2, 10 at 3 and at 4; y: one at 4 and 5, first on b.
	want := "# " + btTitles[sectionDays] + "\n1970-01-01\t4\t8\t11\t1\n\n" +
		"# " + btTitles[sectionTrackers] + "\n1970-01-01\t1\tb\t21\n1970-01-01\t2\ta\t10\n\n" +
		"# " + btTitles[sectionHashes] + "\n1\tx\t10\t1970-01-01T03:00Z\t3\t4\t2\n2\ty\t1\t1970-01-01T04:00Z\t2\t0\t2\n\n" +
		"# " + btTitles[sectionLifetimes] + "\n2\t2\t1\n3\t4\t1\n\n" +
		"# " + btTitles[sectionOverlap] + "\n1\ta\tb\t2\t100.0%\n\n" +
		"# " + btTitles[sectionAvailability] + "\na\t2\t0\nb\t2\t1\n"
	for range 3 {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := chainText(t.TempDir(), "btworld", nil, mapreduce.Options{Inputs: []string{file}})
		if err != nil || got != want {
			t.Errorf("error %v, got:\n%s\nwant:\n%s", err, got, want)
		}
		lines = append(lines[3:], lines[:3]...)
	}
}

func TestBTWorldBadInput(t *testing.T) {
	for line, want := range map[string]string{
		"12":                      `row "12" has 1 columns`,
		"1\ta\tx\t1\t2":           "has 5 columns, not 6",
		"1\ta\tx\t1\t2\tmany":     "column 6",
		"1\ta\tx\x00\t1\t2\t3":    "column 3",
		"never\ta\tx\t1\t2\t3":    "column 1",
		"1\ta\x00b\tx\t1\t2\t3\n": "column 2",
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := chainText(t.TempDir(), "btworld", nil, mapreduce.Options{Inputs: []string{file}, Request: mapreduce.Request{MaxAttempts: 1}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", line, err, want)
		}
	}
}

// TestTopList compares a topList with sorting everything.
func TestTopList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange('a', 'c'), 0, 3)).Draw(t, "keys")
		list := topList{limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		for _, k := range keys {
			list.add(k, nil)
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = keys[:min(len(keys), list.limit)]
		if !slices.EqualFunc(keys, list.entries, func(k []byte, e topEntry) bool { return bytes.Equal(k, e.key) }) {
			t.Fatalf("got %q, want %q", list.entries, keys)
		}
	})
}
