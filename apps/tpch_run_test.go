package apps

import (
	"context"
	"path/filepath"
	"strings"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
)

// chainText runs an app, leaving its files in dir, and returns the lines it
// writes in the order of the files' names.
func chainText(dir, app string, p mapreduce.Params, o mapreduce.Options) (string, error) {
	a, err := Lookup(app)
	if err != nil {
		return "", err
	}
	o.Output = filepath.Join(dir, "out")
	o.Cluster.TempDir = dir
	if _, err := mapreduce.RunApp(context.Background(), a, p, o); err != nil {
		return "", err
	}
	var b strings.Builder
	err = mapreduce.ReadRecords(context.Background(), o.Output, mapreduce.Text, func(_, line []byte) error {
		b.Write(line)
		b.WriteByte('\n')
		return nil
	})
	return b.String(), err
}

// anyOptions draws options that must not change what a job writes.
func anyOptions(t *rapid.T) mapreduce.Options {
	return mapreduce.Options{
		Reduces:   rapid.IntRange(1, 9).Draw(t, "reduces"),
		SplitSize: rapid.Int64Range(50_000, 2<<20).Draw(t, "split size"),
		Compress:  rapid.SampledFrom([]string{"none", "lz4", "zstd"}).Draw(t, "compress"),
		Cluster: mapreduce.ClusterOptions{
			Workers:  rapid.IntRange(1, 3).Draw(t, "workers"),
			MapSlots: rapid.IntRange(1, 2).Draw(t, "map slots"),
			Memory:   rapid.Int64Range(40, 256).Draw(t, "MiB") << 20, // 4 MiB for each slot at least
		},
	}
}
