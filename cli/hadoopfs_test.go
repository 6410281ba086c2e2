package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/detector"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// runFS runs one command of hadoop fs in this process and returns its status and its
// output.
func runFS(t *testing.T, stdin string, args ...string) (status int, out string) {
	t.Helper()
	var text bytes.Buffer
	h := &hadoopCommand{ctx: t.Context(), in: strings.NewReader(stdin), out: &text, err: &text}
	err := h.run(append([]string{"fs"}, args...))
	var s statusError
	if err != nil && !errors.As(err, &s) {
		t.Fatalf("hadoop fs %q: %v", args, err)
	}
	return int(s), text.String()
}

// mustFS runs a command that must succeed.
func mustFS(t *testing.T, args ...string) {
	t.Helper()
	if status, out := runFS(t, "typed\n", args...); status != 0 {
		t.Fatalf("hadoop fs %q: status %d, %s", args, status, out)
	}
}

// fsDir makes a directory for one test, with the directory behind hdfs:/// in it, and makes it
// the working directory. In it are a file, a directory with a file, and the same in hdfs:///.
func fsDir(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("SLOTWISE_HDFS_DIR", filepath.Join(dir, "root"))
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_USER_NAME", "ann")
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Chdir(dir)
	for _, base := range []string{".", "root", "root/user/ann"} {
		writeFiles(t, filepath.Join(dir, base), "f", "d/g")
	}
	return dir
}

// writeFiles writes files whose content is their name.
func writeFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// filesBelow returns the names below a directory with the modes, link targets and contents.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " to " + to
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(content)
		}
		found[strings.TrimPrefix(p, dir)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// unchanged checks that a directory has not changed.
func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if after := filesBelow(t, dir); !maps.Equal(before, after) {
		t.Fatalf("the files have changed from\n%v\nto\n%v", before, after)
	}
}

// valid returns arguments with which a command does something to the files f and d, without
// the flags.
func valid(name string) []string {
	switch name {
	case "mv", "cp", "put", "copyFromLocal", "get", "copyToLocal", "getmerge":
		return []string{"f", "new"}
	case "chmod":
		return []string{"600", "f"}
	case "chown", "chgrp":
		return []string{"ann", "f"}
	case "setrep":
		return []string{"1", "f"}
	case "mkdir", "touchz":
		return []string{"new"}
	case "appendToFile":
		return []string{"f", "new"}
	case "rmdir":
		return []string{"d"}
	}
	return []string{"f"}
}

// needed returns the flags without which a command does nothing.
func needed(name string) []string {
	switch name {
	case "test":
		return []string{"-e"}
	case "rm":
		return []string{"-r"}
	case "mkdir":
		return []string{"-p"}
	}
	return nil
}

// TestHadoopFSRefuses calls each command with an empty path, or one that leaves hdfs:///, in
// the place of each argument and between the arguments, and with flags that it does not have.
// The command must refuse all of these before it changes anything. A new command joins the
// test by its row in fsCommands.
func TestHadoopFSRefuses(t *testing.T) {
	dir := fsDir(t)
	before := filesBelow(t, dir)
	refuses := func(want string, args ...string) {
		t.Helper()
		status, out := runFS(t, "typed\n", args...)
		if status != hadoopUsage || !strings.Contains(out, want) {
			t.Errorf("hadoop fs %q: status %d, want %d with %q:\n%s", args, status, hadoopUsage, want, out)
		}
		unchanged(t, dir, before)
	}
	for _, name := range slices.Sorted(maps.Keys(fsCommands)) {
		cmd := fsCommands[name]
		call := append([]string{"-" + name}, needed(name)...)
		args := valid(name)
		for bad, want := range map[string]string{
			"": "Can not create a Path from an empty string", "hdfs:": "Expected scheme-specific part", "hdfs:///../d": "leads out of the storage",
		} {
			for i := range args {
				refuses(want, slices.Concat(call, args[:i], []string{bad}, args[i+1:])...)
				if cmd.max == 0 {
					refuses(want, slices.Concat(call, args[:i], []string{bad}, args[i:])...)
				}
			}
			if cmd.max == 0 {
				refuses(want, slices.Concat(call, args, []string{bad})...)
			}
			if cmd.min < 2 {
				refuses(want, append(call[:len(call):len(call)], bad)...)
			}
		}
		for _, flag := range append([]string{"-unknown", "--unknown", "-rR"}, cmd.refused...) {
			refuses("Illegal option "+flag, slices.Concat([]string{"-" + name, flag}, needed(name), args)...)
			refuses("Illegal option "+flag, slices.Concat(call, []string{flag}, args)...)
		}
		for _, flag := range cmd.refused {
			if slices.Contains(cmd.flags, flag) || slices.Contains(cmd.values, flag) {
				t.Errorf("-%s: %s is accepted and refused", name, flag)
			}
		}
	}
	for _, args := range [][]string{
		{"-fs", "", "-ls", "f"},
		{"-D", "fs.defaultFS=", "-ls", "f"},
		{"-Dfs.default.name=", "-ls", "f"},
		{"-conf", "", "-ls", "f"},
	} {
		refuses("", args...)
	}
}

