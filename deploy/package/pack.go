package main

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// settings are the files of packages that are not made from others: the daemons' settings,
// their users, and the scripts that run at an installation and a removal.
//
//go:embed files
var settings embed.FS

// pack writes a package for Linux in the format deb or rpm.
func (b *builder) pack(format, arch string, content []file) (string, error) {
	dir := filepath.Join(b.temp, format+"-"+arch)
	list, err := b.packed(dir, format, content)
	if err != nil {
		return "", err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "slotwise", Arch: arch, Platform: "linux", Version: b.version, Release: "1", MTime: b.time,
		Section: "net", Priority: "optional", Maintainer: "The slotwise authors", Vendor: "slotwise",
		Homepage: "https://github.com/slotwise/slotwise", License: "Apache-2.0", DisableGlobbing: true,
		Description: "MapReduce jobs on one machine or on a cluster\n" +
			"slotwise runs MapReduce jobs over local files, HDFS and S3: built-in apps, Go programs,\n" +
			"Hadoop Streaming jobs, or any two commands that read and write lines.",
		Overridables: nfpm.Overridables{
			Recommends: []string{"ca-certificates"},
			Contents:   list,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(dir, "postinstall.sh"),
				PreRemove:   filepath.Join(dir, "preremove.sh"),
				PostRemove:  filepath.Join(dir, "postremove.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "MapReduce jobs on one machine or on a cluster"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return "", err
	}
	made := filepath.Join(b.output, packager.ConventionalFileName(info))
	return made, os.WriteFile(made, out.Bytes(), 0o666)
}

// packed writes the files of a package below dir, where nfpm reads them, and returns its
// contents.
func (b *builder) packed(dir, format string, content []file) (files.Contents, error) {
	var list files.Contents
	add := func(f file, destination, kind string) error {
		source := filepath.Join(dir, filepath.FromSlash(destination))
		if err := os.MkdirAll(filepath.Dir(source), 0o777); err != nil {
			return err
		}
		list = append(list, &files.Content{Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: b.time}})
		return os.WriteFile(source, f.data, 0o666)
	}
	for _, f := range content {
		switch {
		// Debian's policy wants the license there (12.5).
		case format == "deb" && f.path == "share/doc/slotwise/LICENSE":
			f.path = "share/doc/slotwise/copyright"
		case format == "deb" && f.path == zshCompletion:
			f.path = zshDebianCompletion
		}
		if err := add(f, "/usr/"+f.path, files.TypeFile); err != nil {
			return nil, err
		}
	}
	for _, daemon := range []string{"master", "worker"} {
		unit, err := b.unit("slotwise-"+daemon+".service", "/usr/bin")
		if err != nil {
			return nil, err
		}
		if err := add(file{"", unit, 0o644}, "/usr/lib/systemd/system/slotwise-"+daemon+".service", files.TypeFile); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct{ name, destination, kind string }{
		// An upgrade keeps the administrator's changes and puts the new file beside them.
		{"master.yaml", "/etc/slotwise/master.yaml", files.TypeConfigNoReplace},
		{"worker.yaml", "/etc/slotwise/worker.yaml", files.TypeConfigNoReplace},
		{"sysusers.conf", "/usr/lib/sysusers.d/slotwise.conf", files.TypeFile},
	} {
		text, err := settings.ReadFile("files/" + f.name)
		if err != nil {
			return nil, err
		}
		if err := add(file{"", text, 0o644}, f.destination, f.kind); err != nil {
			return nil, err
		}
	}
	for _, script := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
		text, err := settings.ReadFile("files/" + script)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, script), text, 0o777); err != nil {
			return nil, err
		}
	}
	return list, nil
}
