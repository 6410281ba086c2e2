package journal_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

var crashes = flag.Int("crashes", 300, "how many random lives TestCrashes plays")

// open opens the log in directory "j" of a file system.
func open(t testing.TB, files durable.FS, segment int64) *journal.Log {
	t.Helper()
	l, err := journal.Open("j", journal.Options{FS: files, SegmentBytes: segment})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// replay returns all records.
func replay(l *journal.Log) (list []string, err error) {
	for rec, err := range l.Replay() {
		if err != nil {
			return list, err
		}
		list = append(list, string(rec))
	}
	return list, nil
}

func one(rec string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield([]byte(rec), nil) }
}

// snapshot replaces the journal's records by others.
func snapshot(l *journal.Log, records iter.Seq2[[]byte, error]) error {
	c, err := l.Begin()
	if err != nil {
		return err
	}
	_, err = c.Write(records)
	l.End(c)
	return errors.Join(err, c.Remove())
}

// counter is a state that each record increments. A record begins with its number.
// In a snapshot "upto n" replaces the records up to n.
type counter struct{ n int }

func (c *counter) next(size int) []byte {
	c.n++
	return fmt.Appendf(nil, "%d %s", c.n, strings.Repeat("x", size))
}

// load replays a log into a counter and returns its number.
func load(l *journal.Log) (int, error) { return count(l.Replay()) }

// count adds up the records of a log.
func count(records iter.Seq2[[]byte, error]) (n int, err error) {
	i := -1
	for b, err := range records {
		if err != nil {
			return n, err
		}
		i++
		rec := string(b)
		word, _, _ := strings.Cut(rec, " ")
		switch {
		case i == 0 && word == "upto":
			fmt.Sscanf(rec, "upto %d", &n)
		case word == fmt.Sprint(n+1):
			n++
		default:
			return n, fmt.Errorf("record %d is %q after %d", i, word, n)
		}
	}
	return n, nil
}

// live appends, syncs and writes snapshots for a while, or until something fails. Records
// are appended while a snapshot is being written. It returns the last number that is
// certainly durable and the last one that may be.
func live(l *journal.Log, from int, rng *rand.Rand) (sure, maybe int) {
	c := counter{from}
	sure = from
	var under *journal.Compaction
	var upto int // the number that the journal had when it began
	for range 30 {
		for range rng.IntN(4) {
			l.Append(c.next(rng.IntN(60)))
		}
		var err error
		switch {
		case rng.IntN(4) > 0:
			err = l.Sync()
		case under == nil:
			under, err = l.Begin()
			upto = c.n
		default:
			n, replayed := count(under.Records())
			if replayed == nil && n != upto {
				panic(fmt.Sprintf("a snapshot begun at record %d would replace %d", upto, n))
			}
			_, err = under.Write(one(fmt.Sprint("upto ", n)))
			if l.End(under); err == nil {
				err = errors.Join(under.Remove(), l.Sync())
			}
			under = nil
		}
		if err != nil {
			return sure, c.n
		}
		sure = c.n
	}
	l.Append(c.next(5)) // and not synced
	return sure, c.n
}

// TestCrashes ends the process at a random operation, and sometimes the machine,
// which keeps a random part of the unsynced data. Over several lives of one journal
// no synced record is lost, and no record appears that was never appended.
func TestCrashes(t *testing.T) {
	for seed := range uint64(*crashes) {
		rng := rand.New(rand.NewPCG(seed, 1))
		files, sure, maybe := faultfs.NewDisk(), 0, 0
		for life := range 6 {
			l, err := journal.Open("j", journal.Options{FS: files, SegmentBytes: 200})
			if err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			n, err := load(l)
			if err != nil || n < sure || n > maybe {
				t.Fatalf("seed %d, life %d: %d records, want %d to %d: %v", seed, life, n, sure, maybe, err)
			}
			files.StopAfter(rng.IntN(80))
			if rng.IntN(4) == 0 { // it stops while the log is being opened
				_ = l.Close()
				files.StopAfter(rng.IntN(4))
				if l, err = journal.Open("j", journal.Options{FS: files, SegmentBytes: 200}); err != nil {
					files, sure, maybe = files.Crash(rng), n, n
					continue
				}
			}
			sure, maybe = live(l, n, rng)
			if files = files.Kill(); rng.IntN(2) == 0 {
				files = files.Crash(rng)
			}
		}
	}
}

