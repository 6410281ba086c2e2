// Package docs holds the pages about files, which the command slotwise formats prints. Its
// tests compare the project's documentation with its code.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed formats/*.md
var pages embed.FS

// Formats returns the pages NAME.md about the files that users write and read.
func Formats() fs.FS {
	sub, err := fs.Sub(pages, "formats")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return sub
}
