package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sassoftware/go-rpmutils"
)

// TestPackages makes the files of this machine's processor once, and checks each kind.
// The package for Debian is installed below a temporary directory, never on the machine.
func TestPackages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the packages of Linux are tested on Linux")
	}
	out := t.TempDir()
	made, err := run(options{output: out, version: "1.2.3-rc.4", targets: "linux/" + runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	one := func(suffix string) string {
		for _, f := range made {
			if strings.HasSuffix(f, suffix) {
				return f
			}
		}
		t.Fatalf("%v has no file %s", made, suffix)
		return ""
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, out, made) })
	t.Run("archive", func(t *testing.T) { checkArchive(t, one("-linux-"+runtime.GOARCH+".tar.gz")) })
	t.Run("components", func(t *testing.T) { checkComponents(t, one(".cdx.json")) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, one(".rpm")) })
	t.Run("python", func(t *testing.T) {
		checkPython(t, one(".whl"), filepath.Join(out, "slotwise-1.2.3rc4.tar.gz"), unpack(t, one(".deb")))
	})
	t.Run("deb", func(t *testing.T) {
		root := install(t, one(".deb"))
		checkProgram(t, root)
		checkUnits(t, root)
		checkDaemons(t, root)
		checkRemoval(t, root)
	})
}

// checkSums compares SHA256SUMS with the files.
func checkSums(t *testing.T, dir string, made []string) {
	var want bytes.Buffer
	for _, f := range made[:len(made)-1] {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(data), filepath.Base(f))
	}
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil || string(got) != want.String() {
		t.Errorf("%v\n%s", err, got)
	}
}

// checkArchive checks which files an archive has.
func checkArchive(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	top := strings.TrimSuffix(filepath.Base(name), ".tar.gz") + "/"
	for _, want := range []string{"bin/slotwise", "share/man/man1/slotwise-run.1", bashCompletion, zshCompletion, fishCompletion,
		"share/doc/slotwise/LICENSE", "share/doc/slotwise/policies/README.md", "share/doc/slotwise/policies/tumm/README.md",
		"share/doc/slotwise/slotwise.cdx.json", "share/doc/slotwise/master.yaml", streamingJar, "lib/systemd/system/slotwise-worker.service"} {
		if !slices.Contains(names, top+want) {
			t.Errorf("no file %s in %v", top+want, names)
		}
	}
}

// checkComponents checks that the list has every linked module and none that only tests use.
func checkComponents(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if c := list.Metadata.Component; list.BOMFormat != "CycloneDX" || c.Name != "slotwise" || c.Version != "1.2.3-rc.4" {
		t.Errorf("%+v", list)
	}
	seen := map[string]bool{}
	for _, c := range list.Components {
		seen[c.Name] = true
		if c.Version == "" || c.Purl != "pkg:golang/"+c.Name+"@"+c.Version || c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%+v", c)
		}
	}
	if !seen["std"] || !seen["github.com/spf13/cobra"] || !seen["github.com/minio/minio-go/v7"] || seen["pgregory.net/rapid"] {
		t.Errorf("%v", seen)
	}
}

// checkPython installs the client package for Python with pip, from the wheel and from the source
// distribution, which setuptools builds. Both install the same modules. The first runs a job with the
// packaged program.
func checkPython(t *testing.T, wheel, sdist, program string) {
	python := os.Getenv("SLOTWISE_PYTHON_TOOLS")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import setuptools, pip; assert int(setuptools.__version__.split('.')[0]) >= 77").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s has no pip or no setuptools 77: %v\n%s", python, err, out)
		}
		t.Skipf("%s has no pip or no setuptools 77; set SLOTWISE_PYTHON_TOOLS to a Python that has them", python)
	}
	var modules [2]map[string]string
	var dirs [2]string
	for i, source := range []string{wheel, sdist} {
		dirs[i] = t.TempDir()
		cmd := exec.Command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation",
			"--no-compile", "--target", dirs[i], source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", source, err, out)
		}
		modules[i] = map[string]string{}
		files, err := filepath.Glob(filepath.Join(dirs[i], "slotwise", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			modules[i][filepath.Base(f)] = string(text)
		}
	}
	if _, typed := modules[0]["py.typed"]; !typed || len(modules[0]) < 5 || !maps.Equal(modules[0], modules[1]) {
		t.Errorf("the wheel has %v, the source distribution makes %v", slices.Sorted(maps.Keys(modules[0])), slices.Sorted(maps.Keys(modules[1])))
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "count.py")
	if err := os.WriteFile(script, []byte(`import importlib.metadata, slotwise
def words(line): return [(word, 1) for word in line.split()]
def total(word, counts): yield word, sum(counts)
open("in.txt", "w").write("to be or not to be\n")
print(importlib.metadata.version("slotwise"), sorted(slotwise.run(words, total, input="in.txt")))
`), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dirs[0], "SLOTWISE="+program)
	out, err := cmd.CombinedOutput()
	if want := "1.2.3rc4 [('be', 2), ('not', 1), ('or', 1), ('to', 2)]\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant %s", err, out, want)
	}
}

