package main

import "bytes"

// grep finds a z with the processor's search for a byte, then looks at the bytes behind it.
func grep(parts [][]byte, _ int) []piece {
	pieces := make([]piece, len(parts))
	each(len(parts), func(i int) {
		text, out := parts[i], []byte(nil)
		defer func() { pieces[i] = whole(out) }()
		for at := 0; ; {
			z := bytes.IndexByte(text[at:], 'z')
			if z < 0 {
				return
			}
			at += z
			if at+5 > len(text) || text[at+2] != 'z' || !vowel(text[at+1]) || !vowel(text[at+3]) || text[at+4] != 'm' && text[at+4] != 'z' {
				at++
				continue
			}
			from := bytes.LastIndexByte(text[:at], '\n') + 1
			to := len(text)
			if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
				to = at + n + 1
			}
			out = append(out, text[from:to]...)
			at = to
		}
	})
	return pieces
}

func vowel(c byte) bool { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' }
