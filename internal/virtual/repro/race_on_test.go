//go:build race

package repro

// raceOn says that the race detector is on, under which a run takes ten times as
// long.
const raceOn = true
