// Package hadoopconf reads Hadoop's configuration of its schedulers as it is:
// fair-scheduler.xml, capacity-scheduler.xml and the properties of
// mapred-site.xml, into the configuration of the policies fair and capacity.
//
// The readers are pure: they read from an io.Reader and return a value, or an
// error that names line and element, in which case the caller keeps what it
// had. What Hadoop would only warn of comes back as warnings. Files follows files
// that change, for a cluster that runs.
package hadoopconf

import "fmt"

// Property is a name and value of a Hadoop configuration file.
type Property struct {
	Name  string
	Value string
	Line  int // where it begins, 0 if from no file
}

// Warning is something that was passed over.
type Warning struct {
	Line    int
	Element string
	Text    string
}

// String writes a warning for people.
func (w Warning) String() string { return place(w.Line, w.Element) + w.Text }

// Error is why a file was not read.
type Error struct {
	Line    int
	Element string
	Text    string
}

// Error implements error.
func (e *Error) Error() string { return place(e.Line, e.Element) + e.Text }

func place(line int, element string) string {
	s := ""
	if line > 0 {
		s = fmt.Sprintf("line %d: ", line)
	}
	if element != "" {
		s += "<" + element + ">: "
	}
	return s
}
