package parquet

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	types "github.com/parquet-go/parquet-go/format"
)

// node is a node of the schema of a nested column. Its values become lists, objects, and
// values of encoding/json.
//
// The levels are Dremel's: the definition level of a value counts the optional and repeated nodes on its path
// that are present, and the repetition level names the node at which the value begins another item.
type node struct {
	name               string
	optional, repeated bool
	leaf               *leaf // of a leaf
	first, count       int   // position and number of its leaves in column.leaves
	fields             []*node
	shape              shape
}

// shape is the meaning of a group: an object, or a list or map that the group encodes.
type shape uint8

const (
	object   shape = iota
	list           // a repeated group with one field, which is the item
	bareList       // a repeated field, which is the item; of old writers
	mapping        // a repeated group of key and value
)

// newNode returns the node of a column and adds its leaves to out.
func newNode(c *parquet.Column, leaves []*types.SchemaElement, out *column) *node {
	n := &node{name: c.Name(), optional: c.Optional(), repeated: c.Repeated(), first: len(out.leaves)}
	if c.Leaf() {
		n.leaf = &leaf{index: c.Index(), kind: newKind(c, leaves)}
		out.leaves = append(out.leaves, n.leaf)
	}
	for _, f := range c.Columns() {
		n.fields = append(n.fields, newNode(f, leaves, out))
	}
	n.count = len(out.leaves) - n.first
	n.shape = shapeOf(c)
	return n
}

// shapeOf recognizes lists and maps: by the annotation LIST and the specification's rules for old writers, or
// without that annotation by structure and names.
func shapeOf(c *parquet.Column) shape {
	if c.Leaf() || len(c.Columns()) != 1 || !c.Columns()[0].Repeated() {
		return object
	}
	inner := c.Columns()[0]
	name, fields := inner.Name(), inner.Columns()
	annotated := false
	if l := c.Type().LogicalType(); l != nil {
		_, annotated = l.Value.(*types.ListType)
	}
	switch {
	// The item is the repeated field itself, which parquet-avro calls array, and parquet-thrift by the name of
	// the list and _tuple. Records with the fields key and value are no map here.
	case annotated && (len(fields) != 1 || fields[0].Repeated() || name == "array" || name == c.Name()+"_tuple"):
		return bareList
	case annotated:
		return list
	// The annotation MAP is not asked for: old writers put MAP_KEY_VALUE or nothing at this group.
	case len(fields) == 2 && fields[0].Name() == "key" && fields[0].Leaf():
		return mapping
	// Spark and Arrow write list.element, Hive bag.array_element.
	case len(fields) == 1 && (name == "list" || name == "bag"):
		return list
	case name == "array" || name == "element":
		return bareList
	}
	return object
}

var errLevels = errors.New("the file is corrupt: the levels of its columns do not fit together")

// build returns the value of a node. values holds, for each of its leaves, the values of
// the current row or item. def and rep are the levels of the node's parent.
func (n *node) build(values [][]parquet.Value, def, rep int) (any, error) {
	if len(values) != n.count || n.count == 0 || len(values[0]) == 0 {
		return nil, errLevels
	}
	// All leaves of a node agree on the levels above it, so the first one decides.
	// A null parent still has one value, with a lower level, in each leaf below. So values[0] is never empty
	// in a whole file.
	level := values[0][0].DefinitionLevel()
	switch {
	case n.optional:
		// The node or a parent is null. Every leaf has one value that says so, and the caller skips these
		// together.
		if def++; level < def {
			return nil, nil
		}
	case n.repeated:
		def, rep = def+1, rep+1
		// An empty list also has one value in each leaf, whose level ends above the repeated node.
		if level < def {
			return []any{}, nil
		}
		return n.items(values, def, rep)
	}
	return n.content(values, def, rep)
}

// items returns the items of a repeated node.
func (n *node) items(values [][]parquet.Value, def, rep int) (any, error) {
	var all []any
	for len(values[0]) > 0 {
		item := make([][]parquet.Value, len(values))
		for i, v := range values {
			// An item ends before the next value whose level of repetition is this node's or lower.
			end := 1
			// The first value of an item has the level at which the item begins; the deeper lists in it have
			// higher levels.
			for end < len(v) && v[end].RepetitionLevel() > rep {
				end++
			}
			// Other leaves have more items: the file is damaged, and v[:1] would panic.
			if len(v) == 0 {
				return nil, errLevels
			}
			item[i], values[i] = v[:end], v[end:]
		}
		v, err := n.content(item, def, rep)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// content returns the value of a node that is present.
func (n *node) content(values [][]parquet.Value, def, rep int) (any, error) {
	if n.leaf != nil {
		return n.leaf.kind.value(&values[0][0])
	}
	out := make(map[string]any, len(n.fields))
	for _, f := range n.fields {
		at := f.first - n.first
		// The slice is the field's own part of values, which items shortens in place.
		v, err := f.build(values[at:at+f.count:at+f.count], def, rep)
		if err != nil {
			return nil, err
		}
		out[f.name] = v
	}
	if n.shape == object {
		return out, nil
	}
	items, ok := out[n.fields[0].name].([]any)
	// The repeated group always is a list, unless the levels are damaged.
	if !ok {
		return nil, errLevels
	}
	switch n.shape {
	case list:
		// The specification leaves the name of the inner field to the writer.
		name := n.fields[0].fields[0].name
		for i, item := range items {
			// item is an object, because shapeOf asked for a group inside the list.
			items[i] = item.(map[string]any)[name]
		}
	case mapping:
		return n.mapOf(items)
	}
	return items, nil
}

// mapOf returns the object of a map's keys and values. Two equal keys are an error: an
// object keeps a single entry of a name, and the other one would be lost.
func (n *node) mapOf(items []any) (any, error) {
	pair := n.fields[0].fields
	out := make(map[string]any, len(items))
	for _, item := range items {
		m := item.(map[string]any)
		key, err := keyText(m[pair[0].name])
		if err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("a map has the key %.200q twice, which a JSON object cannot have", key)
		}
		out[key] = m[pair[1].name]
	}
	return out, nil
}

// keyText returns the name that a key has in an object: what JSON has for the key as a value,
// without quotes. Bytes are base64, as in all JSON values.
func keyText(key any) (string, error) {
	// So a key has the same text as the value would have in a line with as=json, whatever its type.
	b, err := json.Marshal(key)
	if err != nil {
		return "", err
	}
	var text string
	if len(b) > 0 && b[0] == '"' {
		err = json.Unmarshal(b, &text)
		return text, err
	}
	return string(b), nil
}
