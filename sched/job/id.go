package job

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// String returns a name such as j1.
func (id ID) String() string { return "j" + strconv.Itoa(int(id)) }

// String returns a name such as j1_m_3: map 3 of job 1.
func (id TaskID) String() string { return string(id.append(nil)) }

// String returns a name such as j1_m_3_0: the first attempt of map 3 of job 1.
func (id AttemptID) String() string {
	b := append(id.TaskID.append(nil), '_')
	return string(strconv.AppendInt(b, int64(id.Number), 10))
}

func (id TaskID) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, 'j'), int64(id.Job), 10)
	b = append(b, '_', "mr"[id.Kind&1], '_')
	return strconv.AppendInt(b, int64(id.Index), 10)
}

// ParseID parses the result of ID.String.
func ParseID(s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, "j")
	n, numeric := number(rest)
	if !ok || !numeric || n == 0 {
		return 0, fmt.Errorf("bad job id %q: want the form j1", s)
	}
	return ID(n), nil
}

// ParseTask parses the result of TaskID.String.
func ParseTask(s string) (TaskID, error) {
	f := strings.Split(s, "_")
	if len(f) == 3 {
		if id, ok := parseTask(f); ok {
			return id, nil
		}
	}
	return TaskID{}, fmt.Errorf("bad task id %q: want the form j1_m_3", s)
}

// ParseAttempt parses the result of AttemptID.String.
func ParseAttempt(s string) (AttemptID, error) {
	f := strings.Split(s, "_")
	if len(f) == 4 {
		id, ok := parseTask(f[:3])
		if try, numeric := number(f[3]); ok && numeric {
			return AttemptID{id, try}, nil
		}
	}
	return AttemptID{}, fmt.Errorf("bad attempt id %q: want the form j1_m_3_0", s)
}

func parseTask(f []string) (TaskID, bool) {
	id, err := ParseID(f[0])
	index, numeric := number(f[2])
	if err != nil || !numeric || (f[1] != "m" && f[1] != "r") {
		return TaskID{}, false
	}
	kind := Map
	if f[1] == "r" {
		kind = Reduce
	}
	return TaskID{id, kind, index}, true
}

// number reads a decimal that String could have written: no sign, no leading
// zero, so that each id has one spelling.
func number(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.Itoa(int(n)) == s
}

// Compare orders attempts by job, kind, task and number.
func (a AttemptID) Compare(b AttemptID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Index, b.Index), cmp.Compare(a.Number, b.Number))
}
