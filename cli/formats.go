package cli

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/docs"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/avro"
	"github.com/slotwise/slotwise/internal/data/format/parquet"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/output"
)

// docsURL is the folder of the pages that installed packages do not have. The pages about files are
// in the program, because users need them where they write such files.
const docsURL = "https://github.com/slotwise/slotwise/blob/main/docs/"

// newFormats returns the command that prints the pages about files.
func newFormats() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "formats [NAME]",
		Short: "List the kinds of files, or describe one",
		Long: `Lists the formats of tables that slotwise reads and writes with their codecs, and the
pages about files, a line each. With NAME it prints the page: its keys with their
defaults, and examples.`,
		Example: `  slotwise formats
  slotwise formats jobmix
  slotwise formats input`,
		Args:              atMostOne("name"),
		ValidArgsFunction: completeFirst(formatPages, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listFormats(c.OutOrStdout(), asJSON)
			}
			return printFormat(c.OutOrStdout(), args[0], asJSON)
		},
	}
	addPrint(c, &asJSON)
	return c
}

// formatPages returns the names of the pages, in the order of the alphabet.
func formatPages() []string {
	entries, err := fs.ReadDir(docs.Formats(), ".")
	if err != nil {
		panic(err) // the pages are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".md")
	}
	return names
}

// formatPage is a page as JSON. Text is "" in lists.
type formatPage struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

// readFormat returns a page with its text as a terminal shows it. The pages are Markdown that reads
// well as text; only links need a change.
func readFormat(name string) (formatPage, error) {
	text, err := fs.ReadFile(docs.Formats(), name+".md")
	if err != nil {
		return formatPage{}, unknown("format", name, formatPages())
	}
	title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	return formatPage{name, title, withoutLinks(string(text))}, nil
}

// fileFormat is a format of input and output files. The lists are of codecs; an empty one says that the
// format is not written.
type fileFormat struct {
	Name    string   `json:"name"`
	Files   string   `json:"files"` // for people
	Read    []string `json:"read"`
	Written []string `json:"written"`
	// InParts says that the codecs compress parts of a file, so that maps divide it.
	InParts bool   `json:"in_parts"`
	Divided string `json:"divided"` // among maps
}

// fileFormats returns the formats. Codecs come from the program's own tables, so that a codec
// that is added there is listed without a change here.
func fileFormats() []fileFormat {
	whole := input.CodecNames()
	list := []fileFormat{
		{Name: format.Text, Files: "lines", Divided: "by bytes"},
		{Name: format.CSV, Files: "CSV", Divided: "CSV with lines=single"},
		{Name: format.JSON, Files: "JSON lines", Divided: "by bytes"},
		{Name: format.Parquet, Files: "Parquet", Divided: "by row groups", Read: parquet.Codecs()},
		{Name: format.Avro, Files: "Avro", Divided: "at sync markers", Read: avro.Codecs()},
		{Name: format.Sequence, Files: "SequenceFile", Divided: "at sync markers", Read: format.SequenceCodecs()},
	}
	for i := range list {
		f := &list[i]
		o := format.Output{Name: f.Name}
		f.InParts = o.InParts()
		for _, codec := range output.CodecNames {
			if o.CheckCodec(codec) == nil {
				f.Written = append(f.Written, codec)
			}
		}
		// Such a format does not compress: whole files are compressed, by any codec.
		if f.Read == nil {
			f.Read = whole
		}
	}
	return list
}

// listFormats prints the formats of tables, and the name and the title of each page.
func listFormats(w io.Writer, asJSON bool) error {
	list := []formatPage{}
	for _, name := range formatPages() {
		p, err := readFormat(name)
		if err != nil {
			return err
		}
		// A list has the titles alone.
		p.Text = ""
		list = append(list, p)
	}
	if asJSON {
		return encode(w, map[string]any{"formats": fileFormats(), "pages": list})
	}
	for _, f := range fileFormats() {
		if _, err := terminal.Fprintf(w, "%-12s  read: %s\n%-12s  written: %s\n", f.Files, strings.Join(f.Read, ", "), "", strings.Join(f.Written, ", ")); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	for _, p := range list {
		if _, err := terminal.Fprintf(w, "%-8s %s\n", p.Name, p.Title); err != nil {
			return err
		}
	}
	return nil
}

// printFormat prints a page. Its links are commands or addresses, because an installed
// package does not have the files that they name.
func printFormat(w io.Writer, name string, asJSON bool) error {
	p, err := readFormat(name)
	switch {
	case err != nil:
		return err
	case asJSON:
		return encode(w, p)
	}
	_, err = io.WriteString(w, p.Text)
	return err
}

var (
	pageLink = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`) })
	comment  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<!--.*-->\n`) })
)

// withoutLinks replaces the links of a page below docs/formats, and removes its comments: a
// link to another such page becomes a command, one within the page its text, and any other
// an address.
func withoutLinks(page string) string {
	return comment().ReplaceAllString(pageLink().ReplaceAllStringFunc(page, func(link string) string {
		m := pageLink().FindStringSubmatch(link)
		text, target := m[1], m[2]
		file, anchor, _ := strings.Cut(target, "#")
		switch {
		// An anchor on the same page; a terminal has no links.
		case file == "":
			return text
		case !strings.Contains(file, "/"):
			return fmt.Sprintf("slotwise formats %s", strings.TrimSuffix(file, ".md"))
		case strings.Contains(file, "://"):
			return text + " (" + target + ")"
		}
		url := strings.Replace(docsURL, "docs/", path.Join("docs/formats", file), 1)
		if anchor != "" {
			url += "#" + anchor
		}
		// The text of such a link is a file's name, and the address has it.
		if strings.HasSuffix(text, ".md") {
			return url
		}
		return text + " (" + url + ")"
	}), "")
}
