// Package linematch finds the lines in a block of text that a regular expression matches,
// at nearly the speed of reading the bytes.
//
// A Pattern is compiled with the standard library's parser, so the syntax and
// the meaning are exactly the same as in package regexp. The automaton passes cases that
// it cannot handle (word boundaries, too many states) to package regexp, and the tests
// compare the two.
//
//	block ─► required literal? ─► candidate lines ─► automaton ─► lines
//	      └► else: automaton over the whole block, LF resetting it
//
// The automaton is deterministic and built lazily: a table of 256 entries for
// each state, filled in when an entry is first needed. scan.go has the loop and dfa.go
// the construction.
package linematch

import (
	"regexp"
	"regexp/syntax"
)

// Pattern is a compiled regular expression. It is immutable and may be shared; each
// goroutine needs its own Scanner.
type Pattern struct {
	re      *regexp.Regexp
	prog    *syntax.Prog
	literal []byte // every match contains it; empty if none was found
	whole   bool   // the expression is just the literal
	lazy    bool   // the automaton can handle the expression
	begins  bool   // the program has assertions on line beginnings
	wide    wideClasses
}

// Compile parses a regular expression in the syntax of package regexp, whose
// errors it returns.
func Compile(expr string) (*Pattern, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	tree = tree.Simplify()
	prog, err := syntax.Compile(tree)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, prog: prog, lazy: true, wide: classify(prog)}
	p.literal, p.whole = required(tree)
	for _, inst := range prog.Inst {
		if inst.Op != syntax.InstEmptyWidth {
			continue
		}
		at := syntax.EmptyOp(inst.Arg)
		p.lazy = p.lazy && at&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) == 0
		p.begins = p.begins || at&beginning != 0
	}
	return p, nil
}

// String returns the expression.
func (p *Pattern) String() string { return p.re.String() }

// required returns the longest string that every match must contain, and whether the
// expression is just that string. Letters that match in both cases are excluded.
func required(re *syntax.Regexp) (literal []byte, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 && valid(re.Rune) {
			return []byte(string(re.Rune)), true
		}
	case syntax.OpCapture:
		return required(re.Sub[0])
	case syntax.OpPlus:
		literal, _ = required(re.Sub[0])
		return literal, false
	case syntax.OpRepeat:
		if re.Min > 0 {
			literal, _ = required(re.Sub[0])
			return literal, false
		}
	case syntax.OpConcat:
		return requiredOfAll(re.Sub)
	}
	return nil, false
}

// requiredOfAll joins whole neighbours and keeps their longest run.
func requiredOfAll(subs []*syntax.Regexp) (best []byte, whole bool) {
	var run []byte
	whole = true
	for _, sub := range subs {
		l, w := required(sub)
		if w {
			run = append(run, l...)
		} else {
			whole, run = false, nil
		}
		for _, c := range [][]byte{l, run} {
			if len(c) > len(best) {
				best = append([]byte(nil), c...)
			}
		}
	}
	return best, whole
}

// valid reports whether all runes have a unique encoding. The replacement character has
// none, because every invalid byte decodes to it, too.
func valid(rs []rune) bool {
	for _, r := range rs {
		if r == '\uFFFD' {
			return false
		}
	}
	return true
}
