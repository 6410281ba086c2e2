// Package linematch finds the lines in a block of text that a regular expression matches,
// at nearly the speed of reading the bytes.
//
// A Pattern is compiled with the standard library's parser, so the syntax and
// the meaning are exactly the same as in package regexp. The automaton passes cases that
// it cannot handle (word boundaries, too many states) to package regexp, and the tests
// compare the two.
//
//	block ─► required words? ─► lines with a word ─► automaton ─► lines
//	      └► else: automaton over the whole block, LF resetting it
//
// literals.go derives the words from the expression: strings of which every matching line contains
// one, with a set of bytes for each place, so that (?i)abc and a[bc]d are one word each. finder.go
// chooses how to search for them: vectorpair.go and fingerprint.go need the vector instructions
// of vector_amd64.s, finder.go and grams.go do without. If every line with a word matches, no automaton
// runs.
//
// The automaton is deterministic and built lazily: a table of 256 entries for
// each state, filled in when an entry is first needed. scan.go has the loop and dfa.go
// the construction.
//
// Three levels answer "no" at rising cost, and each is exact about it: a finder skips text without a required
// word, the home state skips bytes that begin no match, and the table takes one load for each byte. What a
// level costs depends on the text. So each measures itself while it works and gives way when it does not pay:
// oneByte to pairs, the words to the automaton (Scanner.candidates), the home state to stepping (dfa.paid),
// and the table to package regexp (Scanner.renew). The results are the same at every level.
//
// To add a way of searching: implement finder, return its expected nanoseconds for a byte beside it, and let
// newFinder compare.
package linematch

import (
	"regexp"
	"regexp/syntax"
)

// Pattern is a compiled regular expression. It is immutable and may be shared; each
// goroutine needs its own Scanner.
type Pattern struct {
	re     *regexp.Regexp
	prog   *syntax.Prog
	words  []word // every matching line contains one; nil if no useful ones were found
	whole  bool   // and every line that contains one matches
	before bool   // the words begin with the LF before the line
	behind bool   // they end with the LF of the line
	lazy   bool   // the automaton can handle the expression
	begins bool   // the program has assertions on line beginnings
	wide   wideClasses
}

// Compile parses a regular expression in the syntax of package regexp, whose
// errors it returns.
func Compile(expr string) (*Pattern, error) {
	// The whole expression for the lines that the automaton passes on.
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// Before Compile, as regexp.Compile does. The program and the words then come from one tree, without
	// repetitions such as x{2,5}, which literals would not understand.
	tree = tree.Simplify()
	prog, err := syntax.Compile(tree)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, prog: prog, lazy: true, wide: classify(prog)}
	if p.words, p.whole = literals(tree); p.words != nil {
		// All words begin alike or not at all with an LF: lineEnds puts it into the first part, and products
		// keep it first.
		w := p.words[0]
		p.before, p.behind = w[0] == lineFeed, w[len(w)-1] == lineFeed
	}
	for _, inst := range prog.Inst {
		if inst.Op != syntax.InstEmptyWidth {
			continue
		}
		at := syntax.EmptyOp(inst.Arg)
		// Word boundaries depend on the byte before, which the sets of instructions do not remember.
		p.lazy = p.lazy && at&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) == 0
		p.begins = p.begins || at&beginning != 0
	}
	return p, nil
}

// String returns the expression.
func (p *Pattern) String() string { return p.re.String() }
