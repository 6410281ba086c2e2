package generate

import (
	"io"
	"strconv"
)

// graph writes the edges of a directed graph, from TAB to on each line. Few
// nodes have very many edges: the degree falls as a power of the rank. An edge
// may occur more than once, as in crawls.
func graph(w io.Writer, p part, params Params) error {
	nodes, err := params.Int("nodes", 1)
	if err != nil {
		return err
	}
	r := rng{p.seed}
	return writeLines(w, p.size, func(b []byte) []byte {
		b = append(strconv.AppendUint(b, r.skewed(uint64(nodes)), 10), '\t')
		return append(strconv.AppendUint(b, r.below(uint64(nodes)), 10), '\n')
	})
}
