package secure

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzLoadRules reads any bytes as an access file. A file that is refused must give no
// rules, and no user may act for a worker by any rules.
func FuzzLoadRules(f *testing.F) {
	f.Add([]byte("pools:\n  etl: {submit: [ana, \"@data\"], manage: [\"@ops\"]}\n  \"*\": {submit: [\"*\"]}\n"))
	f.Add([]byte("pools: {a: {submit: ['@']}}"))
	f.Add([]byte("pools: &a {b: *a}"))
	f.Add([]byte("\xff"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(dir, "access")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := LoadRules(file)
		if err != nil && rules.Pools != nil {
			t.Errorf("%v and rules %v", err, rules)
		}
		ana := Identity{User: "ana", Role: User, Groups: []string{"data", ""}}
		if rules.May(ana, Serve, Subject{}) == nil {
			t.Error("a user may act as a worker")
		}
		if err == nil {
			rules.May(ana, Submit, Subject{Pool: "etl"})
			rules.May(Identity{Role: User}, Change, Subject{Pool: "*", Owner: "bob"})
		}
	})
}
