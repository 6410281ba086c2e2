// Package hadoopconf converts the configuration files of Hadoop's schedulers
// (fair-scheduler.xml, capacity-scheduler.xml, mapred-site.xml) to the configuration of
// the policies fair and capacity.
//
// The readers are pure. They read from an io.Reader and return a value, or an error
// that names the line and the element. Problems that Hadoop only warns of are returned
// as warnings.
package hadoopconf

import "fmt"

// Property is a name and value of a Hadoop configuration file.
type Property struct {
	Name  string
	Value string
	Line  int // line in the file; 0 if it comes from no file
}

// Warning describes an element or property that was ignored.
type Warning struct {
	Line    int
	Element string
	Text    string
}

// String returns the warning with its location.
func (w Warning) String() string { return location(w.Line, w.Element) + w.Text }

// Error is the reason why a file cannot be used.
type Error struct {
	Line    int
	Element string
	Text    string
}

// Error implements error.
func (e *Error) Error() string { return location(e.Line, e.Element) + e.Text }

// location formats a line and an element as the prefix of a message.
func location(line int, element string) string {
	s := ""
	if line > 0 {
		s = fmt.Sprintf("line %d: ", line)
	}
	if element != "" {
		s += "<" + element + ">: "
	}
	return s
}
