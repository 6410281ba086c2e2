package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// archive writes the .tar.gz of a target. Below its one directory it has the layout of
// /usr/local.
func (b *builder) archive(name string, t target, content []file) (string, error) {
	content = slices.Clone(content)
	for _, daemon := range []string{"master", "worker"} {
		settings, err := settings.ReadFile("files/" + daemon + ".yaml")
		if err != nil {
			return "", err
		}
		content = append(content, file{"share/doc/slotwise/" + daemon + ".yaml", settings, 0o644})
		if t.system == "linux" {
			unit, err := b.unit("slotwise-"+daemon+".service", "/usr/local/bin")
			if err != nil {
				return "", err
			}
			content = append(content, file{"lib/systemd/system/slotwise-" + daemon + ".service", unit, 0o644})
		}
	}
	slices.SortFunc(content, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return b.tarball(name, content)
}

// writeSums writes SHA256SUMS, which sha256sum --check reads.
func writeSums(dir string, files []string) (string, error) {
	var sums bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.Base(f))
	}
	made := filepath.Join(dir, "SHA256SUMS")
	return made, os.WriteFile(made, sums.Bytes(), 0o666)
}
