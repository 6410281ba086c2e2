// Package helm holds the Helm chart of slotwise and renders it without Helm.
//
// The chart's template uses only what package text/template itself provides, and none of
// Helm's additional functions. So slotwise kubernetes manifest and Helm render the same
// objects from the same file.
package helm

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"

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
	t, err := template.New("slotwise.yaml").Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Values": values, "Release": map[string]any{"Namespace": namespace}})
	return b.Bytes(), err
}
