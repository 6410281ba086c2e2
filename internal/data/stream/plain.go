package stream

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// shellWords are first words of a command that a shell handles itself, in dash or in bash.
var shellWords = sync.OnceValue(func() map[string]bool {
	return wordSet(`: . [ alias bg bind break builtin caller case cd chdir command continue coproc declare dirs
disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help
history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select
set shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until
wait while`)
})

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// plain returns the program's path and the arguments, the program's name first, of a command that a shell would
// only split at its spaces and start. ok is false for every other command, and if env changes where a shell
// searches for programs. To start a shell costs as much as to start cat, for each task.
func plain(command string, env []string) (path string, args []string, ok bool) {
	// A list of harmless bytes and not of special ones: a byte that is forgotten here costs time, and there
	// it would change the command.
	for i := range len(command) {
		switch c := command[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(" _./-+,:@%=", c) >= 0:
		default:
			return "", nil, false // it may mean something to a shell
		}
	}
	args = strings.Fields(command)
	// A word with = before the program is an assignment.
	if len(args) == 0 || shellWords()[args[0]] || strings.Contains(args[0], "=") {
		return "", nil, false
	}
	for _, v := range env {
		if strings.HasPrefix(v, "PATH=") {
			return "", nil, false
		}
	}
	if path = args[0]; !strings.Contains(path, "/") {
		var err error
		// A relative result depends on the directory, and the command may run in another one.
		if path, err = exec.LookPath(path); err != nil || !filepath.IsAbs(path) {
			return "", nil, false
		}
	}
	return path, args, true
}

// plainCommand returns the command of plain's result, which runs in dir, or in this process's
// directory if dir is empty. A shell exports PWD also if this process has none or another one, and so
// does plainCommand.
func plainCommand(path string, args []string, dir string, env []string) *exec.Cmd {
	// Not exec.Command, which would search the directories of PATH again.
	cmd := &exec.Cmd{Path: path, Args: args, Env: append(os.Environ(), env...)}
	if dir == "" {
		dir, _ = os.Getwd() // after an error PWD is empty: this process's directory is gone
	}
	cmd.Env = append(cmd.Env, "PWD="+dir)
	return cmd
}