// TestHadoopFSFlags checks that each accepted flag has its effect.
func TestHadoopFSFlags(t *testing.T) {
	dir := fsDir(t)
	out := func(args ...string) string {
		t.Helper()
		status, out := runFS(t, "", args...)
		if status != 0 {
			t.Errorf("hadoop fs %q: status %d, %s", args, status, out)
		}
		return out
	}
	if got := out("-du", "-v", "d"); !strings.HasPrefix(got, "SIZE  DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS  FULL_PATH_NAME\n3     3 ") {
		t.Errorf("du -v: %q", got)
	}
	writeFiles(t, dir, "odd/a\x1bb")
	if got := out("-ls", "-q", "-C", "odd"); got != "odd/a?b\n" {
		t.Errorf("ls -q: %q", got)
	}
	if err := os.Symlink(filepath.Join(dir, "f"), filepath.Join(dir, "d", "link")); err != nil {
		t.Fatal(err)
	}
	out("-chmod", "-R", "700", "d")
	mode := func(name string) fs.FileMode {
		t.Helper()
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return st.Mode()
	}
	if mode("d").Perm() != 0o700 || mode("d/g").Perm() != 0o700 || mode("f").Perm() == 0o700 {
		t.Errorf("chmod -R: d %v, d/g %v, a file behind a link %v", mode("d"), mode("d/g"), mode("f"))
	}
	if out("-chmod", "1777", "d"); mode("d") != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("chmod 1777: %v", mode("d"))
	}
	if got := out("-chmod", "700x", "f"); !strings.Contains(got, "nothing was changed") || mode("f").Perm() == 0o700 {
		t.Errorf("chmod 700x: %q, %v", got, mode("f"))
	}
	for want, args := range map[string][]string{
		"No test flag given":            {"-test", "f"},
		"Only one test flag is allowed": {"-test", "-e", "-d", "f"},
	} {
		if status, out := runFS(t, "", args...); status != hadoopUsage || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, %s", args, status, out)
		}
	}
	writeConfiguration(t, filepath.Join(dir, "conf.xml"), map[string]string{"fs.defaultFS": "hdfs://127.0.0.1:1/"})
	if status, out := runFS(t, "", "-conf", filepath.Join(dir, "none.xml"), "-ls", "f"); status != hadoopFailed || !strings.Contains(out, "none.xml") {
		t.Errorf("a file of -conf that does not exist: status %d, %s", status, out)
	}
	h := &hadoopCommand{ctx: t.Context(), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	if _ = h.run([]string{"fs", "-conf", filepath.Join(dir, "conf.xml"), "-help"}); h.ns.Local() {
		t.Error("-conf has no effect on the default file system")
	}
	if err := h.run([]string{"--config", "", "fs", "-ls", "f"}); err == nil {
		t.Error("--config with an empty value was accepted")
	}
}

