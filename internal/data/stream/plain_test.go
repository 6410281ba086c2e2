package stream

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPlain shows which commands run without a shell.
func TestPlain(t *testing.T) {
	for command, want := range map[string]string{
		"cat": "cat", " cat  -u ": "cat|-u", "/bin/cat": "/bin/cat", "./x.sh a=b": "./x.sh|a=b",
		"": "", "  ": "", "cat|cat": "", "cat $X": "", "cat 'a'": "", "cat *": "", "cat ~": "", "cat >x": "", "cat\ncat": "", "cat #x": "",
		"a=b cat": "", "echo x": "", "exit 3": "", "true": "", "exec cat": "", ": cat": "", "no-such-command-at-all": "", "cat \xff": "", "cat\tx": "", "! cat": "", "{ cat": "",
	} {
		path, args, ok := plain(command, []string{"X=1"})
		if got := strings.Join(args, "|"); ok != (want != "") || ok && (got != want || filepath.Base(path) != filepath.Base(args[0])) {
			t.Errorf("%q: %q, path %q, %v", command, got, path, ok)
		}
	}
	if _, _, ok := plain("cat", []string{"PATH=/x"}); ok {
		t.Error("a command with a PATH of its own runs without a shell")
	}
}

// variables returns the lines of env that a shell might change.
func variables(env string) string {
	var keep []string
	for _, l := range strings.Split(env, "\n") {
		if strings.HasPrefix(l, "PWD=") || strings.HasPrefix(l, "OLDPWD=") || strings.HasPrefix(l, "A=") {
			keep = append(keep, l)
		}
	}
	slices.Sort(keep)
	return strings.Join(keep, " ")
}

// TestPlainAndShell runs commands with and without a shell, which must print the same.
func TestPlainAndShell(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"script":     "#!/bin/sh\necho \"$0\" \"$@\" \"$PWD\" \"$A\"\n",
		"bare":       "echo bare \"$@\"\n", // the system does not know how to start it
		"lost":       "#!/no/such/interpreter\n",
		"forbidden":  "#!/bin/sh\n",
		"sub/script": "#!/bin/sh\npwd; echo \"$PWD\"\n",
	} {
		mode := os.FileMode(0o755)
		if name == "forbidden" {
			mode = 0o644
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ command, dir, pwd string }{
		// PWD=/ is of a process that has changed its directory since.
		{"./script a b=c d", "", "/"}, {"./bare x", "", "/"}, {"./lost", "", "/"}, {"./forbidden", "", "/"}, {"./none", "", "/"}, {"./sub", "", "/"},
		{"./script", "sub", "/"}, {"env", "", "/"}, {"sh ./script", "", "/"},
		// A service manager starts processes without a PWD.
		{"env", "", ""}, {"env", "sub", ""}, {"printenv PWD", "", ""},
	} {
		if t.Setenv("PWD", c.pwd); c.pwd == "" {
			os.Unsetenv("PWD")
		}
		run := func(command string) (out, fault string) {
			var log strings.Builder
			// Made absolute by the caller, as attempts do.
			where := c.dir
			if where != "" {
				where = filepath.Join(dir, where)
			}
			out, err := filter(context.Background(), Config{Command: command, Dir: where, Env: []string{"A=1"}, Stderr: &log}, "", 10)
			if err != nil {
				fault = strings.ReplaceAll(err.Error(), command, "")
			}
			return out, fault
		}
		gotOut, gotErr := run(c.command)
		wantOut, wantErr := run("exec " + c.command) // a word of the shell
		if c.command == "env" {
			gotOut, wantOut = variables(gotOut), variables(wantOut)
		}
		if gotOut != wantOut || gotErr != wantErr {
			t.Errorf("%s in %q with PWD=%s: %q, %q; by a shell %q, %q", c.command, c.dir, c.pwd, gotOut, gotErr, wantOut, wantErr)
		}
	}
}
