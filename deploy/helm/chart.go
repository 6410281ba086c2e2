// Package helm holds the Helm chart of slotwise and renders it without Helm.
//
// The chart's template uses a few actions of package text/template and none of Helm's additional
// functions. So slotwise kubernetes manifest and Helm render the same objects from the same file.
package helm

import (
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed templates/slotwise.yaml
var source string

//go:embed values.yaml
var defaults []byte

// Values are the values of the chart, by their names in values.yaml.
type Values map[string]any

// Defaults returns the values in values.yaml. The caller may change them.
func Defaults() (Values, error) {
	v := Values{}
	if err := yaml.Unmarshal(defaults, &v); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	return v, nil
}

// Render returns the objects of the chart as YAML documents for a namespace. The caller
// must have checked the names in values, because the template inserts names without
// quotes. If values lacks a value that the template uses, Render returns an error.
func Render(values Values, namespace string) ([]byte, error) {
	return render(source, map[string]any{"Values": map[string]any(values), "Release": map[string]any{"Namespace": namespace}})
}
