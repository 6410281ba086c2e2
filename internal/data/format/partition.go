package format

import (
	"encoding/hex"
	"strings"
)

// Partition is a column whose value is in the path of a file, as Hive lays out tables: the files
// below part=0/ have the column part with the value 0.
type Partition struct {
	Name, Value string
	Null        bool
}

// hiveNull is the name of the directory of null.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// PartitionsOf returns the columns in a file's path, in the order of its directories. Names and
// values have %XX for characters that a path cannot have. Of a name that occurs twice the deepest
// directory counts.
func PartitionsOf(uri string) (all []Partition) {
	parts := strings.Split(uri, "/")
	// The last part is the name of the file, in which = means nothing.
	for _, dir := range parts[:len(parts)-1] {
		name, value, ok := strings.Cut(dir, "=")
		if name = unescapePath(name); !ok || name == "" {
			continue
		}
		p := Partition{Name: name, Value: unescapePath(value)}
		// Compared before the escapes are removed: Hive writes this name for null, and a text that equals it
		// has none.
		if value == hiveNull {
			p = Partition{Name: name, Null: true}
		}
		// Removed and not replaced: the order is the order of the directories that count.
		if i := findPartition(all, name); i >= 0 {
			all = append(all[:i], all[i+1:]...)
		}
		all = append(all, p)
	}
	return all
}

// findPartition returns the index of a column, or -1.
func findPartition(all []Partition, name string) int {
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}

// unescapePath decodes %XX. A text with another % stays unchanged.
// It replaces net/url's PathUnescape, because every program would link net/url for this function.
func unescapePath(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var plain []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			plain = append(plain, s[i])
			continue
		}
		// Hive escapes % itself, so an incomplete escape means that another program made the directory. Its
		// name is then meant literally.
		if i+3 > len(s) {
			return s
		}
		b, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return s
		}
		plain, i = append(plain, b[0]), i+2
	}
	return string(plain)
}
