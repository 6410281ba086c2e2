package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components returns the list of a binary's components as CycloneDX JSON: the modules
// that the Go toolchain linked, as it recorded them in the binary, and Go's standard
// library. Modules that only tests need are not in the binary, and so not in the list.
func (b *builder) components(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	product := goModule(info.Main.Path, "v"+b.version, "")
	product.Type, product.Name, product.Version = cdx.ComponentTypeApplication, "slotwise", b.version
	product.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	list := []cdx.Component{goModule("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		list = append(list, goModule(d.Path, d.Version, d.Sum))
	}
	direct := make([]string, len(list))
	for i, c := range list {
		direct[i] = c.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &product}
	bom.Components = &list
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &direct}}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// goModule returns a module as a component. sum is the module's line in go.sum, whose
// form h1: is a SHA-256 over the module's files.
func goModule(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); sum != "" && err == nil {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	return c
}
