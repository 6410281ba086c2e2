package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// file is one installed file. Its path is relative to the prefix, /usr or /usr/local, for
// example share/man/man1/slotwise.1.
type file struct {
	path string
	data []byte
	mode os.FileMode
}

// builder makes the files of one version.
type builder struct {
	root    string // of the repository
	version string
	temp    string // for binaries and staged files
	output  string
	time    time.Time // of the sources; the time of every file, so that builds can be repeated
	shared  []file    // manual pages, completions and texts, the same for every target
}

// all makes the files of the targets, and the package for Python.
func (b *builder) all(targets []target) (files []string, err error) {
	host, err := b.compile(target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	if b.time, err = sourceTime(host); err != nil {
		return nil, err
	}
	if b.shared, err = b.sharedFiles(host); err != nil {
		return nil, err
	}
	for _, t := range targets {
		made, err := b.target(t)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", t.system, t.arch, err)
		}
		files = append(files, made...)
	}
	python, err := b.pythonPackage()
	return append(files, python...), err
}

// target makes the archive, the list of components and the packages of one target.
func (b *builder) target(t target) ([]string, error) {
	binary, err := b.compile(t)
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	components, err := b.components(binary)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("slotwise-%s-%s-%s", b.version, t.system, t.arch)
	list := filepath.Join(b.output, name+".cdx.json")
	if err := os.WriteFile(list, components, 0o666); err != nil {
		return nil, err
	}
	content := append([]file{
		{"bin/slotwise", program, 0o755},
		{"share/doc/slotwise/slotwise.cdx.json", components, 0o644},
	}, b.shared...)
	archive, err := b.archive(name, t, content)
	if err != nil {
		return nil, err
	}
	files := []string{list, archive}
	if t.system == "linux" {
		for _, format := range []string{"deb", "rpm"} {
			made, err := b.pack(format, t.arch, content)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", format, err)
			}
			files = append(files, made)
		}
	}
	return files, nil
}

// compile builds the static binary of a target, once.
func (b *builder) compile(t target) (string, error) {
	binary := filepath.Join(b.temp, t.system+"-"+t.arch, "slotwise")
	// The host's own target was compiled first, for the manual pages.
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	flags := "-s -w -X github.com/slotwise/slotwise/cli.release=" + b.version
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags="+flags, "-o", binary, "./cmd/slotwise")
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+t.system, "GOARCH="+t.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building ./cmd/slotwise: %w\n%s", err, out)
	}
	return binary, nil
}

// sourceTime returns the time of the commit that a program was built from, else the time in
// the variable SOURCE_DATE_EPOCH, else a fixed time.
func sourceTime(binary string) (time.Time, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return time.Time{}, err
	}
	// The time of the commit and not of the build: two builds of one commit must have equal bytes.
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			return time.Parse(time.RFC3339, s.Value)
		}
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := time.ParseDuration(epoch + "s")
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970", epoch)
		}
		return time.Unix(0, 0).Add(seconds).UTC(), nil
	}
	return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), nil
}

// policyPages returns the paths of the READMEs on policies, relative to the root of the
// repository. They keep their places in the package, because the index links to the others.
func (b *builder) policyPages() ([]string, error) {
	pages := []string{"policies/README.md"}
	found, err := filepath.Glob(filepath.Join(b.root, "policies", "*", "README.md"))
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		pages = append(pages, path.Join("policies", filepath.Base(filepath.Dir(p)), "README.md"))
	}
	return pages, nil
}

// sources is where the files are that a package does not have.
const sources = "https://github.com/slotwise/slotwise/blob/main/"

var pageLink = regexp.MustCompile(`\]\(([^):#]+)((?:#[^)]*)?\))`)

// packagePage returns a page of the repository for a package that has the named pages only:
// links to other files become addresses.
func packagePage(name, text string, names []string) []byte {
	return []byte(pageLink.ReplaceAllStringFunc(text, func(link string) string {
		m := pageLink.FindStringSubmatch(link)
		to := path.Join(path.Dir(name), m[1])
		if slices.Contains(names, to) {
			return link
		}
		return "](" + sources + to + m[2]
	}))
}

// sharedFiles returns the files that are the same for every target. The manual pages and
// completions come from the program itself.
func (b *builder) sharedFiles(program string) (files []file, err error) {
	names := []string{"LICENSE", "CHANGELOG.md"}
	readmes, err := b.policyPages()
	if err != nil {
		return nil, err
	}
	names = append(names, readmes...)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"share/doc/slotwise/" + name, packagePage(name, string(text), names), 0o644})
	}
	files = append(files, file{streamingJar, nil, 0o644})
	for shell, path := range map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion} {
		text, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("slotwise completion %s: %w", shell, err)
		}
		files = append(files, file{path, text, 0o644})
	}
	dir := filepath.Join(b.temp, "man")
	if out, err := exec.Command(program, "man", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("slotwise man: %w\n%s", err, out)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(dir, p.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{path.Join("share/man/man1", p.Name()), text, 0o644})
	}
	return files, nil
}

// streamingJar is an empty file. Tools that run Hadoop Streaming, such as mrjob, search for this
// file and pass its path to the command hadoop; slotwise only looks at the name.
const streamingJar = "share/hadoop/tools/lib/hadoop-streaming-3.4.2.jar"

// Where shells look for completions below the prefix. Debian's zsh has a directory of its
// own; see pack.
const (
	bashCompletion      = "share/bash-completion/completions/slotwise"
	zshCompletion       = "share/zsh/site-functions/_slotwise"
	zshDebianCompletion = "share/zsh/vendor-completions/_slotwise"
	fishCompletion      = "share/fish/vendor_completions.d/slotwise.fish"
)

// unit returns a unit of systemd for a program in a directory. The file in the repository
// is written for /usr/local/bin, and its first lines say how to install it by hand, which
// a package does not need.
func (b *builder) unit(name, bin string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(b.root, "deploy", "systemd", name))
	if err != nil {
		return nil, err
	}
	_, body, ok := strings.Cut(string(text), "[Unit]\n")
	if !ok || strings.Count(body, "/usr/local/bin/") != 1 {
		return nil, fmt.Errorf("deploy/systemd/%s: want a section [Unit] and /usr/local/bin/ once", name)
	}
	return []byte("[Unit]\n" + strings.Replace(body, "/usr/local/bin", bin, 1)), nil
}