// TestHadoopFSSafely: rm -safely asks before it removes many files, and removes nothing
// without a yes.
func TestHadoopFSSafely(t *testing.T) {
	dir := fsDir(t)
	for i := range 4 {
		writeFiles(t, dir, fmt.Sprintf("many/%d", i))
	}
	limit := "-Dhadoop.shell.safely.delete.limit.num.files=3"
	for _, c := range []struct {
		answers string
		status  int
		removed bool
	}{{"", 1, false}, {"perhaps\n", 1, false}, {"n\n", 0, false}, {"perhaps\nno\n", 0, false}, {"Y\n", 0, true}} {
		status, out := runFS(t, c.answers, limit, "-rm", "-r", "-safely", "many")
		_, err := os.Stat(filepath.Join(dir, "many", "0"))
		if status != c.status || errors.Is(err, fs.ErrNotExist) != c.removed || !strings.Contains(out, "Proceed deleting 4 files? (Y or N) ") {
			t.Errorf("answers %q: status %d, removed: %v\n%s", c.answers, status, err != nil, out)
		}
	}
	if status, out := runFS(t, "", limit, "-rm", "-r", "-safely", "d"); status != 0 || strings.Contains(out, "Proceed") {
		t.Errorf("a small directory: status %d, %s", status, out)
	}
}

