package mapreduce

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/feature"
)

// A program without the cluster client refuses -master, and the error names the package
// to import. A program with the client has the flags of the cluster.
func TestMainMaster(t *testing.T) {
	job := &Job{Name: "j", Mapper: IdentityMapper}
	args := []string{"-input", "in", "-output", t.TempDir() + "/out", "-master", "localhost:1"}
	var said strings.Builder
	if code := runMain(t.Context(), job, nil, args, &said); code != ExitMisuse || !strings.Contains(said.String(), "pass remote.Client() of package mapreduce/remote") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	var master string
	client := Feature{Cluster: &feature.Cluster{
		Flags: func(f *flag.FlagSet) func() (feature.Remote, error) {
			f.StringVar(&master, "master", "", "")
			return func() (feature.Remote, error) { return nil, errors.New("no such master") }
		},
	}}
	said.Reset()
	if code := runMain(t.Context(), job, []Feature{client}, args, &said); code != ExitMisuse || master != "localhost:1" || !strings.Contains(said.String(), "no such master") {
		t.Errorf("exit code %d, master %q: %s", code, master, &said)
	}
}
