package cli

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestHadoopFSRealClient runs wrong calls by slotwise and by Hadoop's own client on one real
// HDFS for itself. Statuses and messages are the same, and the home directory, which an empty
// path would mean, keeps its file.
func TestHadoopFSRealClient(t *testing.T) {
	server := serverstest.NewHDFS(t, 2, map[string]string{"dfs.replication": "2", "dfs.blocksize": "1048576"})
	source, err := serverstest.SourceDir("cli", "testdata", "FsShells.java")
	if err != nil {
		t.Fatal(err)
	}
	fsDir(t)
	serverstest.Setenv(t, server.Env())
	t.Setenv("HADOOP_USER_NAME", "ann")
	// Below are calls about the root. They must never mean this machine.
	if h := (&hadoopCommand{}); h.configure() != nil || h.ns.Default != strings.TrimSuffix(server.URI("/"), "/") {
		t.Fatalf("paths without a scheme lead to %q", h.ns.Default)
	}
	mustFS(t, "-mkdir", "-p", "/user/ann/d")
	mustFS(t, "-put", "-", "/user/ann/f")
	mustFS(t, "-put", "-", "/user/ann/d/g")
	_, before := runFS(t, "", "-ls", "-R", "-C", "/")

	var calls [][]string
	for _, name := range slices.Sorted(maps.Keys(fsCommands)) {
		call, args := append([]string{"-" + name}, needed(name)...), valid(name)
		for i := range args {
			if i == 0 && slices.Contains([]string{"chmod", "chown", "chgrp", "setrep"}, name) {
				continue // no path: Hadoop's messages name the wrong mode, owner or number
			}
			calls = append(calls, slices.Concat(call, args[:i], []string{""}, args[i+1:]))
		}
		// "-x" may begin a mode, and find reports an unknown word of an expression.
		if !slices.Contains([]string{"chmod", "chown", "chgrp", "find"}, name) {
			calls = append(calls, slices.Concat([]string{"-" + name, "-unknown"}, args))
		}
	}
	calls = append(calls, [][]string{
		{"-rm", "-r", "f", ""}, {"-rm", "-f", "-r", "-skipTrash", ""}, {"-test", "f"}, {"-test", "-e", "-d", "f"},
		{"-rmdir", "d"}, {"-rmdir", "--ignore-fail-on-non-empty", "d"}, {"-rm", "d"}, {"-rmdir", "f"}, {"-touchz", "f"}, {"-put", "f", "f"},
	}...)
	own := realFsShell(t, server, source)
	theirs := own(calls)
	for i, args := range calls {
		status, out := runFS(t, "typed\n", args...)
		lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return strings.Contains(line, "DEPRECATED") })
		if fmt.Sprint(status) != theirs[i].status || lines[0] != theirs[i].message {
			t.Errorf("hadoop fs %q:\n%d %q, and Hadoop's own:\n%q", args, status, lines[0], theirs[i])
		}
		if _, after := runFS(t, "", "-ls", "-R", "-C", "/"); after != before {
			t.Fatalf("hadoop fs %q has changed the files from\n%s\nto\n%s", args, before, after)
		}
	}
	realSpace(t, server, source)
	_, before = runFS(t, "", "-ls", "-R", "-C", "/")
	// Hadoop's words differ here, and both clients refuse.
	wrong := [][]string{
		{"-rm", "-r", "hdfs:///"}, {"-rm", "-r", "/"}, {"-rm", "-r", "/user/.."}, {"-rm", "-r", server.URI("/")}, {"-rmdir", "/"}, {"-mv", "/", "/new"},
		{"-rm", "-r", "hdfs:///../user"}, {"-rm", "-r", "/../user"}, {"-rm", "-r", "../../../user"}, {"-rm", "-r", server.URI("/../user")}, {"-rm", "-r", "hdfs:"},
	}
	theirs = own(wrong)
	for i, args := range wrong {
		status, out := runFS(t, "", args...)
		if status == 0 || theirs[i].status == "0" {
			t.Errorf("hadoop fs %q: status %d, %s\nand Hadoop's own: %q", args, status, out, theirs[i])
		}
		if _, after := runFS(t, "", "-ls", "-R", "-C", "/"); after != before {
			t.Fatalf("hadoop fs %q has changed the files from\n%s\nto\n%s", args, before, after)
		}
	}
}