// unpack returns the program of a package for Debian, which it unpacks into a temporary directory.
func unpack(t *testing.T, deb string) string {
	t.Helper()
	need(t, "dpkg")
	root := t.TempDir()
	if out, err := exec.Command("dpkg", "--extract", deb, root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(root, "usr/bin/slotwise")
}

// checkRPM checks the names, settings and scripts of a package for RPM systems.
func checkRPM(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	nevra, err := r.Header.GetNEVRA()
	if err != nil || nevra.Name != "slotwise" || nevra.Version != "1.2.3~rc.4" || nevra.Release != "1" {
		t.Errorf("%+v, %v", nevra, err)
	}
	list, err := r.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	const config = 1<<0 | 1<<4 // RPMFILE_CONFIG and RPMFILE_NOREPLACE
	flags := map[string]int{}
	for _, f := range list {
		flags[f.Name()] = f.Flags()
	}
	for path, want := range map[string]int{"/usr/bin/slotwise": 0, "/etc/slotwise/master.yaml": config, "/etc/slotwise/worker.yaml": config,
		"/usr/lib/systemd/system/slotwise-master.service": 0, "/usr/share/zsh/site-functions/_slotwise": 0, "/usr/share/man/man1/slotwise.1": 0, "/usr/" + streamingJar: 0} {
		if got, ok := flags[path]; !ok || got != want {
			t.Errorf("%s: there %v, flags %d, want %d", path, ok, got, want)
		}
	}
	for tag, word := range map[int]string{rpmutils.POSTIN: "systemd-sysusers", rpmutils.PREUN: "disable --now", rpmutils.POSTUN: "daemon-reload"} {
		if script, err := r.Header.GetString(tag); err != nil || !strings.Contains(script, word) {
			t.Errorf("script %d: %v\n%s", tag, err, script)
		}
	}
}

// need returns without a word if a tool is installed. Else it skips the test, or with
// CI=true fails it.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(tool, "is missing")
	}
	t.Skip(tool, "is missing")
}

