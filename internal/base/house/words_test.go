package house

import (
	"bytes"
	"path"
	"regexp"
	"slices"
)

// unfinished matches marks of unfinished work, machine matches paths that exist on
// one machine only. The expressions are written in halves so that they do not match
// this file.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|(?i:\bnot (yet )?impl` + `emented\b)`)
	machine    = regexp.MustCompile(`(^|[^\w.$}*)/\]-]|file://)/(wo` + `rk|ho` + `me|Us` + `ers)/`)
)

// generator matches the line near the beginning that marks a generated file.
var generator = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// hints are texts in lower case, one of which is in every line that either
// expression matches. Searching for them first is many times as fast.
var hints = [][]byte{
	[]byte("to" + "do"), []byte("fix" + "me"), []byte("xx" + "x"), []byte("impl" + "emented"),
	[]byte("/wo" + "rk/"), []byte("/ho" + "me/"), []byte("/us" + "ers/"),
}

// hinted reports whether a hint is in the text.
func hinted(text []byte) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc(hints, func(h []byte) bool { return bytes.Contains(lower, h) })
}

// checkWords checks every text file for marks of unfinished work and for paths of one
// machine.
func checkWords(t *Tree) ([]Finding, error) {
	var found []Finding
	for _, f := range t.files {
		// Hashes contain anything, and generators choose their own words.
		if path.Base(f.path) == "go.sum" || generator.Match(f.data[:min(len(f.data), 4096)]) || !hinted(f.data) {
			continue
		}
		for i, line := range bytes.Split(f.data, []byte("\n")) {
			if !hinted(line) {
				continue
			}
			if w := unfinished.Find(line); w != nil {
				found = append(found, Finding{f.path, i + 1, `"` + string(w) + `": finish it or remove it`})
			}
			if w := machine.Find(line); w != nil {
				found = append(found, Finding{f.path, i + 1, `"` + string(w) + `": this path exists on one machine only`})
			}
		}
	}
	return found, nil
}
