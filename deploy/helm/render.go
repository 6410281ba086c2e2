package helm

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// renderer evaluates the part of Go's templates that the chart uses, on values of YAML. text/template
// itself would make slotwise a sixth larger, which its parser does not (docs/architecture.md,
// "Libraries"). A test compares both on every chart that it renders.
type renderer struct{ out strings.Builder }

// functions has the names of the functions that the chart may call. The parser only reads the names.
var functions = map[string]any{"printf": true, "not": true}

// render evaluates source with the data dot. An action that it does not know is an error.
func render(source string, dot map[string]any) ([]byte, error) {
	trees, err := parse.Parse("slotwise.yaml", source, "", "", functions)
	if err != nil {
		return nil, err
	}
	var r renderer
	err = r.list(trees["slotwise.yaml"].Root, dot)
	return []byte(r.out.String()), err
}

// list writes the nodes of a list. dot is the value of . in the list.
func (r *renderer) list(list *parse.ListNode, dot any) error {
	if list == nil { // an if without else
		return nil
	}
	for _, n := range list.Nodes {
		if err := r.node(n, dot); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) node(n parse.Node, dot any) error {
	switch n := n.(type) {
	case *parse.TextNode:
		r.out.Write(n.Text)
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		v, err := pipe(n.Pipe, dot)
		fmt.Fprint(&r.out, v)
		return err
	case *parse.IfNode:
		v, err := pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		if isSet(v) {
			return r.list(n.List, dot)
		}
		return r.list(n.ElseList, dot)
	case *parse.RangeNode:
		v, err := pipe(n.Pipe, dot)
		// A missing list renders nothing, as in Helm. Anything else, such as a map, would be rendered in
		// another order than Helm's.
		items, ok := v.([]any)
		if err != nil || !ok && v != nil {
			return errors.Join(err, unknown(n))
		}
		for _, item := range items {
			if err := r.list(n.List, item); err != nil {
				return err
			}
		}
		return nil
	}
	return unknown(n)
}

func unknown(n parse.Node) error { return fmt.Errorf("slotwise.yaml: %v is not supported", n) }

// pipe evaluates commands; each gets the value of the one before as its last argument.
func pipe(p *parse.PipeNode, dot any) (v any, err error) {
	// Variables are not needed by the chart, and the error keeps it so.
	if len(p.Decl) > 0 {
		return nil, unknown(p)
	}
	for i, c := range p.Cmds {
		args := make([]any, 0, len(c.Args)+1)
		for _, a := range c.Args {
			if _, isFunction := a.(*parse.IdentifierNode); isFunction {
				continue
			}
			value, err := argument(a, dot)
			if err != nil {
				return nil, err
			}
			args = append(args, value)
		}
		if i > 0 {
			args = append(args, v)
		}
		if v, err = command(c, args); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// command is the value of a command: of its function, or of its one operand.
func command(c *parse.CommandNode, args []any) (any, error) {
	f, called := c.Args[0].(*parse.IdentifierNode)
	switch {
	case !called && len(args) == 1:
		return args[0], nil
	case called && f.Ident == "not" && len(args) == 1:
		return !isSet(args[0]), nil
	case called && f.Ident == "printf" && len(args) > 0:
		if format, ok := args[0].(string); ok {
			return fmt.Sprintf(format, args[1:]...), nil
		}
	}
	return nil, unknown(c)
}

// argument is the value of an operand: a text, dot, or a field of dot, which must exist.
func argument(n parse.Node, dot any) (any, error) {
	switch n := n.(type) {
	case *parse.StringNode:
		return n.Text, nil
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		for _, name := range n.Ident {
			fields, _ := dot.(map[string]any)
			v, ok := fields[name]
			// Helm renders "<no value>" for a missing name, which Kubernetes takes for a text.
			if !ok {
				return nil, fmt.Errorf("slotwise.yaml: %v: there is no value %s", n, name)
			}
			dot = v
		}
		return dot, nil
	}
	return nil, unknown(n)
}

// isSet reports whether a value counts as true in an if: it is not false, 0, empty or missing.
func isSet(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int:
		return v != 0
	// Helm decodes numbers as float64, and values.yaml here gives int.
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	// Kinds that YAML does not give.
	return true
}
