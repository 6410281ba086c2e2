package hadoopconf

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is an XML element with the line on which it begins.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	line     int
	children []*element
}

// maxDepth bounds the nesting of elements; Hadoop's files have three levels.
const maxDepth = 100

// parse reads a whole document and returns its root.
func parse(r io.Reader) (*element, error) {
	d := xml.NewDecoder(r)
	root := &element{}
	open := []*element{root}
	for {
		// Before the token, whose end may be lines later.
		line, _ := d.InputPos()
		token, err := d.Token()
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local, attrs: map[string]string{}, line: line}
			for _, a := range t.Attr {
				// Without the name space: Hadoop ignores it, and files copied from documentation may have
				// one.
				e.attrs[a.Name.Local] = a.Value
			}
			// The stack of open elements grows with the file, which any user may have written.
			if len(open) > maxDepth {
				return nil, &Error{line, e.name, "is nested too deeply"}
			}
			top.children = append(top.children, e)
			open = append(open, e)
		case xml.EndElement:
			top.text = strings.TrimSpace(top.text)
			open = open[:len(open)-1]
		case xml.CharData:
			// Comments split a text into several tokens.
			top.text += string(t)
		}
		// After the token: the decoder reports the end of the file without one.
		if err == io.EOF {
			return rootOf(root, line)
		}
		if err != nil {
			return nil, bad(err, line, top.name)
		}
	}
}

func rootOf(doc *element, line int) (*element, error) {
	if len(doc.children) != 1 {
		return nil, &Error{line, "", fmt.Sprintf("the file has %d top-level elements; it must have exactly one", len(doc.children))}
	}
	return doc.children[0], nil
}

// bad adds the line and the element to an error of the decoder.
func bad(err error, line int, name string) error {
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		return &Error{syntax.Line, name, syntax.Msg}
	}
	return &Error{line, name, err.Error()}
}

// ReadProperties reads a file of properties such as mapred-site.xml or
// capacity-scheduler.xml, in order. If a name occurs twice it returns both; the last one
// counts (see lastOf). It does not substitute variables in values.
func ReadProperties(r io.Reader) (props []Property, warnings []Warning, err error) {
	root, err := parse(r)
	if err != nil {
		return nil, nil, err
	}
	switch root.name {
	case "configuration":
	// A common mistake deserves its own message: both files list queues.
	case "queues":
		return nil, nil, &Error{root.line, root.name, "this is a mapred-queues.xml, which has no capacities: state the queues in capacity-scheduler.xml, as mapred.capacity-scheduler.queue.NAME.capacity"}
	default:
		return nil, nil, &Error{root.line, root.name, "the top-level element must be <configuration>"}
	}
	for _, e := range root.children {
		if e.name != "property" {
			warnings = append(warnings, Warning{e.line, e.name, "is unknown and was passed over"})
			continue
		}
		p := Property{Line: e.line}
		given := false
		for _, c := range e.children {
			switch c.name {
			case "name":
				p.Name = c.text
			case "value":
				p.Value, given = c.text, true
			// Hadoop's tools write these for people. They change nothing.
			case "description", "final", "source":
			default:
				warnings = append(warnings, Warning{c.line, c.name, "is unknown and was passed over"})
			}
		}
		if p.Name == "" {
			return nil, warnings, &Error{e.line, e.name, "has no name"}
		}
		// An element without a value is no empty value: Hadoop keeps the default then.
		if given {
			props = append(props, p)
		} else {
			warnings = append(warnings, Warning{e.line, p.Name, "has no value and was passed over"})
		}
	}
	return props, warnings, nil
}

// lastOf returns each name once, in the order of first mention, with the value that it has last. Of
// repeated properties Hadoop takes the last one, in a file and among files.
func lastOf(props []Property) (list []Property) {
	at := map[string]int{} // index in list
	for _, p := range props {
		i, again := at[p.Name]
		if !again {
			i = len(list)
			at[p.Name], list = i, append(list, p)
		}
		list[i] = p
	}
	return list
}
