package cli

import (
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// addProfiling gives every command the hidden flags that write profiles of
// it, for those who work on slotwise itself.
func addProfiling(root *cobra.Command) {
	var cpu, mem string
	flags := root.PersistentFlags()
	flags.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to `file`")
	flags.StringVar(&mem, "memprofile", "", "write a heap profile to `file`")
	for _, name := range []string{"cpuprofile", "memprofile"} {
		flags.Lookup(name).Hidden = true
	}
	var cpuFile *os.File
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		if cpu == "" {
			return nil
		}
		if cpuFile, err = os.Create(cpu); err != nil {
			return misuse("--cpuprofile: %w", err)
		}
		return pprof.StartCPUProfile(cpuFile)
	}
	cobra.OnFinalize(func() {
		if cpuFile != nil {
			pprof.StopCPUProfile()
			cpuFile.Close()
		}
	})
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if mem == "" {
			return nil
		}
		f, err := os.Create(mem)
		if err != nil {
			return misuse("--memprofile: %w", err)
		}
		defer f.Close()
		runtime.GC() // so that the profile is of what is alive
		return pprof.WriteHeapProfile(f)
	}
}