// realSpace compares what df, count -q and checksum print on an HDFS with what Hadoop's own client
// prints, and the files that both clients append to: checksums depend on the bytes and on how they
// are divided into blocks.
func realSpace(t *testing.T, server *serverstest.PrivateHDFS, source string) {
	t.Helper()
	t.Setenv("HADOOP_USER_NAME", "tester") // who may set quotas
	own := realFsShell(t, server, source)
	mustFS(t, "-mkdir", "-p", "/q/names", "/q/bytes")
	mustFS(t, "-touchz", "/q/empty")
	random := rand.NewChaCha8([32]byte{1})
	mib := 1 << 20
	// Sizes around the ends of chunks of a checksum and of blocks; 3 and 5 blocks are no powers of 2.
	sizes := []int{1, 511, 512, 513, mib - 1, mib, mib + 1, 5*mib - 7}
	local := t.TempDir()
	var pieces []string
	for i, size := range sizes {
		b := make([]byte, size)
		random.Read(b)
		piece := filepath.Join(local, fmt.Sprint(i))
		if err := os.WriteFile(piece, b, 0o600); err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, piece)
		mustFS(t, "-put", piece, fmt.Sprintf("/q/names/%d", i))
	}
	mustFS(t, "-cp", "/q/names/0", "/q/names/7", "/q/bytes")
	quotas := [][]string{{"-setQuota", "100", "/q/names"}, {"-setSpaceQuota", "20m", "/q/bytes"}, {"-setQuota", "5", "/q/bytes"}}
	// Both append the same pieces, to a new file first. Each append leaves the last block at another
	// place.
	var appends [][]string
	for _, i := range []int{3, 0, 1, 5, 2, 7, 4, 6, 0} {
		appends = append(appends, []string{"-appendToFile", pieces[i], "/q/deep/log"})
	}
	appends = append(appends, []string{"-appendToFile", pieces[2], pieces[0], pieces[3], "/q/deep/log"}, []string{"-appendToFile", "-", "/q/deep/log"}, []string{"-appendToFile", os.DevNull, "/q/deep/log"})
	theirs := slices.Concat(quotas, appends)
	for i, result := range own(theirs) {
		if result.status != "0" {
			t.Fatalf("Hadoop's own %q: %q", theirs[i], result)
		}
	}
	mustFS(t, "-mv", "/q/deep/log", "/q/deep/theirs")
	for _, call := range appends {
		mustFS(t, call...)
	}
	mustFS(t, "-mv", "/q/deep/log", "/q/deep/ours")
	calls := [][]string{
		{"-checksum", "/q/deep/ours"}, {"-checksum", "/q/deep/theirs"}, {"-checksum", "-v", "/q/empty", "/q/names/0"}, {"-checksum", "/q/names/*"},
		{"-checksum", "/q/names"}, {"-checksum", "/q/none"}, {"-checksum", "file://" + pieces[0]},
		{"-count", "-q", "/q", "/q/names", "/q/bytes", "/q/names/6"}, {"-count", "-q", "-v", "/"}, {"-count", "-q", "-h", "/q/*"}, {"-count", "-v", "/q"}, {"-count", "-q", "/q/none"},
		{"-df"}, {"-df", "-h"}, {"-df", "/q", server.URI("/q/names")}, {"-df", "/q/none"},
		{"-appendToFile", pieces[0], "/q/deep"}, {"-appendToFile", "-", pieces[0], "/q/deep/ours"},
	}
	// The used and the free space, and so the width of the columns, change while the test runs.
	changing := regexp.MustCompile(`(hdfs://\S+ +\S+(?: [KMGTP])?) +(\S+(?: [KMGTP])?) +\S+(?: [KMGTP])?( +\S+%)`)
	used := func(out string) (bytes float64) {
		if m := changing.FindStringSubmatch(out); m != nil {
			bytes, _ = strconv.ParseFloat(m[2], 64)
		}
		return bytes
	}
	// DataNodes report their blocks every few seconds, so one client runs right after the other.
	clustertest.Eventually(t, "df shows the used bytes that Hadoop's own client shows", func() bool {
		theirs := used(own([][]string{{"-df"}})[0].output)
		_, out := runFS(t, "", "-df")
		ours := used(out)
		return ours > 0 && ours >= 0.9*theirs && ours <= 1.1*theirs
	})
	sums := map[string]bool{}
	for i, want := range own(calls) {
		args := calls[i]
		status, out := runFS(t, "typed\n", args...)
		wantOut := want.output
		if args[0] == "-df" {
			out, wantOut = changing.ReplaceAllString(out, "$1 USED FREE$3"), changing.ReplaceAllString(wantOut, "$1 USED FREE$3")
		}
		if want.status != "0" { // the message is compared above for wrong usage
			wantOut += want.message + "\n"
		}
		if args[0] == "-appendToFile" && status != 0 && want.status != "0" {
			continue // Hadoop's message is one of the NameNode
		}
		if fmt.Sprint(status) != want.status || out != wantOut {
			t.Errorf("hadoop fs %q: status %d\n%sand Hadoop's own: status %s\n%s", args, status, out, want.status, wantOut)
		}
		if strings.HasPrefix(strings.Join(args, " "), "-checksum /q/deep/") {
			_, sum, _ := strings.Cut(strings.TrimSpace(out), "\t")
			sums[sum] = true
		}
	}
	if len(sums) != 1 {
		t.Errorf("the files that both clients have appended to have the checksums %v", slices.Collect(maps.Keys(sums)))
	}
	mustFS(t, "-rm", "-r", "-skipTrash", "/q")
	t.Setenv("HADOOP_USER_NAME", "ann")
}

// realAnswer is the status and the output of a call of Hadoop's own client.
type realAnswer struct {
	status, message string // message is the first line of its errors
	output          string
}

// realFsShell starts Hadoop's own client as the current user and returns a function that runs calls by it.
// A client's process runs any number of calls, because its start takes seconds of processor time.
func realFsShell(t *testing.T, c *serverstest.PrivateHDFS, source string) func(calls [][]string) []realAnswer {
	t.Helper()
	var stderr strings.Builder
	words := append(c.JVM(), source)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // its context may have ended it
	})
	answers := bufio.NewScanner(out)
	return func(calls [][]string) (all []realAnswer) {
		t.Helper()
		for _, args := range calls {
			if _, err := fmt.Fprintln(in, strings.Join(args, "\t")); err != nil || !answers.Scan() {
				_ = cmd.Wait() // for the rest of stderr
				t.Fatalf("hadoop fs %q: %v, %v\n%s", args, err, answers.Err(), &stderr)
			}
			status, rest, _ := strings.Cut(answers.Text(), "\t")
			end := strings.LastIndexByte(rest, '\t')
			all = append(all, realAnswer{status, rest[:end], strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(rest[end+1:])})
		}
		return all
	}
}
