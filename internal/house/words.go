package house

import (
	"bytes"
	"regexp"
	"slices"
)

// unfinished and machine find what must not be committed. They are put
// together from halves so that this file does not find itself.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|(?i:\bnot (yet )?impl` + `emented\b)`)
	machine    = regexp.MustCompile(`(^|[^\w.$}*)/\]-]|file://)/(wo` + `rk|ho` + `me|Us` + `ers)/`)
)

// generator marks generated files, near their beginning.
var generator = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// hints are what a line that either expression matches has in it, in lower
// case: looking for them first is many times as fast.
var hints = [][]byte{
	[]byte("to" + "do"), []byte("fix" + "me"), []byte("xx" + "x"), []byte("impl" + "emented"),
	[]byte("/wo" + "rk/"), []byte("/ho" + "me/"), []byte("/us" + "ers/"),
}

func hinted(text []byte) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc(hints, func(h []byte) bool { return bytes.Contains(lower, h) })
}

// checkWords looks through every text file for marks of unfinished work and
// for paths that exist on one machine only.
func checkWords(t *Tree) ([]Finding, error) {
	var found []Finding
	for _, f := range t.files {
		// Hashes spell anything, and a generator has its own words.
		if f.path == "go.sum" || generator.Match(f.data[:min(len(f.data), 4096)]) || !hinted(f.data) {
			continue
		}
		for i, line := range bytes.Split(f.data, []byte("\n")) {
			if !hinted(line) {
				continue
			}
			if w := unfinished.Find(line); w != nil {
				found = append(found, Finding{f.path, i + 1, `"` + string(w) + `": finish it or leave it out`})
			}
			if w := machine.Find(line); w != nil {
				found = append(found, Finding{f.path, i + 1, `"` + string(w) + `": a path of one machine`})
			}
		}
	}
	return found, nil
}
