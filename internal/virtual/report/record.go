package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Record holds the program, settings and inputs of a result, so that an outside reader can make it again: the same
// command, with files of the same digests, gives the same Result. All digests are the first 16
// hexadecimal digits of a SHA-256.
type Record struct {
	// Program is the version of slotwise, with the commit of its sources if the build knows it.
	Program string `json:"program"`
	// Command is a shell command that makes the result again, from the directory in which the first one
	// ran. Flags that change no number are left out.
	Command string `json:"command"`
	// Settings are all settings with their values, defaults too, in the order of the documentation.
	Settings []Setting `json:"settings"`
	// Files are the files that the command reads.
	Files []File `json:"files"`
	// Jobs are digests of the jobs after all rules of the import, one for each seed that
	// draws other jobs.
	Jobs []Digest `json:"jobs"`
	// Clusters and Worlds are digests of each cluster and each world, with the values
	// of all parameters of a world.
	Clusters []Digest `json:"clusters"`
	Worlds   []World  `json:"worlds"`
	// Result is the digest of all numbers of the result.
	Result string `json:"result"`
}

// Setting is a setting with its value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// File is a file, or all files of a directory.
type File struct {
	// Use is the setting that names the file, Name the user's spelling.
	Use    string `json:"use"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"sha256"`
	// Text is the content of a small text file.
	Text string `json:"text,omitempty"`
}

// Digest is the digest of something with a name.
type Digest struct {
	Name   string `json:"name"`
	Digest string `json:"sha256"`
}

// World is a world with the values of its parameters.
type World struct {
	Digest
	Values []Setting `json:"values"`
}

// Print writes the record for people, without the contents of files. It writes nothing for nil.
func (r *Record) Print(w io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "\nmade by %s; result %s\n", r.Program, r.Result)
	fmt.Fprintf(w, "again: %s\n", r.Command)
	for _, part := range r.parts() {
		fmt.Fprintf(w, "%s: %s\n", part.Name, part.Value)
	}
}

// shown is the number of digests of a kind that text shows; the JSON has all.
const shown = 3

// parts returns the record's lists as text. Settings without a value are left out.
func (r *Record) parts() []Setting {
	digests := func(list []Digest) string {
		var words []string
		for _, d := range list[:min(shown, len(list))] {
			words = append(words, d.Name+" "+d.Digest)
		}
		if more := len(list) - shown; more > 0 {
			words = append(words, fmt.Sprintf("and %d more", more))
		}
		return strings.Join(words, "; ")
	}
	var settings, files []string
	for _, s := range r.Settings {
		if s.Value != "" {
			settings = append(settings, s.Name+"="+s.Value)
		}
	}
	for _, f := range r.Files {
		files = append(files, fmt.Sprintf("%s (%d bytes, sha256 %s)", f.Name, f.Bytes, f.Digest))
	}
	var worlds []Digest
	for _, w := range r.Worlds {
		worlds = append(worlds, w.Digest)
	}
	all := []Setting{{"settings", strings.Join(settings, " ")}, {"files", strings.Join(files, "; ")},
		{"jobs, sha256", digests(r.Jobs)}, {"clusters, sha256", digests(r.Clusters)}, {"worlds, sha256", digests(worlds)}}
	return slices.DeleteFunc(all, func(s Setting) bool { return s.Value == "" })
}

// HTML returns the record as a section of a page, with the contents of small files and the
// values of worlds.
func (r *Record) HTML() g.Node {
	if r == nil {
		return nil
	}
	closed := func(title, text string) g.Node { return h.Details(h.Summary(g.Text(title)), h.Pre(g.Text(text))) }
	return g.Group{h.H2(g.Text("How to make this again")),
		h.P(g.Textf("Made by %s. The command below makes a result of the digest %s from the same files.", r.Program, r.Result)),
		h.Pre(h.ID("command"), g.Text(r.Command)),
		g.Map(r.parts(), func(s Setting) g.Node { return h.P(g.Text(s.Name + ": " + s.Value)) }),
		g.Map(r.Files, func(f File) g.Node {
			return g.If(f.Text != "", closed(f.Use+" "+f.Name, f.Text))
		}),
		g.Map(r.Worlds, func(w World) g.Node {
			var text strings.Builder
			for _, s := range w.Values {
				fmt.Fprintf(&text, "%s: %s\n", s.Name, s.Value)
			}
			return closed("world "+w.Name, text.String())
		})}
}
