// Command image writes a container image of slotwise as an OCI archive, without Docker:
//
//	go run ./deploy/image --output slotwise.tar --tag registry.example.org/slotwise:1
//
// The image holds the static binary, the certificates of public authorities, a user
// 65532 and an empty /tmp, and no shell. The same inputs give the same bytes.
// docs/kubernetes.md says how to load it into a registry, and has the recipe of an image
// with shells and Python for streaming jobs.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	o := options{}
	flag.StringVar(&o.output, "output", "slotwise-image.tar", "`file` of the OCI archive")
	flag.StringVar(&o.tag, "tag", "localhost/slotwise:dev", "`name` of the image, with its tag")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "`architecture` of the image: amd64 or arm64")
	flag.StringVar(&o.binary, "binary", "", "static `binary` to put into the image (default: ./cmd/slotwise, which is built)")
	flag.StringVar(&o.authorities, "ca-certificates", "/etc/ssl/certs/ca-certificates.crt", "`file` with the certificates of public authorities, which jobs on S3 need")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "image: %q: takes flags only\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(o.output)
}

// options are the flags.
type options struct{ output, tag, arch, binary, authorities string }

// run builds the binary, unless one is given, and writes the archive.
func run(o options) error {
	if _, tag, ok := strings.Cut(filepath.Base(o.tag), ":"); !ok || tag == "" {
		return fmt.Errorf("--tag %s: want NAME:TAG", o.tag)
	}
	if o.binary == "" {
		dir, err := os.MkdirTemp("", "slotwise-image-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.binary = filepath.Join(dir, "slotwise")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", o.binary, "./cmd/slotwise")
		// A static binary, because the image has no C library.
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.arch)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building ./cmd/slotwise: %w\n%s", err, out)
		}
	}
	program, err := os.ReadFile(o.binary)
	if err != nil {
		return fmt.Errorf("--binary: %w", err)
	}
	authorities, err := os.ReadFile(o.authorities)
	if err != nil {
		return fmt.Errorf("--ca-certificates: %w", err)
	}
	f, err := os.Create(o.output)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if err := write(f, o.tag, o.arch, program, authorities); err != nil {
		f.Close()
		return fmt.Errorf("--output %s: %w", o.output, err)
	}
	return f.Close()
}
