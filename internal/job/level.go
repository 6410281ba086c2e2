package job

// Level says how close an attempt runs to its input. The zero value is no
// level: reduces have none.
type Level uint8

// Levels from best to worst. LevelNone is a split without locations: it is
// equally far from everywhere, and no wait brings it closer.
const (
	LevelNode Level = iota + 1
	LevelRack
	LevelAny
	LevelNone
)

// String returns the name used in traces: NODE, RACK, ANY, NONE, or - for the
// zero value.
func (l Level) String() string {
	return pick(int(l), "-", "NODE", "RACK", "ANY", "NONE")
}
