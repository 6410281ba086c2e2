package source

import (
	"net/url"
	"strings"
)

// Below returns to if it is a path below root, and else root. It keeps a link to this
// server from leading to another one.
func Below(to, root string) string {
	// Browsers read a backslash as a slash, and a line break would end the header Location.
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, root) || strings.ContainsAny(to, "\\\r\n") {
		return root
	}
	return u.String()
}