// TestHadoopFSStaysInside: nothing leaves the directory behind hdfs:///, and nothing removes
// or moves that directory, by any spelling.
func TestHadoopFSStaysInside(t *testing.T) {
	dir := fsDir(t)
	writeFiles(t, dir, "sibling/precious", "elsewhere/x")
	if err := os.Symlink(filepath.Join(dir, "root"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	mustFS(t, "-ls", "hdfs:///")
	before := filesBelow(t, dir)
	for _, args := range [][]string{
		{"-rm", "-r", "hdfs:///"}, {"-rm", "-r", "hdfs:/"}, {"-rm", "-r", "hdfs://"}, {"-rm", "-r", "hdfs:///user/.."}, {"-rm", "-r", "-skipTrash", "-f", "hdfs:///."},
		{"-rm", "-r", "root"}, {"-rm", "-r", dir + "/root"}, {"-rm", "-r", "file://" + dir + "/root"}, {"-rm", "-r", "elsewhere/../root"},
		{"-rmdir", "hdfs:///"}, {"-mv", "hdfs:///", "elsewhere"}, {"-mv", "root", "elsewhere"},
		{"-rm", "-r", "hdfs:///{..,user}/sibling"}, {"-cat", "hdfs:///{..,user}/sibling/*"}, {"-rm", "-r", "hdfs:///user/{../..,x}/sib*"},
		{"-mv", "hdfs:///{..,user}/sibling", "elsewhere"},
	} {
		if status, out := runFS(t, "", args...); status == 0 || strings.Contains(out, "Deleted") || strings.Contains(out, "precious\n") {
			t.Errorf("hadoop fs %q: status %d, %s", args, status, out)
		}
		unchanged(t, dir, before)
	}
	// The name of a copy never is "..", which would lead out of the destination.
	t.Chdir(filepath.Join(dir, "elsewhere"))
	if err := os.Mkdir(filepath.Join(dir, "root", "to"), 0o777); err != nil {
		t.Fatal(err)
	}
	mustFS(t, "-put", ".", "hdfs:///to")
	mustFS(t, "-cp", ".", "hdfs:///to/elsewhere")
	if got := filesBelow(t, filepath.Join(dir, "root", "to")); got["/elsewhere/x"] == "" || got["/elsewhere/elsewhere/x"] == "" {
		t.Errorf("the copies are %v", got)
	}
	for _, command := range []string{"-put", "-cp", "-mv"} {
		_, _ = runFS(t, "", command, "..", "hdfs:///to") // the copy would have itself in it, or is a source above the root
		after := filesBelow(t, dir)
		maps.DeleteFunc(after, func(p, _ string) bool { return strings.HasPrefix(p, "/root/to") })
		if !maps.Equal(before, after) {
			t.Fatalf("%s ..: files outside of the destination have changed: %v", command, after)
		}
	}
}

// writing are the commands that write a file to a local path, given the source and the path.
var writing = map[string][]string{
	"put": {"-put", "src", "to"}, "put -f": {"-put", "-f", "src", "to"}, "copyFromLocal": {"-copyFromLocal", "-f", "src", "to"},
	"standard input": {"-put", "-f", "-", "to"}, "get": {"-get", "src", "to"}, "get -f": {"-get", "-f", "src", "to"},
	"copyToLocal": {"-copyToLocal", "-f", "src", "to"}, "cp": {"-cp", "src", "to"}, "cp -f": {"-cp", "-f", "src", "to"},
	"touchz": {"-touchz", "to"}, "getmerge": {"-getmerge", "src", "to"}, "mv": {"-mv", "src", "to"},
}

// TestHadoopFSLinks: a command that writes a file never writes through a symbolic link that
// is at the destination, or at the name of a temporary file.
func TestHadoopFSLinks(t *testing.T) {
	for name, args := range writing {
		for _, target := range []string{"precious", "missing"} {
			dir := fsDir(t)
			writeFiles(t, dir, "src", "victim/precious")
			for _, link := range []string{"to", "to._COPYING_"} {
				if err := os.Symlink(filepath.Join(dir, "victim", target), filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			before := filesBelow(t, filepath.Join(dir, "victim"))
			status, out := runFS(t, "typed\n", args...)
			if after := filesBelow(t, filepath.Join(dir, "victim")); !maps.Equal(before, after) {
				t.Errorf("%s through a link to a %s file: status %d, %s\nthe target's directory is %v", name, target, status, out, after)
			}
		}
	}
}

// TestHadoopFSLeavesNoTemporaries: no temporary file stays after a success or a failure.
func TestHadoopFSLeavesNoTemporaries(t *testing.T) {
	for name, args := range writing {
		dir := fsDir(t)
		writeFiles(t, dir, "src")
		for range 2 {
			_, _ = runFS(t, "typed\n", args...) // the second time some fail
		}
		for p := range filesBelow(t, dir) {
			if strings.Contains(p, "_COPYING_") {
				t.Errorf("%s leaves %s", name, p)
			}
		}
	}
}

// TestHadoopFSMerge: getmerge replaces its file at the end, so the file may be a source, and
// stays when a source cannot be read.
func TestHadoopFSMerge(t *testing.T) {
	dir := fsDir(t)
	writeFiles(t, dir, "m/a", "m/b")
	mustFS(t, "-getmerge", "m", "m/a")
	if got, err := os.ReadFile("m/a"); err != nil || string(got) != "m/am/b" {
		t.Errorf("merged into a source: %q, %v", got, err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "m", "dangling")); err != nil {
		t.Fatal(err)
	}
	before := filesBelow(t, dir)
	if status, out := runFS(t, "", "-getmerge", "m", "f"); status != hadoopFailed {
		t.Errorf("with a source that cannot be read: status %d, %s", status, out)
	}
	unchanged(t, dir, before)
	if status, out := runFS(t, "", "-getmerge", "f", "d"); status != hadoopFailed || !strings.Contains(out, "Is a directory") {
		t.Errorf("into a directory: status %d, %s", status, out)
	}
}

// TestHadoopFSTouch: touchz on an empty file changes its time and keeps the file itself, to
// which another process may be writing.
func TestHadoopFSTouch(t *testing.T) {
	dir := fsDir(t)
	name := filepath.Join(dir, "empty")
	mustFS(t, "-touchz", name)
	old, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, past, past); err != nil {
		t.Fatal(err)
	}
	mustFS(t, "-touchz", name)
	if now, err := os.Stat(name); err != nil || !os.SameFile(old, now) || time.Since(now.ModTime()) > time.Minute {
		t.Errorf("the same file: %v, its time: %v, %v", os.SameFile(old, now), now.ModTime(), err)
	}
}

// TestHadoopFSAtOnce runs commands on one path at the same time, on local files and on a real
// HDFS: puts, moves, and the removal of a directory in which a file appears.
func TestHadoopFSAtOnce(t *testing.T) {
	server := serverstest.HDFS(t)
	fsDir(t)
	serverstest.Setenv(t, server.Env())
	base := server.URI("/at-once-" + storage.NewToken())
	defer mustFS(t, "-rm", "-r", "-skipTrash", base)
	atOnce(t, base, 10)
}

// TestHadoopFSAtOnceLocal is TestHadoopFSAtOnce on local files.
func TestHadoopFSAtOnceLocal(t *testing.T) {
	t.Parallel()
	rounds := 100
	if detector.On {
		rounds = 10 // .ci/run makes all rounds without the detector
	}
	atOnce(t, "file://"+filepath.Join(t.TempDir(), "shared"), rounds)
}

func atOnce(t *testing.T, base string, rounds int) {
	mustFS(t, "-mkdir", base)
	content := func(name string) string { return strings.Repeat(name, 300_000) }
	var names []string
	for i := range 4 {
		names = append(names, string(rune('A'+i)))
	}
	// together runs a command for each name at once and returns the names whose commands
	// have succeeded.
	together := func(command func(name string) []string) (succeeded []string) {
		t.Helper()
		var wg sync.WaitGroup
		statuses := make([]int, len(names))
		for i, name := range names {
			wg.Go(func() { statuses[i], _ = runFS(t, content(name), command(name)...) })
		}
		wg.Wait()
		for i, name := range names {
			if statuses[i] == 0 {
				succeeded = append(succeeded, name)
			}
		}
		return succeeded
	}
	holds := func(p string, candidates []string) {
		t.Helper()
		status, got := runFS(t, "", "-cat", p)
		if status != 0 || !slices.ContainsFunc(candidates, func(name string) bool { return got == content(name) }) {
			t.Errorf("%s does not hold the bytes of one of %q: status %d, %d bytes", p, candidates, status, len(got))
		}
	}
	lists := func(want ...string) {
		t.Helper()
		_, out := runFS(t, "", "-ls", "-C", base)
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.TrimPrefix(strings.TrimSpace(line), base+"/"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the directory has %q, want %q", got, want)
		}
	}
	file := base + "/file"
	for range rounds {
		// Without -f exactly one succeeds, and the file has its bytes.
		succeeded := together(func(string) []string { return []string{"-put", "-", file} })
		if len(succeeded) != 1 {
			t.Errorf("the puts of %q have all succeeded", succeeded)
		}
		holds(file, succeeded)
		// With -f all succeed, and the file has the bytes of a single one.
		if succeeded = together(func(string) []string { return []string{"-put", "-f", "-", file} }); len(succeeded) != len(names) {
			t.Errorf("only the puts of %q have succeeded with -f", succeeded)
		}
		holds(file, names)
		lists("file")
		mustFS(t, "-rm", file)

		for _, name := range names {
			if status, out := runFS(t, content(name), "-put", "-", base+"/"+name); status != 0 {
				t.Fatal(out)
			}
		}
		succeeded = together(func(name string) []string { return []string{"-mv", base + "/" + name, file} })
		if len(succeeded) != 1 {
			t.Errorf("the moves of %q have all succeeded", succeeded)
		}
		holds(file, succeeded)
		for _, name := range names {
			if !slices.Contains(succeeded, name) {
				holds(base+"/"+name, []string{name})
			}
		}
		mustFS(t, "-rm", base+"/*")
	}
	for range 5 * rounds {
		// rmdir and a new file in the directory: if the put succeeds, the file is there.
		mustFS(t, "-mkdir", base+"/dir")
		var wg sync.WaitGroup
		var put, rmdir int
		wg.Go(func() { put, _ = runFS(t, "A", "-put", "-", base+"/dir/precious") })
		wg.Go(func() { rmdir, _ = runFS(t, "", "-rmdir", base+"/dir") })
		wg.Wait()
		status, got := runFS(t, "", "-cat", base+"/dir/precious")
		if put == 0 && (status != 0 || got != "A") {
			t.Fatalf("a file was put (status %d) and is lost: rmdir had the status %d", put, rmdir)
		}
		mustFS(t, "-rm", "-r", "-f", base+"/dir")
	}
}

// TestHadoopFSAppendItself appends a file to itself, also behind another source. The command ends.
func TestHadoopFSAppendItself(t *testing.T) {
	dir := fsDir(t)
	if err := os.Link("f", "same"); err != nil {
		t.Fatal(err)
	}
	mustFS(t, "-appendToFile", "d/g", "same", "file://"+dir+"/f")
	if b, err := os.ReadFile("f"); err != nil || string(b) != "fd/gf" {
		t.Errorf("f is %q, %v", b, err)
	}
}

// TestHadoopFSInterrupted interrupts a command that copies standard input. An interrupt in a shell
// also ends the program that writes to the pipe. The part that came must not become a file, whether
// the pipe ends then or stays open.
func TestHadoopFSInterrupted(t *testing.T) {
	for _, ends := range []bool{true, false} {
		for _, args := range [][]string{{"-put", "-", "new"}, {"-put", "-f", "-", "f"}} {
			fsDir(t)
			ctx, interrupt := context.WithCancelCause(t.Context())
			in, program := io.Pipe()
			go func() {
				_, _ = program.Write([]byte("half"))
				interrupt(errors.New("interrupted"))
				if ends {
					program.Close()
				}
			}()
			var text bytes.Buffer
			h := &hadoopCommand{ctx: ctx, in: in, out: &text, err: &text}
			if err := h.run(append([]string{"fs"}, args...)); err == nil || !strings.Contains(text.String(), "interrupted") {
				t.Errorf("%q: %v, %s", args, err, text.String())
			}
			names, _ := filepath.Glob("*") // the pattern is valid; * also matches hidden files
			if b, err := os.ReadFile("f"); err != nil || string(b) != "f" || !slices.Equal(names, []string{"d", "f", "root"}) {
				t.Errorf("%q has left %q, and %q in f (%v)", args, names, b, err)
			}
			program.Close()
		}
	}
}

// TestHadoopFSCopyIntoAlias copies a directory of a real HDFS into itself, with other spellings of
// the NameNode's host. It is refused, and makes nothing.
func TestHadoopFSCopyIntoAlias(t *testing.T) {
	h := serverstest.HDFS(t)
	serverstest.Setenv(t, h.Env())
	dir := "/alias-" + storage.NewToken()
	base := h.URI(dir)
	mustFS(t, "-mkdir", "-p", base+"/d/sub")
	mustFS(t, "-touchz", base+"/d/file")
	_, port, err := net.SplitHostPort(h.Address)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "LOCALHOST", "127.0.0.1"} {
		other := "hdfs://" + host + ":" + port + dir
		if status, out := runFS(t, "", "-ls", other); status != 0 {
			t.Logf("%s does not lead to the server: %s", host, out)
			continue
		}
		for _, to := range []string{"/d", "/d/sub/new", "/d/new"} {
			if status, out := runFS(t, "", "-cp", base+"/d", other+to); status == 0 || !strings.Contains(out, "is the source, or a directory inside it") {
				t.Errorf("%s%s: status %d, %s", host, to, status, out)
			}
		}
		mustFS(t, "-cp", base+"/d", other+"/copy")
		mustFS(t, "-rm", "-r", other+"/copy")
	}
	if _, out := runFS(t, "", "-ls", "-R", base); strings.Count(out, "\n") != 3 {
		t.Errorf("the refused copies have made something:\n%s", out)
	}
	mustFS(t, "-rm", "-r", base)
}

// anotherName is the same disk under a name that nothing can compare.
type anotherName struct{ storage.Local }

// TestHadoopFSCopyIntoMount copies a directory into itself where no comparison shows that. The
// copy ends, and has the source without itself.
func TestHadoopFSCopyIntoMount(t *testing.T) {
	dir := filepath.Join(fsDir(t), "d")
	c := &fsCall{hadoopCommand: &hadoopCommand{ctx: t.Context()}}
	err := c.copyTree(&location{fs: storage.Local{}, path: dir}, false, &location{fs: anotherName{}, path: filepath.Join(dir, "self")}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "self", "self")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy has itself: %v", err)
	}
	if got, err := os.ReadDir(filepath.Join(dir, "self")); err != nil || len(got) == 0 {
		t.Errorf("the copy has %v, %v", got, err)
	}
}

// TestHadoopFSSize is the form of sizes with -h in Hadoop's client.
func TestHadoopFSSize(t *testing.T) {
	c := &fsCall{flags: map[string]string{"-h": ""}}
	for n, want := range map[int64]string{0: "0", 1: "1", 1023: "1023", 1024: "1 K", 1025: "1.0 K", 1536: "1.5 K", 20 << 20: "20 M", 1<<20 - 1: "1.0 M",
		-1536: "-1.5 K", 1 << 50: "1 P", 1<<63 - 1: "8.0 E"} {
		if got := c.size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// The columns of a directory are as wide as its longest value, which need not be in the first line.
func TestLsMeasuresTheDirectoryFirst(t *testing.T) {
	dir := fsDir(t)
	long := filepath.Join(dir, "lengths")
	if err := os.Mkdir(long, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"a": 1, "b": 123456789012} { // b is a hole and takes no space
		file := filepath.Join(long, name)
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Skip(err) // a file system without holes
		}
	}
	_, out := runFS(t, "", "-ls", long)
	if !strings.Contains(out, "            1 ") || !strings.Contains(out, " 123456789012 ") {
		t.Errorf("the sizes are not aligned:\n%s", out)
	}
}
