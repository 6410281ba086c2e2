// Command package makes what users install from the sources of this repository:
//
//	go -C deploy/package run . --output dist
//
// For Linux and macOS on amd64 and arm64 it writes an archive with the static binary,
// manual pages and completions; for Linux also packages for Debian (.deb) and for RPM
// systems (.rpm) with units of systemd, and the client package for Python (deploy/python) as
// a wheel and a source distribution. Beside each archive is the list of the program's
// components (CycloneDX), and SHA256SUMS has the checksums of all files. The same commit
// and toolchain give the same bytes. docs/install.md is the page for users.
//
// It is a separate module, so that the product's go.mod does not have its libraries.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	o := options{}
	flag.StringVar(&o.output, "output", "dist", "`directory` for the files, relative to the root of the repository")
	flag.StringVar(&o.version, "version", "", "semantic `version` (default: the newest of CHANGELOG.md, with -dev if that is not released)")
	flag.StringVar(&o.targets, "targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "`list` of systems and processors")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "package: %q: takes flags only\n", flag.Arg(0))
		os.Exit(2)
	}
	files, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
	for _, f := range files {
		fmt.Println(f)
	}
}

// options are the flags.
type options struct{ output, version, targets string }

// run makes the files of all targets and returns their paths, SHA256SUMS last.
func run(o options) ([]string, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(o.output) {
		o.output = filepath.Join(root, o.output)
	}
	if o.version == "" {
		if o.version, err = changelogVersion(filepath.Join(root, "CHANGELOG.md")); err != nil {
			return nil, err
		}
	}
	if !semantic.MatchString(o.version) {
		return nil, fmt.Errorf("--version %s: want a semantic version such as 0.2.0 or 0.2.0-rc.1", o.version)
	}
	targets, err := parseTargets(o.targets)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.output, 0o777); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	temp, err := os.MkdirTemp("", "slotwise-package-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	b := builder{root: root, version: o.version, temp: temp, output: o.output}
	files, err := b.all(targets)
	if err != nil {
		return nil, err
	}
	sums, err := writeSums(o.output, files)
	return append(files, sums), err
}

// semantic matches versions that sort alike in Debian, RPM and Go.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// findRoot returns the repository's root: the nearest directory above that has the
// product's go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/slotwise/slotwise\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above the current one has the go.mod of slotwise")
		}
		dir = filepath.Dir(dir)
	}
}

// changelogVersion returns the newest version of the changelog. A version whose heading
// says that it is not released gets the suffix -dev, which sorts before the release.
func changelogVersion(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	heading := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((.*)\)$`).FindStringSubmatch(string(text))
	if heading == nil {
		return "", fmt.Errorf("%s has no heading such as \"## 0.2.0 (2026-12-01)\"", file)
	}
	if heading[2] == "not released" {
		return heading[1] + "-dev", nil
	}
	return heading[1], nil
}

// target is a system and a processor, in Go's words.
type target struct{ system, arch string }

// parseTargets parses the value of --targets.
func parseTargets(list string) (targets []target, err error) {
	for word := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(word, "/")
		if system != "linux" && system != "darwin" || arch != "amd64" && arch != "arm64" {
			return nil, fmt.Errorf("--targets: %q: want linux or darwin, a slash, and amd64 or arm64", word)
		}
		targets = append(targets, target{system, arch})
	}
	return targets, nil
}
