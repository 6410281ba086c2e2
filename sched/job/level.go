package job

// Level is the distance between an attempt and its input. Reduces have level 0, which is
// no level.
type Level uint8

// Levels from best to worst. LevelNone is the level of a split without locations: it has
// the same distance from every node, so waiting for a better level is pointless.
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
