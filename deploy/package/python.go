package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// pythonPackage writes the client package for Python as a wheel and as a source distribution, which
// pip installs. Both are the same for all systems.
func (b *builder) pythonPackage() ([]string, error) {
	dir := filepath.Join(b.root, "deploy", "python")
	version := pythonVersion(b.version)
	read := func(pattern string) (files []file, err error) {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(dir)+"/"), text, 0o644})
		}
		return files, nil
	}
	license, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	project, err := os.ReadFile(filepath.Join(dir, "pyproject.toml"))
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil, err
	}
	metadata, err := pythonMetadata(string(project), version, string(readme))
	if err != nil {
		return nil, err
	}
	code, err := read("slotwise/*.*")
	if err != nil {
		return nil, err
	}
	tests, err := read("tests/*.py")
	if err != nil {
		return nil, err
	}
	wheel, err := b.wheel(version, metadata, license, code)
	if err != nil {
		return nil, err
	}
	source := append([]file{
		{"LICENSE", license, 0o644}, {"PKG-INFO", metadata, 0o644}, {"README.md", readme, 0o644},
		{"pyproject.toml", projectVersion.ReplaceAll(project, []byte(`version = "`+version+`"`)), 0o644},
	}, append(code, tests...)...)
	sdist, err := b.tarball("slotwise-"+version, source)
	return []string{wheel, sdist}, err
}

// projectVersion is the line of pyproject.toml that has no version yet.
var projectVersion = regexp.MustCompile(`(?m)^version = "0".*$`)

// pythonVersion returns a semantic version in the form that Python sorts alike: 1.2.3-rc.4 is 1.2.3rc4,
// and any other suffix is .dev0.
func pythonVersion(version string) string {
	number, suffix, ok := strings.Cut(version, "-")
	if !ok {
		return version
	}
	if n, ok := strings.CutPrefix(suffix, "rc."); ok && regexp.MustCompile(`^\d+$`).MatchString(n) {
		return number + "rc" + n
	}
	return number + ".dev0"
}

// pythonMetadata returns the metadata of a Python package in the form of its version 2.4.
func pythonMetadata(project, version, readme string) ([]byte, error) {
	value := func(key string) (string, error) {
		m := regexp.MustCompile(`(?m)^` + key + ` = "(.*)"$`).FindStringSubmatch(project)
		if m == nil {
			return "", fmt.Errorf("deploy/python/pyproject.toml: has no line %s = \"…\"", key)
		}
		return m[1], nil
	}
	if !projectVersion.MatchString(project) {
		return nil, fmt.Errorf("deploy/python/pyproject.toml: has no line version = \"0\"")
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "Metadata-Version: 2.4\nName: slotwise\nVersion: %s\n", version)
	for _, field := range []struct{ name, key string }{{"Summary", "description"}, {"License-Expression", "license"}, {"Requires-Python", "requires-python"}} {
		text, err := value(field.key)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s: %s\n", field.name, text)
	}
	fmt.Fprintf(&out, "License-File: LICENSE\nProject-URL: Homepage, https://github.com/slotwise/slotwise\nDescription-Content-Type: text/markdown\n\n%s", readme)
	return out.Bytes(), nil
}

// wheel writes a wheel: a zip archive of the code and of a directory that describes it.
func (b *builder) wheel(version string, metadata, license []byte, code []file) (string, error) {
	info := "slotwise-" + version + ".dist-info/"
	content := append(code[:len(code):len(code)],
		file{info + "METADATA", metadata, 0o644},
		file{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: slotwise deploy/package\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), 0o644},
		file{info + "licenses/LICENSE", license, 0o644})
	var record strings.Builder
	for _, f := range content {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.path, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	content = append(content, file{info + "RECORD", []byte(record.String()), 0o644})
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range content {
		h := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: b.time.UTC()}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return "", err
		}
		if _, err := w.Write(f.data); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	made := filepath.Join(b.output, "slotwise-"+version+"-py3-none-any.whl")
	return made, os.WriteFile(made, out.Bytes(), 0o666)
}

// tarball writes files below the directory name into NAME.tar.gz.
func (b *builder) tarball(name string, content []file) (string, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(compressed)
	for _, f := range content {
		h := &tar.Header{Name: path.Join(name, f.path), Size: int64(len(f.data)), Mode: int64(f.mode), ModTime: b.time, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return "", err
		}
		if _, err := w.Write(f.data); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := compressed.Close(); err != nil {
		return "", err
	}
	made := filepath.Join(b.output, name+".tar.gz")
	return made, os.WriteFile(made, out.Bytes(), 0o666)
}
