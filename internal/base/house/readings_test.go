package house

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// labelled are the directories whose comments cite papers.
var labelled = []string{"policies", "sched", "sim", "internal/tracker", "internal/virtual"}

// label matches the label of a private list of readings or examples, such as (A9), Q14 or E6.2,
// and the section of a private text. The papers' own sections have Roman numbers (§IV-B). P1
// to P3 are the cases of DynamicMR's prescheduling and no such labels.
var label = regexp.MustCompile(`\b[A-FQT]\d{1,2}(?:\.\d+)?\b|§\d[\d.]*`)

// cited matches a citation of one or more readings, and number each number in it.
var (
	cited  = regexp.MustCompile(`(?i)\breadings? (\d+(?:(?:, | and | to )\d+)*)`)
	number = regexp.MustCompile(`\d+`)
)

// section matches the heading of a numbered list of readings, and item a numbered line.
var (
	section = regexp.MustCompile(`^## (Readings|Differences)`)
	item    = regexp.MustCompile(`^(\d+)\. `)
)

// checkReadings checks that comments cite the numbered readings in the README of their
// source's folder, and nothing that only the authors can look up.
func checkReadings(t *Tree) ([]Finding, error) {
	var found []Finding
	readings := make(map[string]int) // their number, by folder
	for _, f := range t.files {
		if m, _ := path.Match("policies/*/README.md", f.path); m {
			n, bad := countReadings(f)
			readings[path.Dir(f.path)] = n
			found = append(found, bad...)
		}
	}
	for _, f := range t.files {
		if m, _ := path.Match("policies/*/README.md", f.path); m {
			found = append(found, missing(f.path, 0, string(f.data), readings[path.Dir(f.path)])...)
		}
	}
	for _, f := range t.gos {
		if !within(f.dir, labelled) {
			continue
		}
		for _, group := range f.ast.Comments {
			// A citation may continue on the next line of its comment.
			text, line := strings.Join(strings.Fields(group.Text()), " "), t.fset.Position(group.Pos()).Line
			if w := label.FindString(text); w != "" {
				found = append(found, Finding{f.path, line, w + ": cite a reading of README.md, or the paper"})
			}
			if source := paper(f.dir); source != "" {
				found = append(found, missing(f.path, line, text, readings["policies/"+source])...)
			}
		}
	}
	return found, nil
}

// countReadings returns the number of readings in a README, and a finding for each that is
// out of sequence.
func countReadings(f textFile) (n int, found []Finding) {
	inside := false
	for i, line := range strings.Split(string(f.data), "\n") {
		if strings.HasPrefix(line, "## ") {
			inside = section.MatchString(line)
		}
		m := item.FindStringSubmatch(line)
		if !inside || m == nil {
			continue
		}
		n++
		if m[1] != strconv.Itoa(n) {
			found = append(found, Finding{f.path, i + 1, fmt.Sprintf("reading %s follows reading %d", m[1], n-1)})
		}
	}
	return n, found
}

// missing returns a finding for each cited reading that is not among the n of the README.
func missing(file string, line int, text string, n int) []Finding {
	var found []Finding
	for _, m := range cited.FindAllStringSubmatch(text, -1) {
		for _, s := range number.FindAllString(m[1], -1) {
			if i, err := strconv.Atoi(s); err != nil || i < 1 || i > n {
				found = append(found, Finding{file, line, fmt.Sprintf("reading %s: the README of this source has %d", s, n)})
			}
		}
	}
	return found
}