// dpkg runs dpkg on the packages below root. The package's scripts run with DPKG_ROOT set,
// by which they know that the system that runs is not theirs.
func dpkg(t *testing.T, root string, args ...string) string {
	t.Helper()
	args = append([]string{"--root=" + root, "--log=" + root + ".log", "--force-not-root", "--force-script-chrootless", "--force-confold"}, args...)
	cmd := exec.Command("dpkg", args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// install installs a package into an empty directory, twice, with changed settings in
// between that the second installation must keep. It returns the directory.
func install(t *testing.T, deb string) string {
	for _, tool := range []string{"dpkg", "systemd-sysusers", "systemd-analyze"} {
		need(t, tool)
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{"etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	dpkg(t, root, "--install", deb)
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !regexp.MustCompile(`(?m)^slotwise:.*\n(.*\n)*slotwise-worker:`).Match(users) {
		t.Errorf("users: %v\n%s", err, users)
	}
	settings := filepath.Join(root, "etc/slotwise/master.yaml")
	before, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(before) + "listen: 127.0.0.1:0\naddress-file: " + root + "/address\n"
	if err := os.WriteFile(settings, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	dpkg(t, root, "--install", deb)
	if after, err := os.ReadFile(settings); err != nil || string(after) != changed {
		t.Errorf("changed settings are gone after an installation: %v\n%s", err, after)
	}
	return root
}

// checkProgram checks the installed program's version and its manual page.
func checkProgram(t *testing.T, root string) {
	out, err := exec.Command(filepath.Join(root, "usr/bin/slotwise"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "slotwise 1.2.3-rc.4 ") {
		t.Errorf("version: %v\n%s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(root, "usr/share/man/man1/slotwise-worker.1"))
	if err != nil || !strings.Contains(string(page), "slotwise 1.2.3\\-rc.4") {
		t.Errorf("manual page: %v\n%s", err, page)
	}
}

// checkUnits checks the installed units with systemd-analyze. Their programs are below root.
func checkUnits(t *testing.T, root string) {
	for _, daemon := range []string{"master", "worker"} {
		name := "slotwise-" + daemon + ".service"
		text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system", name))
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(copied, bytes.ReplaceAll(text, []byte("/usr/bin/slotwise"), []byte(root+"/usr/bin/slotwise")), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", name, err, out)
		}
	}
}

// checkDaemons starts the command lines of the units, with their paths below root, and
// runs a job.
func checkDaemons(t *testing.T, root string) {
	start := func(daemon string) {
		text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/slotwise-"+daemon+".service"))
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(text))
		if line == nil {
			t.Fatalf("no ExecStart:\n%s", text)
		}
		words := strings.Fields(strings.ReplaceAll(" "+line[1], " /", " "+root+"/"))
		cmd := exec.Command(words[0], words[1:]...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill() // the test is over; it may have ended
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s:\n%s", words, said.String())
			}
		})
	}
	start("master")
	address := ""
	for end := time.Now().Add(2 * time.Minute); address == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the master is not up after two minutes")
		}
		text, _ := os.ReadFile(filepath.Join(root, "address")) // the master writes it when it is up
		address = strings.TrimSpace(string(text))
	}
	settings := fmt.Sprintf("master: %s\nmap-slots: 1\nreduce-slots: 1\nmemory: 64MiB\nmin-free: 1MiB\n", address)
	if err := os.WriteFile(filepath.Join(root, "etc/slotwise/worker.yaml"), []byte(settings), 0o666); err != nil {
		t.Fatal(err)
	}
	start("worker")
	input := filepath.Join(root, "in.txt")
	if err := os.WriteFile(input, []byte("to be or not to be\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	job := exec.Command(filepath.Join(root, "usr/bin/slotwise"), "submit", "wordcount", input, "--output", filepath.Join(root, "counts"),
		"--master", address, "--wait", "--no-progress")
	if out, err := job.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	part, err := os.ReadFile(filepath.Join(root, "counts/part-r-00000"))
	if err != nil || string(part) != "be\t2\nnot\t1\nor\t1\nto\t2\n" {
		t.Errorf("%v\n%s", err, part)
	}
}

// checkRemoval checks that a removal keeps settings and the daemons' directories, and a
// purge the directories.
func checkRemoval(t *testing.T, root string) {
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	dpkg(t, root, "--remove", "slotwise")
	if exists("usr/bin/slotwise") || !exists("etc/slotwise/master.yaml") {
		t.Error("after a removal the program is there, or the settings are not")
	}
	dpkg(t, root, "--purge", "slotwise")
	if exists("etc/slotwise/master.yaml") || !exists("var/lib/slotwise-master/journal") {
		t.Error("after a purge the settings are there, or the journal is not")
	}
}

// TestVersions checks which versions are accepted, and the version of a changelog.
func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"1.2.3": true, "1.2.3-rc.1": true, "v1.2.3": false, "1.2": false, "1.2.3+x": false, "1.2.3 -X": false} {
		if semantic.MatchString(version) != want {
			t.Errorf("%s: want %v", version, want)
		}
	}
	for text, want := range map[string]string{
		"# Changelog\n\n## 0.3.0 (not released)\n\n## 0.2.0 (2026-12-01)\n": "0.3.0-dev",
		"## 0.2.0 (2026-12-01)\n": "0.2.0",
		"# Changelog\n":           "",
	} {
		file := filepath.Join(t.TempDir(), "CHANGELOG.md")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := changelogVersion(file); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for version, want := range map[string]string{"1.2.3": "1.2.3", "1.2.3-rc.4": "1.2.3rc4", "1.2.3-dev": "1.2.3.dev0", "1.2.3-rc.x": "1.2.3.dev0"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s: %s for Python, want %s", version, got, want)
		}
	}
	if _, err := parseTargets("linux/amd64,plan9/arm"); err == nil || !strings.Contains(err.Error(), `"plan9/arm"`) {
		t.Error(err)
	}
}

// TestPackagePage checks that a page in a package links to no file that the package lacks.
func TestPackagePage(t *testing.T) {
	names := []string{"CHANGELOG.md", "policies/README.md", "policies/tumm/README.md"}
	for _, c := range []struct{ name, text, want string }{
		{"policies/README.md", "[a](tumm/README.md#gain)", "[a](tumm/README.md#gain)"},
		{"policies/tumm/README.md", "[a](../README.md), [b](../tyrex/README.md)", "[a](../README.md), [b](" + sources + "policies/tyrex/README.md)"},
		{"policies/tumm/README.md", "[a](../../docs/repro.md#x)", "[a](" + sources + "docs/repro.md#x)"},
		{"CHANGELOG.md", "[a](docs/api.md) [b](https://example.org/x) [c](#d)", "[a](" + sources + "docs/api.md) [b](https://example.org/x) [c](#d)"},
	} {
		if got := string(packagePage(c.name, c.text, names)); got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.name, c.text, got, c.want)
		}
	}
}
