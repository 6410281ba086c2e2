package counters

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// Each ID has its own row, and no two rows share a name.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for id, c := range Table {
		if c.ID != ID(id) {
			t.Errorf("row %d (%s) has the ID %d", id, c.Label, c.ID)
		}
		if c.Label == "" || c.Field == "" || c.Kinds == 0 {
			t.Errorf("row %d is incomplete: %+v", id, c)
		}
		for _, name := range []string{"label " + c.Label, "field " + c.Field, "json " + c.JSON} {
			if seen[name] {
				t.Errorf("row %d repeats the %s", id, name)
			}
			seen[name] = true
		}
		if got := ByJSON(c.JSON); c.JSON != "" && got != &Table[id] {
			t.Errorf("ByJSON(%q) = %v", c.JSON, got)
		}
	}
	if ByJSON("") != nil || ByJSON("unknown") != nil {
		t.Error("ByJSON found a counter that does not exist")
	}
}

func TestAddSet(t *testing.T) {
	var a, b Set
	a.Add(InputRecords, 2)
	a.AddUser("words", 5)
	b.Add(InputRecords, 3)
	b.Add(CPU, 7)
	b.AddUser("words", 1)
	b.AddUser("empty lines", 0)
	sum := a.Clone()
	sum.AddSet(&b)
	if sum.Get(InputRecords) != 5 || sum.Get(CPU) != 7 || sum.Get(Spills) != 0 {
		t.Errorf("built-in counters: %v", sum)
	}
	if got, want := maps.Collect(sum.User()), (map[string]int64{"words": 6, "empty lines": 0}); !maps.Equal(got, want) {
		t.Errorf("user counters: %v, want %v", got, want)
	}
	if a.Get(InputRecords) != 2 || maps.Collect(a.User())["words"] != 5 {
		t.Errorf("Clone shares state with its original: %v", a)
	}
}

func TestEqual(t *testing.T) {
	var a, b Set
	if !a.Equal(&b) {
		t.Error("empty sets differ")
	}
	a.AddUser("zero", 0)
	if a.Equal(&b) {
		t.Error("a user counter at zero is not seen")
	}
	b.AddUser("zero", 0)
	b.Add(BytesRead, 1)
	if a.Equal(&b) {
		t.Error("a built-in counter is not compared")
	}
}

// Each and User have one order whatever the order of the additions.
func TestOrder(t *testing.T) {
	var s Set
	for _, name := range []string{"c", "a", "b"} {
		s.AddUser(name, 1)
	}
	var names []string
	for name := range s.User() {
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("user counters in the order %v", names)
	}
	next := ID(0)
	for c := range s.Each() {
		if c.ID != next {
			t.Fatalf("counter %d came in place of %d", c.ID, next)
		}
		next++
	}
	if next != NumIDs {
		t.Errorf("Each yielded %d counters", next)
	}
}

// Names beyond the limit are added up in one counter, so that the sum over all
// counters is right and memory stays bounded.
func TestMaxUser(t *testing.T) {
	const names = 3 * bounds.Counters
	var s Set
	for i := range names {
		s.AddUser(fmt.Sprint(i), 1)
	}
	s.AddUser("0", 1)
	var sum int64
	got := maps.Collect(s.User())
	for _, n := range got {
		sum += n
	}
	if len(got) != bounds.Counters+1 || sum != names+1 || got["0"] != 2 || got[OtherUser] != names-bounds.Counters {
		t.Errorf("%d names with the sum %d; %d in %s", len(got), sum, got[OtherUser], OtherUser)
	}
}

// Names are cut, and all names together are bounded, however many and long they are.
func TestLongNames(t *testing.T) {
	var s Set
	const names = 5000
	for i := range names {
		s.AddUser(fmt.Sprintf("%0200d", i)+strings.Repeat("é", i), 1)
	}
	s.AddUser("short", 1)
	var sum int64
	size := 0
	for name, n := range s.User() {
		sum += n
		if name != OtherUser {
			size += len(name)
		}
		if len(name) > bounds.CounterName || !utf8.ValidString(name) {
			t.Errorf("name of %d bytes: %q", len(name), name)
		}
	}
	if size > bounds.CounterNames || sum != names+1 {
		t.Errorf("%d bytes of names, sum %d", size, sum)
	}
	var cut Set
	cut.AddUser(strings.Repeat("x", bounds.CounterName+1), 1)
	cut.AddUser(strings.Repeat("x", bounds.CounterName+9), 2)
	if got := maps.Collect(cut.User()); got[strings.Repeat("x", bounds.CounterName-3)+"…"] != 3 {
		t.Errorf("cut names: %v", got)
	}
}

func TestPutJSON(t *testing.T) {
	var s Set
	s.Add(InputRecords, 3)
	s.Add(CPU, 12_999_999)
	s.Add(BytesRead, 5)
	s.AddUser("own", 1)
	got := map[string]int64{}
	s.PutJSON(got, "map")
	if want := (map[string]int64{"map.input_records": 3, "map.cpu_ms": 12}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
