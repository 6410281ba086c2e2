package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// FileSchema describes one file of an input.
type FileSchema struct {
	URI    string `json:"file"`
	Bytes  int64  `json:"bytes"`
	Format string `json:"format"` // as --format takes it; text has no columns
	Codec  string `json:"codec,omitempty"`
	// Guessed says that jobs read the file as text unless --format names Format, and Sampled that types
	// come from the first records only.
	Guessed bool                `json:"guessed,omitempty"`
	Sampled bool                `json:"sampled,omitempty"`
	Columns []format.ColumnType `json:"columns"`
	InPath  []format.ColumnType `json:"partitions,omitempty"`
}

// ColumnSchema is a column of an input, by its name.
type ColumnSchema struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`            // of all files together
	Types []string `json:"types,omitempty"` // of the files, if they differ
	// InPath says that the column is in the paths of files. Without lists the files that lack the column.
	InPath  bool     `json:"partition,omitempty"`
	Files   int      `json:"files"`
	Without []string `json:"missing_in,omitempty"`
}

// Schema is the schema of an input: its files and the union of their columns, in the order in which they
// first occur.
type Schema struct {
	Files   []FileSchema   `json:"files"`
	Columns []ColumnSchema `json:"columns"`
}

// ReadSchema finds the files of an input, as List does, and opens each file, 16 at a time. Conditions
// choose files by their paths. One on a column that no path has is an error: it would choose nothing.
func ReadSchema(ctx context.Context, opts Options) (*Schema, error) {
	conditions := &format.Spec{}
	// List would apply the conditions to the files, and choose learns from all files which columns
	// paths have.
	if opts.Rows != nil {
		conditions = opts.Rows
		all := *opts.Rows
		all.Where, opts.Rows = nil, &all
	}
	l, err := List(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := l.choose(conditions); err != nil {
		return nil, err
	}
	p := &planner{ctx: ctx, opts: &l.opts}
	s := &Schema{Files: make([]FileSchema, len(l.files)), Columns: []ColumnSchema{}}
	err = atOnce(len(l.files), func(i int) (err error) {
		s.Files[i], err = p.schema(&l.files[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	s.unite()
	return s, nil
}

// choose removes the files whose paths do not meet the conditions.
func (l *Listing) choose(conditions *format.Spec) error {
	inPath := map[string]bool{}
	// A slice without capacity, so that appending does not overwrite files, which the loop still reads.
	kept := l.files[:0:0]
	for _, f := range l.files {
		partitions := partitionsOf(f.uri, conditions)
		for _, p := range partitions {
			inPath[p.Name] = true
		}
		if !conditions.ExcludesFile(partitions) {
			kept = append(kept, f)
		}
	}
	for i := range conditions.Where {
		if w := &conditions.Where[i]; !inPath[w.Column] {
			return fmt.Errorf("the condition %s: no file is below a directory %s=…, and a schema reads files by their directories only: leave the condition out", w.String(), w.Column)
		}
	}
	l.files = kept
	return nil
}

// schema opens a file and returns its columns.
func (p *planner) schema(f *found) (FileSchema, error) {
	out := FileSchema{URI: f.uri, Bytes: f.size, Format: format.Text, Columns: []format.ColumnType{}}
	if f.size == 0 {
		return out, p.refuseEmpty(f)
	}
	_, err := p.open(f, func(file storage.File, c *content) (err error) {
		if c.codec != nil {
			out.Codec = c.codec.name
		}
		spec := p.spec()
		if c.rows != nil {
			spec = spec.As(c.rows.Name)
			// Text without columns, which is a result and no error.
		} else if spec = guess(f.uri, spec); spec == nil {
			return nil
		}
		kind, err := format.Get(spec.Name)
		if err != nil {
			return err
		}
		out.Guessed = c.rows == nil
		shown := *spec
		// The shown format is for reading the file alone.
		shown.Columns, shown.Where, shown.Missing = nil, nil, ""
		out.Format = shown.String()
		src := &format.Source{File: file, Size: f.size, To: f.size, Decompress: decompress}
		if !kind.Binary() {
			src.Text = io.NewSectionReader(file, 0, f.size)
			if c.codec != nil {
				if src.Text, err = c.codec.decode(src.Text); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, closeText(src)) }()
			}
		}
		out.Columns, out.Sampled, err = format.Types(src, spec)
		for _, part := range partitionsOf(f.uri, spec) {
			t := "null"
			if !part.Null {
				t = format.TypeOfText(part.Value, true)
			}
			out.InPath = append(out.InPath, format.ColumnType{Name: part.Name, Type: t})
		}
		return err
	})
	return out, err
}

// guess returns the format of a file of text by its name, nil if it is text to all appearance. Jobs do
// not guess: streaming commands expect the lines of such files.
func guess(uri string, spec *format.Spec) *format.Spec {
	if spec.Name != format.Auto {
		return nil
	}
	ext := path.Ext(uri)
	// events.csv.gz is a CSV file.
	if codecByName(uri) != nil {
		ext = path.Ext(strings.TrimSuffix(uri, ext))
	}
	switch ext {
	case ".csv":
		return spec.As(format.CSV)
	case ".tsv":
		tabs := spec.As(format.CSV)
		tabs.Separator = '\t'
		return tabs
	case ".json", ".jsonl", ".ndjson":
		return spec.As(format.JSON)
	}
	return nil
}

// unite sets the union of the files' columns. Files without columns, such as text and empty CSV files, do not
// count as lacking them.
func (s *Schema) unite() {
	at := map[string]int{}
	types := map[string][]string{}
	for i := range s.Files {
		f := &s.Files[i]
		// k is 1 for the columns of the path.
		for k, list := range [][]format.ColumnType{f.Columns, f.InPath} {
			for _, c := range list {
				j, known := at[c.Name]
				if !known {
					j = len(s.Columns)
					at[c.Name] = j
					s.Columns = append(s.Columns, ColumnSchema{Name: c.Name, Type: c.Type})
				}
				column := &s.Columns[j]
				inFile := slices.ContainsFunc(f.Columns, func(x format.ColumnType) bool { return x.Name == c.Name })
				switch {
				case k == 0 && slices.ContainsFunc(f.InPath, func(x format.ColumnType) bool { return x.Name == c.Name }):
					continue // the column of the path takes its place
				// The file's own column was skipped above, so its type has no say.
				case k == 1 && inFile && column.Files == 0:
					column.Type = c.Type
				}
				column.Type = format.UniteTypes(column.Type, c.Type)
				column.InPath = column.InPath || k == 1
				column.Files++
				if c.Type != "null" && !slices.Contains(types[c.Name], c.Type) {
					types[c.Name] = append(types[c.Name], c.Type)
				}
			}
		}
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		if all := types[c.Name]; len(all) > 1 {
			c.Types = all
		}
		for j := range s.Files {
			f := &s.Files[j]
			has := func(x format.ColumnType) bool { return x.Name == c.Name }
			if len(f.Columns)+len(f.InPath) > 0 && !slices.ContainsFunc(f.Columns, has) && !slices.ContainsFunc(f.InPath, has) {
				c.Without = append(c.Without, f.URI)
			}
		}
	}
	// Columns of paths follow the files' own, as in lines.
	isFile := func(c ColumnSchema) bool { return !c.InPath }
	own := slices.DeleteFunc(slices.Clone(s.Columns), func(c ColumnSchema) bool { return c.InPath })
	s.Columns = append(own, slices.DeleteFunc(s.Columns, isFile)...)
}