// TestFailedOperations makes one operation fail. The log refuses every later call,
// and after it is opened again all durable records are present.
func TestFailedOperations(t *testing.T) {
	broken := errors.New("broken")
	for nth := range 120 {
		rng := rand.New(rand.NewPCG(uint64(nth), 2))
		files := faultfs.NewDisk()
		l := open(t, files, 200)
		files.Inject(faultfs.Rule{Op: faultfs.Change, Nth: nth + 1, Err: broken})
		sure, maybe := live(l, 0, rng)
		fired := files.LastFired()
		files.Reset()
		l.Append([]byte("more"))
		harmless := fired == "" || strings.HasPrefix(fired, "remove") || strings.Contains(fired, ".tmp") && !strings.HasPrefix(fired, "rename")
		if err := l.Sync(); (err == nil) != harmless && !harmless {
			t.Fatalf("%s failed, and the log goes on", fired)
		} else if harmless && err != nil {
			t.Fatalf("%s failed, and the log refuses: %v", fired, err)
		}
		if harmless {
			continue
		}
		if err := snapshot(l, one("x")); !errors.Is(err, broken) {
			t.Fatalf("%s failed, and a snapshot is %v", fired, err)
		}
		n, err := load(open(t, files.Crash(rng), 200))
		if err != nil || n < sure || n > maybe {
			t.Fatalf("%s failed: %d records, want %d to %d: %v", fired, n, sure, maybe, err)
		}
	}
}

// TestFullDisk: a record that does not fit fails Sync, but a snapshot that does not
// fit leaves the log usable.
func TestFullDisk(t *testing.T) {
	files := faultfs.NewDisk()
	l := open(t, files, 0)
	c := counter{}
	l.Append(c.next(10))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	files.Limit(300)
	if err := snapshot(l, one(strings.Repeat("y", 1000))); err == nil {
		t.Fatal("a snapshot fits that cannot")
	}
	l.Append(c.next(10))
	if err := l.Sync(); err != nil {
		t.Fatalf("after a snapshot that did not fit: %v", err)
	}
	l.Append(c.next(1000))
	if err := l.Sync(); err == nil {
		t.Fatal("a record fits that cannot")
	}
	_ = l.Close()
	if _, err := journal.Open("j", journal.Options{FS: files}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("opened on a full disk: %v", err)
	}
	files.Limit(-1)
	l = open(t, files, 0)
	if n, err := load(l); n != 2 || err != nil || l.Cut() == nil {
		t.Fatalf("%d records, %v, cut %v", n, err, l.Cut())
	}
}

