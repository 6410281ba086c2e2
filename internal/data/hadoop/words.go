package hadoop

import "strings"

// SplitCommand divides the command of a mapper, reducer or combiner into words as Hadoop
// Streaming does, without a shell. Only spaces separate words. Quotes protect spaces and
// are removed. A quote ends the current word and begins another one, so a"b"c is three
// words. An empty quoted word vanishes, nothing escapes a quote, and a quote that is not
// closed extends to the end.
func SplitCommand(s string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		// Hadoop's splitArgs ends a word at each quote. A shell would join the parts, but scripts for
		// streaming are written for this splitting.
		case quote != 0 && c == quote:
			flush()
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			flush()
			quote = c
		// A TAB or a line end is a part of a word, as in Hadoop.
		case c == ' ':
			flush()
		default:
			word.WriteByte(c)
		}
	}
	flush()
	return words
}

// SplitList divides a comma list of paths, nil for "". A comma within braces is part of a
// glob and does not separate. An empty element stays in the list, so that Namespace.URI
// refuses it, as Hadoop does.
func SplitList(s string) []string {
	if s == "" {
		return nil
	}
	var list []string
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			// A } without a { must not make the following commas ordinary characters.
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				list = append(list, s[from:i])
				from = i + 1
			}
		}
	}
	return append(list, s[from:])
}

// SimpleName returns the last element of a Java class name.
func SimpleName(class string) string {
	if i := strings.LastIndexAny(class, ".$"); i >= 0 {
		return class[i+1:]
	}
	return class
}
