package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Sizes in bytes.
const (
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
)

// FormatSize formats a number of bytes with three significant digits.
func FormatSize(n int64) string {
	switch {
	case n >= GiB:
		return fmt.Sprintf("%.3g GiB", float64(n)/GiB)
	case n >= MiB:
		return fmt.Sprintf("%.3g MiB", float64(n)/MiB)
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/KiB)
}

// Thousands formats a number that is not negative with commas.
func Thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}

// Limit formats the outcome of comparing a measurement with its limit: "ok" or
// "MISSED", followed by the text that names both.
func Limit(held bool, text string) string {
	if held {
		return "ok " + text
	}
	return "MISSED " + text
}

// Table writes Markdown tables. Writes of a Table that fail are not reported;
// use it on standard output, buffers and files whose Close is checked.
type Table struct{ w io.Writer }

// NewTable writes the header of a table with the given columns.
func NewTable(w io.Writer, columns ...string) Table {
	t := Table{w}
	t.Row(columns...)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(columns)))
	return t
}

// Row writes one row. It escapes what would break the table: line ends become
// spaces, and vertical bars get a backslash.
func (t Table) Row(cells ...string) {
	for _, c := range cells {
		c = strings.NewReplacer("\n", " ", "|", `\|`).Replace(c)
		if c != "" {
			c = " " + c
		}
		fmt.Fprintf(t.w, "|%s ", c)
	}
	fmt.Fprintln(t.w, "|")
}

// Rowf writes one row whose formatted text already has the cells separated by
// vertical bars. It escapes nothing.
func (t Table) Rowf(format string, args ...any) { fmt.Fprintf(t.w, "| "+format+" |\n", args...) }

// WriteJSON writes v, indented, to a file and creates the file's directory if
// necessary. It does nothing if name is empty.
func WriteJSON(name string, v any) error {
	if name == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, append(data, '\n'), 0o666))
}
