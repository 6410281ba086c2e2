package cli

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestOperatePage follows docs/operate.md up to three masters, with three loopback addresses for
// the three machines and a directory for each home.
func TestOperatePage(t *testing.T) {
	one, _, _ := strings.Cut(operatePage(t), "\n### ")
	p := newPage(t)
	p.follow(one, 5, nil)
	for _, output := range []string{"counts", "streamed"} {
		if parts, _ := filepath.Glob(filepath.Join(p.root, "shared", output, "part-*")); len(parts) == 0 {
			t.Errorf("%s is empty", output)
		}
	}
}

// TestOperatePageThreeMasters follows the section of docs/operate.md on three masters. The third machine dies
// before its master is replaced.
func TestOperatePageThreeMasters(t *testing.T) {
	_, three, _ := strings.Cut(operatePage(t), "\n### Three masters\n")
	p := newPage(t)
	p.follow(three, 6, func(block string) {
		if strings.Contains(block, "masters remove") {
			p.daemons["10.0.0.3"]()
			p.await(`slotwise masters | grep leader`, block)
		}
	})
	if parts, _ := filepath.Glob(filepath.Join(p.root, "shared", "found", "part-*")); len(parts) == 0 {
		t.Error("the job has no output")
	}
	p.await(`slotwise masters | grep '10.0.0.4:7077 *follower'`, `export SLOTWISE_MASTER=10.0.0.1:7077,10.0.0.2:7077,10.0.0.4:7077 SLOTWISE_TLS_CA=ha/ca.pem`)
}

// operatePage returns the section of docs/operate.md with commands that tests run.
func operatePage(t *testing.T) string {
	_, text, _ := strings.Cut(readFile(t, "../docs/operate.md"), "\n## Start a cluster\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// follow runs the blocks of commands in a text, each on the machine that the line before it names. One that begins
// with HOST is for the first three machines. before is called before each block; nil does nothing.
func (p *page) follow(text string, want int, before func(block string)) {
	p.t.Helper()
	blocks := regexp.MustCompile("(?s)((?:[^\n]+\n)+)\n```sh\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	if len(blocks) != want {
		p.t.Fatalf("%d blocks of commands, want %d", len(blocks), want)
	}
	machine := regexp.MustCompile(`\b10\.0\.0\.\d\b`)
	home := "10.0.0.1"
	for _, b := range blocks {
		if on := machine.FindString(b[1]); on != "" {
			home = on
		}
		if before != nil {
			before(b[2])
		}
		if _, rest, each := strings.Cut(b[2], "HOST=10.0.0.1\n"); each {
			for i := range 3 {
				on := fmt.Sprint("10.0.0.", i+1)
				p.daemons[on] = p.run(on, strings.ReplaceAll(rest, "$HOST", on))
			}
			continue
		}
		p.run(home, b[2])
	}
}

// await waits until a command succeeds on the first machine, with the variables that a block of the page exports.
func (p *page) await(command, block string) {
	p.t.Helper()
	exports := strings.Join(regexp.MustCompile(`(?m)^export .*$`).FindAllString(block, -1), "\n")
	exports += "\nexport SLOTWISE_TLS_CERT=ha/admin.pem SLOTWISE_TLS_KEY=ha/admin-key.pem\n"
	clustertest.Eventually(p.t, command, func() bool {
		cmd := exec.Command("sh", "-c", p.here(exports+command))
		cmd.Dir = filepath.Join(p.root, p.here("10.0.0.1"))
		return cmd.Run() == nil
	})
}

// TestReadmeCluster follows the README's section on clusters, except for the
// address.
func TestReadmeCluster(t *testing.T) {
	_, text, _ := strings.Cut(readFile(t, "../README.md"), "\n## Run a cluster\n")
	_, text, _ = strings.Cut(text, "```sh\n")
	text, _, _ = strings.Cut(text, "```\n")
	daemons, jobs, found := strings.Cut(text, "slotwise submit")
	if !found {
		t.Fatalf("no job in %q", text)
	}
	p := newPage(t)
	const home = "10.0.0.1"
	t.Setenv("SLOTWISE_MASTER", p.here(home+":7077"))
	p.run(home, "slotwise generate text --size 1MiB --output books")
	p.run(home, strings.Replace(daemons, "slotwise master", "slotwise master --listen "+home+":7077", 1))
	p.run(home, "slotwise submit"+jobs)
	if _, err := os.Stat(filepath.Join(p.root, p.here(home), "counts", "_SUCCESS")); err != nil {
		t.Error(err)
	}
}

// page runs the commands of a page.
type page struct {
	t    *testing.T
	root string
	net  string // the first three numbers of the machines' addresses

	daemons map[string]func() // ends the processes of a block that is for several machines, by machine
}

func newPage(t *testing.T) *page {
	p := &page{t: t, root: t.TempDir(), daemons: map[string]func(){}}
	// No other process uses this loopback network, so its ports are free.
	p.net = fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), 1+rand.IntN(254))
	bin := filepath.Join(p.root, "bin")
	if err := os.Mkdir(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "slotwise")); err != nil {
		t.Fatal(err)
	}
	scp := "#!/bin/sh\nfor to; do :; done\nwhile [ $# -gt 1 ]; do cp \"$1\" \"../${to%:}\"; shift; done\n"
	if err := os.WriteFile(filepath.Join(bin, "scp"), []byte(scp), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for i := range 4 {
		if err := os.Mkdir(filepath.Join(p.root, fmt.Sprint(p.net, i+1)), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// here replaces the names and addresses of the page by the test's.
func (p *page) here(text string) string {
	return strings.NewReplacer("10.0.0.", p.net, "/shared/", p.root+"/shared/", "/var/lib/slotwise", "var", "1GiB", "4MiB").Replace(text)
}

// listens finds where the daemons of a block listen.
var listens = regexp.MustCompile(`--listen (\S+)`)

// run runs a block of commands in a machine's home. Each must succeed. It waits
// until the daemons among them listen; they end with the test, or when end is called.
func (p *page) run(machine, block string) (end func()) {
	p.t.Helper()
	block = p.here(block)
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", "-c", block)
	cmd.Dir = filepath.Join(p.root, p.here(machine))
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		p.t.Fatal(err)
	}
	// The pipe closes when the last process of the block has ended, daemons
	// included.
	said, gone := &clustertest.Buffer{}, make(chan struct{})
	go func() {
		io.Copy(said, r)
		close(gone)
	}()
	end = sync.OnceFunc(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-gone
		r.Close()
		p.t.Logf("%s\n%s", block, said)
	})
	p.t.Cleanup(end)
	if err := cmd.Wait(); err != nil {
		end()
		p.t.Fatal(err)
	}
	for _, at := range listens.FindAllStringSubmatch(block, -1) {
		clustertest.Eventually(p.t, "somebody listens at "+at[1], func() bool {
			c, err := net.Dial("tcp", at[1])
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return end
}
