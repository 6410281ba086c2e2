package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a packaged program. deploy/package sets it with the linker's
// option -X. Programs that are built in another way have the version that Go recorded.
var release string

// buildFacts is the output of slotwise version -o json. Revision, Time and Modified are empty
// if the program was not built from a checkout of its repository.
type buildFacts struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // commit of the sources
	Time     string `json:"time"`     // of that commit, RFC 3339
	Modified bool   `json:"modified"` // the sources had changes that the commit lacks
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// readBuild returns the facts that the Go toolchain recorded in the program. A test binary, and one
// that go run has built, may lack some facts.
func readBuild() buildFacts {
	f := buildFacts{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" {
		f.Version = info.Main.Version
	}
	// A package's version wins: its sources may be a tarball without a repository.
	if release != "" {
		f.Version = release
	}
	if !ok {
		return f
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			f.Revision = s.Value
		case "vcs.time":
			f.Time = s.Value
		case "vcs.modified":
			f.Modified = s.Value == "true"
		}
	}
	return f
}

// String returns what slotwise version and slotwise --version print.
func (f buildFacts) String() string {
	source := ""
	// Twelve digits, as git describes commits of large repositories.
	if f.Revision != "" {
		source = " from " + f.Revision[:min(len(f.Revision), 12)]
		if f.Modified {
			source += " with changes"
		}
	}
	return fmt.Sprintf("slotwise %s%s (%s %s/%s)\n", f.Version, source, f.Go, f.OS, f.Arch)
}

// version returns the program's version, which masters and workers tell each other.
func version() string { return readBuild().Version }

// newVersion returns the command that prints the version.
func newVersion() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what the program was built from",
		Example: `  slotwise version
  slotwise version -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return encode(c.OutOrStdout(), readBuild())
			}
			_, err := io.WriteString(c.OutOrStdout(), readBuild().String())
			return err
		},
	}
	addPrint(c, &asJSON)
	return c
}
