package mapreduce

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slotwise/slotwise/internal/live/feature"
)

// A program without the cluster client refuses --master, and the error names the package
// to import. A program with the client has the flags of the cluster.
func TestMainMaster(t *testing.T) {
	app := &App{Name: "j", Job: func(Params) (*Job, error) { return &Job{Name: "j", Mapper: IdentityMapper}, nil }}
	args := []string{"--input", "in", "--output", t.TempDir() + "/out", "--master", "localhost:1"}
	var said strings.Builder
	if code := runMain(t.Context(), app, nil, args, io.Discard, &said); code != ExitMisuse || !strings.Contains(said.String(), "pass remote.Client() of package mapreduce/remote") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	var master string
	client := feature.Feature{Cluster: &feature.Cluster{
		Flags: func(f *flag.FlagSet) func() (feature.Remote, error) {
			f.StringVar(&master, "master", "", "")
			return func() (feature.Remote, error) { return nil, errors.New("no such master") }
		},
	}}
	said.Reset()
	if code := runMain(t.Context(), app, []Feature{client}, args, io.Discard, &said); code != ExitMisuse || master != "localhost:1" || !strings.Contains(said.String(), "no such master") {
		t.Errorf("exit code %d, master %q: %s", code, master, &said)
	}
}

// The parameters of an app are flags, sources with names are inputs with names, and wrong
// command lines name the mistake.
func TestMainApp(t *testing.T) {
	dir := t.TempDir()
	left, right := filepath.Join(dir, "left.txt"), filepath.Join(dir, "right.txt")
	if err := errors.Join(os.WriteFile(left, []byte("1\tann\n2\tbob\n"), 0o666), os.WriteFile(right, []byte("1\ttea\n1\trice\n3\tsalt\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	join := Join[string, string, string]{Key: StringCode, Left: StringCode, Right: StringCode}
	pass := func(key, value []byte, out *TypedEmitter[string, string]) error {
		out.Put(string(key), string(value))
		return nil
	}
	app := &App{
		Name:   "buys",
		Params: []Param{{Name: "verb", Default: "buys", Help: "`word` between the two"}},
		Job: func(p Params) (*Job, error) {
			return &Job{
				Name: "buys",
				Sources: []Source{
					{Name: "left", Input: KeyValue, Mapper: join.LeftMapper(pass)},
					{Name: "right", Input: KeyValue, Mapper: join.RightMapper(pass)},
				},
				Reducer: join.Inner(func(_, who, what string, out *Emitter) error {
					out.Emit(nil, []byte(who+" "+p.Get("verb")+" "+what))
					return nil
				}),
			}, nil
		},
	}
	out := filepath.Join(dir, "out")
	base := []string{"--output", out, "--reduces", "1", "--workers", "1", "--quiet"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--input", "left=" + left, "--input", "right=" + right, "--verb", "eats"}, ExitOK, ""},
		{[]string{"--input", "left=" + left}, ExitMisuse, "the input right is missing: --input right=PATH"},
		{[]string{"--input", left}, ExitMisuse, "want NAME=PATH, with one of the names left, right"},
		{[]string{"--input", "left=" + left, "--input", "right=" + right, "--reduces", "-1"}, ExitMisuse, "Options.Reduces is -1"},
		{[]string{"--help"}, ExitOK, "  --verb word\n"},
		{[]string{"--nonsense"}, ExitMisuse, "nonsense"},
	} {
		var said strings.Builder
		if code := runMain(t.Context(), app, nil, append(slices.Clone(base), c.args...), io.Discard, &said); code != c.code || !strings.Contains(said.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, &said)
		}
	}
	part, err := os.ReadFile(filepath.Join(out, "part-r-00000"))
	if err != nil || string(part) != "ann eats tea\nann eats rice\n" {
		t.Errorf("%v\n%s", err, part)
	}
	taken := &App{Name: "x", Params: []Param{{Name: "input"}}}
	var said strings.Builder
	sourceless := &App{Name: "s", Job: func(Params) (*Job, error) { return &Job{Name: "s", Synthetic: 1, Mapper: IdentityMapper}, nil }}
	if code := runMain(t.Context(), sourceless, nil, []string{"--output", out + "4", "--where", "a=1"}, io.Discard, &said); code != ExitMisuse || !strings.Contains(said.String(), "this program reads no input: leave") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	said.Reset()
	if code := runMain(t.Context(), taken, nil, nil, io.Discard, &said); code != ExitMisuse || !strings.Contains(said.String(), "parameter input has the name of a flag") {
		t.Errorf("exit code %d: %s", code, &said)
	}
}

// The named inputs of a chain go to the step that has sources of these names, and to no other.
func TestMainChainNamedInputs(t *testing.T) {
	dir := t.TempDir()
	out, in := filepath.Join(dir, "out"), filepath.Join(dir, "a=b.txt")
	if err := os.WriteFile(in, []byte("x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var read atomic.Bool
	note := func() Mapper { read.Store(true); return IdentityMapper() }
	app := &App{
		Name: "both",
		Steps: map[string]func(Params) (*Job, error){
			"read": func(Params) (*Job, error) {
				return &Job{Name: "read", Sources: []Source{{Name: "left", Mapper: note}, {Name: "right", Mapper: IdentityMapper}}, Reducer: IdentityReducer}, nil
			},
			"copy": func(Params) (*Job, error) { return &Job{Name: "copy", Mapper: IdentityMapper}, nil },
			"more": func(p Params) (*Job, error) { _, err := p.Int("rounds", 1); return nil, err },
		},
		Chain: func(ctx context.Context, c *Chain) error {
			return c.Step(ctx, "copy", nil, []string{c.Then(ctx, "read", nil, c.Inputs...)}, c.Output())
		},
	}
	base := []string{"--output", out, "--reduces", "1", "--workers", "1", "--quiet"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--input", "left=" + in}, ExitMisuse, "the input right is missing: --input right=PATH"},
		{[]string{"--input", "left=" + in, "--input", "right=" + in}, ExitOK, ""},
		{[]string{"--input", "left=" + in, "--input", "right=" + in}, ExitMisuse, "both: output directory " + out + " exists"},
		{[]string{}, ExitMisuse, "--input is missing"},
	} {
		read.Store(false)
		var said strings.Builder
		if code := runMain(t.Context(), app, nil, append(slices.Clone(base), c.args...), io.Discard, &said); code != c.code || !strings.Contains(said.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, &said)
		}
		// An output that is taken is an error before the first step.
		if read.Load() && c.code != ExitOK {
			t.Errorf("%q: a step has run", c.args)
		}
	}
	if part, err := os.ReadFile(filepath.Join(out, "part-m-00000")); err != nil || string(part) != "\tx\n\tx\n" {
		t.Errorf("%v\n%q", err, part)
	}
}

// Every flag of a program refuses an empty value, and only a parameter of the app may be
// empty.
func TestMainEmptyValues(t *testing.T) {
	app := &App{Name: "j", Params: []Param{{Name: "word"}}, Job: func(Params) (*Job, error) { return &Job{Name: "j", Mapper: IdentityMapper}, nil }}
	var o Options
	checked := 0
	mainFlags("j", &o, &shown{}).VisitAll(func(f *flag.Flag) {
		if mainFlags("j", &Options{}, &shown{}).Set(f.Name, "") != nil {
			return // a number or a size
		}
		checked++
		var said strings.Builder
		args := []string{"--input", "none", "--output", t.TempDir() + "/out", "--" + f.Name, ""}
		if code := runMain(t.Context(), app, nil, args, io.Discard, &said); code != ExitMisuse || !strings.Contains(said.String(), "--"+f.Name+": the value is empty") {
			t.Errorf("--%s: exit code %d: %s", f.Name, code, &said)
		}
	})
	if checked < 5 {
		t.Errorf("only %d flags can be given with an empty value", checked)
	}
	var said strings.Builder
	if runMain(t.Context(), app, nil, []string{"--input", "none", "--output", t.TempDir() + "/out", "--word", ""}, io.Discard, &said); strings.Contains(said.String(), "is empty") {
		t.Error(said.String())
	}
}

// A program has the command's flags about data, retries and output. Wrong values name the flag.
func TestMainHasTheCommandsFlags(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("n,city,fare\n1,Oslo,5\n2,Rome,7\n3,Oslo,9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := &Job{Name: "j", Mapper: func() Mapper {
		return MapperFunc(func(_, line []byte, out *Emitter) error {
			if string(line) == "Bonn\t1" {
				return errors.New("a bad line")
			}
			out.Emit(nil, line)
			return nil
		})
	}}
	app := &App{Name: "j", Job: func(Params) (*Job, error) { return job, nil }}
	args := []string{"--input", in, "--output", out, "--format", "csv", "--columns", "city,fare", "--where", "fare>=6",
		"--output-format", "json", "--output-columns", "town,fare:int", "--max-attempts", "1", "--workers", "1", "--name", "mine", "--json"}
	var printed, said strings.Builder
	if code := runMain(t.Context(), app, nil, args, &printed, &said); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	parts, err := filepath.Glob(filepath.Join(out, "part-*"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	if text, err := os.ReadFile(parts[0]); err != nil || string(text) != "{\"town\":\"Rome\",\"fare\":7}\n{\"town\":\"Oslo\",\"fare\":9}\n" {
		t.Errorf("%v: %s", err, text)
	}
	var sum RunSummary
	if err := json.Unmarshal([]byte(printed.String()), &sum); err != nil || sum.State != "succeeded" || sum.Program != "j" || sum.Output != out ||
		len(sum.Jobs) != 1 || sum.Jobs[0].Job != "mine" || sum.Jobs[0].Counters["map.input_records"] != 2 {
		t.Errorf("%v: %s", err, &printed)
	}
	if strings.Contains(said.String(), "output:") {
		t.Errorf("the summary for people is there, too: %s", &said)
	}

	// A failure is an object, too, after the one attempt that --max-attempts allows.
	if err := os.WriteFile(in, []byte("city,fare\nBonn,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed.Reset()
	code := runMain(t.Context(), app, nil, []string{"--input", in, "--output", out + "2", "--format", "csv", "--max-attempts", "1", "--json"}, &printed, &said)
	if err := json.Unmarshal([]byte(printed.String()), &sum); code != ExitFailed || err != nil || sum.State != "failed" || sum.Exit != ExitFailed ||
		!strings.Contains(sum.Error, "a bad line") || sum.Jobs[0].Failures != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, &printed)
	}

	for _, c := range []struct{ flag, value, want string }{
		{"--max-attempts", "0", "max-attempts: \"0\": must be a positive whole number"},
		{"--format", "exel", "exel"}, {"--where", "fare", "fare"}, {"--columns", "a,,b", "--columns: the value is empty"},
		{"--output-columns", "a:number", "unknown type"}, {"--priority", "hihg", `did you mean "high"?`}, {"--where", "", "--where: the value is empty"},
	} {
		said.Reset()
		printed.Reset()
		if code := runMain(t.Context(), app, nil, []string{"--input", in, "--output", out + "3", c.flag, c.value}, &printed, &said); code != ExitMisuse || !strings.Contains(said.String(), c.want) || printed.Len() > 0 {
			t.Errorf("%s %s: exit code %d, %s%s", c.flag, c.value, code, &printed, &said)
		}
		checkRefused(t, app, c.want, "--input", in, "--output", out+"3", c.flag, c.value, "--json")
	}
}

// checkRefused runs a program with --json, which must print one object with the error and start no job.
func checkRefused(t *testing.T, app *App, want string, args ...string) {
	t.Helper()
	var printed, said strings.Builder
	code := runMain(t.Context(), app, nil, args, &printed, &said)
	var sum RunSummary
	if err := json.Unmarshal([]byte(printed.String()), &sum); code != ExitMisuse || err != nil || sum.Program != app.Name || sum.State != "failed" ||
		sum.Exit != ExitMisuse || !strings.Contains(sum.Error, want) || sum.Jobs == nil || len(sum.Jobs) != 0 || !strings.Contains(said.String(), want) {
		t.Errorf("%q: exit code %d, %v: %s%s", args, code, err, &printed, &said)
	}
}

// With --json a script reads the error of a run that starts no job from standard output, wherever the
// flag stands.
func TestMainErrorsAsJSON(t *testing.T) {
	app := &App{Name: "j", Job: func(Params) (*Job, error) { return &Job{Name: "j", Mapper: IdentityMapper}, nil }}
	out := t.TempDir() + "/out"
	checkRefused(t, app, "--input is missing", "--json")
	checkRefused(t, app, "no such file", "--json=true", "--input", out+"/none", "--output", out)
	checkRefused(t, app, "flag provided but not defined: -nonsense", "--nonsense", "--json")
	checkRefused(t, app, "it has no cluster client", "--master", "localhost:1", "-json")
	for _, args := range [][]string{{"--json=false"}, {"--nonsense", "--json=false"}, {"--nonsense", "--", "--json"}, {"--json", "--help"}} {
		var printed strings.Builder
		if runMain(t.Context(), app, nil, args, &printed, io.Discard); printed.Len() > 0 {
			t.Errorf("%q: %s", args, &printed)
		}
	}
}