// written returns a file system with one segment, the offsets at which its batches
// end, and the file's name.
func written(t testing.TB) (*faultfs.Disk, []int, string) {
	files := faultfs.NewDisk()
	l := open(t, files, 0)
	name := filepath.Join("j", "log-0000000000000001")
	ends := []int{len(files.Bytes(name))}
	c := counter{}
	for range 5 {
		l.Append(c.next(7))
		l.Append(c.next(0))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(files.Bytes(name)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return files, ends, name
}

// TestTornAtEveryByte truncates a segment to each length. Open cuts it back to its
// last complete batch, and new records follow there.
func TestTornAtEveryByte(t *testing.T) {
	_, ends, _ := written(t)
	for size := range ends[len(ends)-1] {
		files, _, name := written(t)
		files.Cut(name, size)
		l := open(t, files, 0)
		whole := 0
		for i, end := range ends {
			if end <= size {
				whole = 2 * i
			}
		}
		if n, err := load(l); n != whole || err != nil {
			t.Fatalf("of %d bytes: %d records, want %d: %v", size, n, whole, err)
		}
		if torn := size > ends[0] && !slices.Contains(ends, size); torn != (l.Cut() != nil) {
			t.Fatalf("of %d bytes: cut %v", size, l.Cut())
		}
		c := counter{whole}
		l.Append(c.next(3))
		if err := errors.Join(l.Sync(), l.Close()); err != nil {
			t.Fatal(err)
		}
		if n, err := load(open(t, files, 0)); n != whole+1 || err != nil {
			t.Fatalf("of %d bytes, gone on: %d records: %v", size, n, err)
		}
	}
}

// TestFlippedBits flips each bit. In the last batch that looks like an interrupted
// write. Anywhere else Open refuses the log and names the file and the offset.
func TestFlippedBits(t *testing.T) {
	_, ends, _ := written(t)
	last := ends[len(ends)-2]
	for at := range ends[len(ends)-1] {
		for bit := range 8 {
			files, _, name := written(t)
			files.Bytes(name)[at] ^= 1 << bit
			l, err := journal.Open("j", journal.Options{FS: files})
			if at >= last {
				n, err2 := load(l)
				if err != nil || err2 != nil || n != 8 || l.Cut() == nil || l.Cut().Offset != int64(last) {
					t.Fatalf("bit %d of byte %d: %d records, cut %v, %v", bit, at, n, l.Cut(), err)
				}
				continue
			}
			batch := 0
			for _, end := range ends {
				if end <= at {
					batch = end
				}
			}
			var damage *journal.DamageError
			if !errors.As(err, &damage) || damage.File != name || damage.Offset != int64(batch) {
				t.Fatalf("bit %d of byte %d, in the batch at %d: %v", bit, at, batch, err)
			}
		}
	}
}

// TestDamageElsewhere: Open refuses a damaged snapshot, damage in a segment before
// the last, and a missing file.
func TestDamageElsewhere(t *testing.T) {
	make := func() *faultfs.Disk {
		files := faultfs.NewDisk()
		l := open(t, files, 100)
		c := counter{}
		l.Append(c.next(3))
		if err := snapshot(l, one("upto 1")); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			l.Append(c.next(20))
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return files
	}
	names := slices.DeleteFunc(make().Names(), func(name string) bool { return name == "j" || name == "j/lock" })
	if len(names) < 4 {
		t.Fatalf("only %v", names)
	}
	for i, name := range names {
		files := make()
		size := len(files.Bytes(name))
		last := i == len(names)-2 // the snapshot's name sorts last
		for at := 0; at < size && !last; at++ {
			files.Bytes(name)[at] ^= 0x10
			if l, err := journal.Open("j", journal.Options{FS: files, SegmentBytes: 100}); err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s damaged at %d: %v, %v", name, at, l, err)
			}
			files.Bytes(name)[at] ^= 0x10
		}
		if err := files.Remove(name); err != nil {
			t.Fatal(err)
		}
		_, err := journal.Open("j", journal.Options{FS: files, SegmentBytes: 100})
		if err == nil && !last {
			t.Errorf("%s is missing, and Open does not report it", name)
		}
	}
}

// TestOnDisk uses a real disk: one process at a time, several segments, a snapshot
// that replaces them, and a foreign file that stays.
func TestOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	opt := journal.Options{SegmentBytes: 256}
	l, err := journal.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(dir, opt); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	c := counter{}
	for i := range 40 {
		l.Append(c.next(i))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	before := l.SinceSnapshot()
	if err := snapshot(l, one("upto 40")); err != nil {
		t.Fatal(err)
	}
	if after := l.SinceSnapshot(); after >= before/4 {
		t.Errorf("%d bytes of log after the snapshot, %d before", after, before)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Append(c.next(0))
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("synced after it was closed: %v", err)
	}
	if l, err = journal.Open(dir, opt); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n, err := load(l); n != 41 || err != nil {
		t.Errorf("%d records: %v", n, err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 4 { // lock, log, notes, snapshot
		t.Errorf("left: %v", entries)
	}
}

// TestLargeRecords: a large record makes a batch by itself, and a record above
// MaxRecord is refused.
func TestLargeRecords(t *testing.T) {
	files := faultfs.NewDisk()
	l := open(t, files, 0)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	l.Append(big)
	l.Append([]byte("small"))
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	l = open(t, files, 0)
	if list, err := replay(l); err != nil || len(list) != 2 || list[0] != string(big) || list[1] != "small" {
		t.Fatalf("%d records: %v", len(list), err)
	}
	l.Append(make([]byte, journal.MaxRecord+1))
	if err := l.Sync(); err == nil {
		t.Error("a record that is too large was taken")
	}
}

// FuzzOpen puts arbitrary bytes in the place of a segment. Open refuses them, or
// replays them the same way twice.
func FuzzOpen(f *testing.F) {
	files, ends, name := written(f)
	f.Add(files.Bytes(name), 0, []byte{})
	f.Add(files.Bytes(name), ends[1]+3, []byte{1})
	f.Add([]byte("slotjnl"), 0, []byte{})
	f.Fuzz(func(t *testing.T, data []byte, at int, with []byte) {
		if at >= 0 && at < len(data) {
			data = slices.Clone(data)
			copy(data[at:], with)
		}
		files := faultfs.NewDisk()
		files.Put(name, data)
		l, err := journal.Open("j", journal.Options{FS: files})
		if err != nil {
			return
		}
		first, err := replay(l)
		if err != nil {
			t.Fatalf("opened, but: %v", err)
		}
		_ = l.Close()
		second, err := replay(open(t, files, 0))
		if err != nil || !slices.Equal(first, second) {
			t.Fatalf("opened again: %d records, were %d: %v", len(second), len(first), err)
		}
	})
}
