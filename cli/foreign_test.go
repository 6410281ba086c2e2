package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// forged begins the line with which hostile text poses as output of the program.
const forged = "FORGED-ROW"

// hostile is text that other users can choose. On a terminal it would change the title, clear
// the screen, reverse the text after it, and add a row.
const hostile = "evil\x1b]0;owned\x07\x1b[2J\u009b31m\x7f\u202ecod\u2066\u2028\r\n" + forged + "\tj9\v\f"

// hostileFile is hostile as the name of a file, which may have bytes that are not UTF-8.
const hostileFile = "evil\x1b[2J\u009b31m\x7f\u202e\xff\n" + forged + "\tj9"

// TestForeignText runs every command over text that other users, jobs, files and servers
// have chosen, and requires that nothing acts on a terminal. A command without a row in
// foreignCases fails the test.
func TestForeignText(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command")
	}
	t.Chdir(t.TempDir())
	writeHostileFiles(t)
	cases := foreignCases()
	for _, c := range allCommands(newRoot(builtinOnly, io.Discard)) {
		name := strings.TrimPrefix(c.CommandPath(), product+" ")
		if _, ok := cases[name]; !ok {
			t.Errorf("%s: no row in foreignCases says how to run it over hostile text", name)
		}
	}
	answers := httptest.NewServer(hostileMaster{t: t})
	defer answers.Close()
	refuses := httptest.NewServer(hostileMaster{t: t, refuse: true})
	defer refuses.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SLOTWISE_HDFS_DIR", t.TempDir())
	t.Setenv("SLOTWISE_STORAGE_RETRY", "0s")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for _, args := range cases[name] {
				words := append(strings.Fields(name), args.args...)
				t.Setenv("SLOTWISE_MASTER", answers.URL)
				out := runForeign(t, words)
				if args.shows && !strings.Contains(out, `evil\x1b`) && !strings.Contains(out, `evil\u001b`) {
					t.Errorf("%q does not print hostile text, so it proves nothing: %.2000q", words, out)
				}
				t.Setenv("SLOTWISE_MASTER", refuses.URL)
				runForeign(t, words)
			}
			// Errors quote the value at fault.
			runForeign(t, append(strings.Fields(name), hostile, hostile, hostile))
			runForeign(t, append(strings.Fields(name), "--"+hostile))
			runForeign(t, append(strings.Fields(name), "--"+hostile+"="+hostile))
			runForeign(t, append(strings.Fields(name), "-"+hostile))
		})
	}
}

// TestForeignFlagValues runs every command with hostile text as the value of each flag.
func TestForeignFlagValues(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command")
	}
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	gone := httptest.NewServer(hostileMaster{t: t, refuse: true})
	defer gone.Close()
	t.Setenv("SLOTWISE_MASTER", gone.URL)
	for _, c := range allCommands(newRoot(builtinOnly, io.Discard)) {
		words := strings.Fields(c.CommandPath())[1:]
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "address-file" || strings.HasSuffix(f.Name, "profile") {
				return
			}
			runForeignFor(t, time.Second, append(slices.Clone(words), "--"+f.Name+"="+hostile))
		})
	}
}

// allCommands returns the commands below c that do something.
func allCommands(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		all = append(all, sub)
		all = append(all, allCommands(sub)...)
	}
	return all
}

// runForeign runs a command line and requires harmless output. It returns both outputs.
func runForeign(t *testing.T, args []string) string {
	t.Helper()
	limit := 5 * time.Minute
	if s := args[0]; s == "master" || s == "worker" || s == "ui" {
		limit = 2 * time.Second // if it starts to serve, it is ended
	}
	return runForeignFor(t, limit, args)
}

// runForeignFor is runForeign with a time limit, after which the command is interrupted.
func runForeignFor(t *testing.T, limit time.Duration, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr clustertest.Buffer
	execute(ctx, args, &stdout, &stderr)
	for _, out := range []string{stdout.String(), stderr.String()} {
		if why := acts(out, args[0] == "logs" || args[0] == "stack"); why != "" {
			t.Errorf("%q prints %s:\n%.3000q", args, why, out)
		}
	}
	if slices.Contains(args, "json") {
		for d := json.NewDecoder(strings.NewReader(stdout.String())); ; {
			var v any
			if err := d.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%q prints broken JSON: %v\n%.3000q", args, err, stdout.String())
				break
			}
		}
	}
	return stdout.String() + stderr.String()
}

// acts names a control character of a text that would act on a terminal, or returns "". A log may
// contain the characters that its job wrote.
func acts(text string, log bool) string {
	if !utf8.ValidString(text) {
		return "bytes that are not UTF-8"
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), forged) && !log {
			return "a forged line"
		}
	}
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return "a control character"
		}
	}
	return ""
}

// foreignCase is one command line. shows means that its output must contain the hostile text,
// escaped.
type foreignCase struct {
	args  []string
	shows bool
}

// foreignCases returns, for each command, the arguments with which it prints text that others
// have chosen. A command that prints none has no arguments; its errors are tested all the same.
func foreignCases() map[string][]foreignCase {
	shows := func(args ...string) foreignCase { return foreignCase{args, true} }
	runs := func(args ...string) foreignCase { return foreignCase{args, false} }
	cluster := []string{"--cluster", "nodes=2,maps=1,reduces=1"}
	mix := append([]string{"--workload", "mix.yaml"}, cluster...)
	return map[string][]foreignCase{
		"apps":     {runs(), runs("grep"), runs("-o", "json"), shows(hostile)},
		"policies": {runs(), runs("fair"), runs("-o", "json"), shows(hostile)},
		"formats":  {runs(), runs("input"), runs("-o", "json"), runs("input", "-o", "json"), shows(hostile)},
		"schema":   {shows("hostile.csv", "--format", "csv", "--files"), shows("hostile.csv", "--format", "csv", "-o", "json"), runs(hostile)},
		"version":  {runs(), runs("-o", "json"), runs("--json")},
		"man":      {runs("pages")},
		"jobs":     {shows("--all"), shows("--steps"), shows("-o", "json")},
		"job":      {shows("j1"), shows("chain-1"), shows("j1", "-o", "json"), shows("chain-1", "-o", "json")},
		"tasks":    {shows("j1"), shows("j1", "-o", "json")},
		"explain":  {shows("j1"), shows("j1", "-o", "json")},
		"whatif": {shows("--policy", "fair"), shows("--policy", "fair", "-o", "json"), shows("--submit", "mix.yaml"),
			runs("--since", "24h"), runs("--since", "24h", "-o", "json")},
		"kill":               {runs("j1", "--reason", hostile)},
		"priority":           {runs("j1", "high")},
		"move":               {runs("j1", hostile)},
		"nodes":              {shows(), shows("-o", "json")},
		"nodes drain":        {shows(hostile), shows(hostile, "-o", "json")},
		"masters":            {shows(), shows("-o", "json")},
		"masters add":        {runs("a:1"), shows(hostile)},
		"masters remove":     {runs("a:1"), shows(hostile)},
		"policy":             {shows(), shows("-o", "json"), shows("fair"), shows("fair", "-o", "json"), shows("fair", "--preview")},
		"top":                {shows(), shows("-o", "json")},
		"logs":               {shows("j1_m_0_0", "--raw=false")},
		"stack":              {shows("j1_m_0_0")},
		"history":            {shows(), shows("-o", "json"), shows("j1"), shows("chain-1"), shows("j1", "-o", "json"), shows("--chains")},
		"ui":                 {shows("history:" + hostileFile), shows(hostileFile)},
		"certs":              {shows("--dir", hostileFile), shows("--dir", hostileFile+"-certs", "-o", "json")},
		"token":              {runs("--tokens", hostileFile+".tokens", "--user", hostile), runs("--tokens", "tokens", "-o", "json")},
		"kubernetes":         {runs()},
		"kubernetes secrets": {runs("--credentials", hostileFile+"-creds")},
		"kubernetes manifest": {runs("--image", "localhost/slotwise:1", "--credentials", hostileFile+"-creds"),
			runs("--image", hostile, "--credentials", hostileFile+"-creds")},
		"yarn":           {runs()},
		"yarn up":        {shows("--name", hostile), shows("--name", hostile, "-o", "json")},
		"yarn scale":     {shows("2", "--name", hostile), shows("2", "--name", hostile, "-o", "json")},
		"yarn status":    {shows("--name", hostile), shows("--name", hostile, "-o", "json")},
		"yarn down":      {shows("--name", hostile), shows("--name", hostile, "-o", "json")},
		"master":         {shows("--dir", hostileFile, "--listen", hostile)},
		"master backup":  {shows(hostileFile, "--to", "x"), shows(hostileFile, "--to", "x", "-o", "json")},
		"master restore": {shows(hostileFile, "--from", hostileFile), shows(hostileFile, "--from", hostileFile, "-o", "json")},
		"worker":         {shows("--dir", "w", "--listen", hostile)},
		"run": {
			shows("--mapper", `printf 'reporter:counter:g,\033[31mred\233,1\n\033]0;owned\007evil\033\n' >&2; cat`, "--input", "in", "--output", hostileFile+"-1"),
			// The counter's name is cleaned before any command prints it.
			runs("--mapper", `printf 'reporter:counter:g,evil\033[31mred,1\n' >&2; cat`, "--input", "in", "--output", "o-2", "-o", "json"),
			shows("--mapper", "echo 'evil\x1b[2J' >&2; exit 3", "--max-attempts", "1", "--input", "in", "--output", "o-3"),
			shows("--mapper", "echo 'evil\x1b[2J' >&2; exit 3", "--max-attempts", "1", "--input", "in", "--output", "o-4", "-o", "json"),
			shows("--jobs", "mix.yaml", "--explain"), shows("--jobs", "mix.yaml", "-o", "json"), shows("--jobs", "bad.yaml"),
			shows("wordcount", "--input", hostileFile+"-none", "--output", "o-5"),
		},
		"submit": {
			shows("--mapper", "cat", "--input", "in", "--output", "file:///o"), shows("--mapper", "cat", "--input", "in", "--output", "file:///o", "--wait"),
			shows("--mapper", "cat", "--input", "in", "--output", "file:///o", "--wait", "-o", "json"),
			shows("--jobs", "mix.yaml", "--output", "file:///o", "--wait"), shows("--jobs", "mix.yaml", "--output", "file:///o", "--wait", "-o", "json"),
		},
		"sim":       {shows(append(mix, "--explain")...), shows(append(mix, "--explain", "-o", "json")...), shows(append([]string{"--workload", hostileFile}, cluster...)...)},
		"study":     {shows("study.yaml"), shows("study.yaml", "-o", "json"), shows("study.yaml", "--dry-run"), shows("study.yaml", "--dry-run", "-o", "json")},
		"optimum":   {shows(mix...), shows(append(mix, "-o", "json")...)},
		"calibrate": {shows("--workload", "rumen:"+hostileFile), shows("--workload", "history:"+hostileFile, "-o", "json")},
		"tune":      {runs(append(mix, "--policy", "fair", "--budget", "30")...), runs(append(mix, "--policy", "fair", "--budget", "30", "-o", "json")...), shows(append(mix, "--policy", hostile)...)},
		"size":      {runs(append(mix, "--policy", "fair", "--goal", "makespan<1000")...), runs(append(mix, "--policy", "fair", "--goal", "makespan<1000", "-o", "json")...), shows(append(mix, "--policy", "fair", "--goal", hostile)...)},
		"repro":     {runs("--list"), runs("--list", "-o", "json"), shows(hostile)},
		"generate":  {runs(), runs("-o", "json"), shows("text", "--size", "1k", "--output", hostileFile+"-text"), shows("text", "--size", "1k", "--output", hostileFile+"-json", "-o", "json")},
		"profile":   {runs("wordcount", "--input", "in", "--runs", "1", "--output", hostileFile+".profile"), runs("wordcount", "--input", "in", "--runs", "1", "--output", "wordcount.profile", "-o", "json"), shows("wordcount", "--input", "in", "--output", hostileFile)},
		"hadoop": {
			shows("fs", "-ls", "files"), shows("fs", "-ls", "-C", "files"), shows("fs", "-find", "files"), shows("fs", "-du", "files"), runs("fs", "-count", "files"),
			shows("fs", "-count", "files/"+hostileFile), shows("fs", "-stat", "%n", "files/"+hostileFile), shows("fs", "-cat", hostileFile+"-none"),
			shows("job", "-list", "all"), shows("job", "-status", "job_202601010000_0001"), runs("job", "-kill", "job_202601010000_0001"),
			shows("job", "-history", "job_202601010000_0001"), runs("version"), runs("classpath"),
			shows("jar", hostileFile), shows("fs", "-"+hostile),
			shows("jar", "hadoop-streaming.jar", "-input", "in", "-output", "file:///o/"+hostile, "-mapper", "cat", "-numReduceTasks", "0"),
		},
		"help":                  {runs(), runs("run")},
		"completion":            {runs()},
		"completion bash":       {runs()},
		"completion fish":       {runs()},
		"completion powershell": {runs()},
		"completion zsh":        {runs()},
	}
}

// writeHostileFiles makes the files of foreignCases in the current directory.
func writeHostileFiles(t *testing.T) {
	t.Helper()
	q := strconv.QuoteToASCII(hostile) // as YAML has strings, too
	for name, text := range map[string]string{
		"in": "a line\n", "data": hostile, hostile: "heartbeat: fixed:1s\n", "files/" + hostileFile: "x", "files/sub/" + hostileFile: "x", hostileFile: hostile,
		"history/journal/0": "", "hostile.csv": `"` + strings.ReplaceAll(hostile, `"`, `""`) + "\"\n1\n",
		"mix.yaml": "jobs:\n  - {name: " + q + ", user: " + q + ", pool: " + q + ", maps: 2, map-time: 10ms, reduces: 1, reduce-time: 10ms, input-size: 1MB}\n" +
			"  - {name: two, maps: 3, map-time: 10ms}\n",
		"bad.yaml":   "jobs:\n  - {name: " + q + ", app: " + q + "}\n",
		"study.yaml": "workload: mix.yaml\nclusters: ['nodes=2,maps=1,reduces=1']\nworlds: [" + q + "]\npolicies: [fifo, fair]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// hostileMaster answers every call of a client with hostile text in each field that holds
// text, so that fields of the future are tested too. With refuse it refuses every call with
// hostile text.
type hostileMaster struct {
	t      *testing.T
	refuse bool
}

// ServeHTTP speaks the Connect protocol.
func (m hostileMaster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	fault, err := json.Marshal(map[string]string{"code": "failed_precondition", "message": hostile})
	if err != nil {
		m.t.Error(err)
	}
	service := slotwisev1.File_slotwise_v1_client_proto.Services().ByName("ClientService")
	_, name, isCall := strings.Cut(r.URL.Path, "/slotwise.v1.ClientService/")
	method := service.Methods().ByName(protoreflect.Name(name))
	switch {
	case !isCall || method == nil: // an upload
		if m.refuse {
			http.Error(w, hostile, http.StatusForbidden)
		}
		return
	case m.refuse && !method.IsStreamingServer():
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		w.Write(fault)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	answer := dynamicpb.NewMessage(method.Output())
	fillHostile(answer, 0)
	body, err := proto.Marshal(answer)
	if err != nil {
		m.t.Error(err)
	}
	if !method.IsStreamingServer() {
		w.Write(body)
		return
	}
	envelope := func(flags byte, body []byte) {
		var b bytes.Buffer
		b.WriteByte(flags)
		binary.Write(&b, binary.BigEndian, uint32(len(body)))
		b.Write(body)
		w.Write(b.Bytes())
	}
	if m.refuse {
		envelope(2, []byte(`{"error":`+string(fault)+`}`))
		return
	}
	envelope(0, body)
	envelope(2, []byte("{}"))
}

// fillHostile fills all fields of a message: text with hostile, lists and maps with one
// element, the rest with small values.
func fillHostile(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		value := func(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
			switch f.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(hostileField(f))
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte(hostileFile))
			case protoreflect.EnumKind:
				if f.Enum().Name() == "JobState" {
					return protoreflect.ValueOfEnum(slotwisev1.JobState_JOB_STATE_FAILED.Number())
				}
				return protoreflect.ValueOfEnum(1)
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(false)
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(1)
			case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
				return protoreflect.ValueOfInt64(1)
			case protoreflect.Uint32Kind:
				return protoreflect.ValueOfUint32(1)
			case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
				return protoreflect.ValueOfUint64(1)
			case protoreflect.DoubleKind:
				return protoreflect.ValueOfFloat64(0.5)
			case protoreflect.MessageKind:
				fillHostile(v.Message(), depth+1)
				return v
			}
			panic("no value for a field of kind " + f.Kind().String())
		}
		switch {
		case f.Kind() == protoreflect.MessageKind && depth > 6:
		case f.IsMap():
			if k := f.MapKey(); k.Kind() == protoreflect.StringKind {
				entries := m.Mutable(f).Map()
				entries.Set(protoreflect.ValueOfString(hostile).MapKey(), value(f.MapValue(), entries.NewValue()))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			list.Append(value(f, list.NewElement()))
		case f.Kind() == protoreflect.MessageKind:
			value(f, m.Mutable(f))
		case f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil:
		default:
			m.Set(f, value(f, protoreflect.Value{}))
		}
	}
}

// hostileField returns the text of a field: hostile, unless a command would go no further.
func hostileField(f protoreflect.FieldDescriptor) string {
	switch f.FullName() {
	case "slotwise.v1.JobsResponse.next", "slotwise.v1.TasksResponse.next", "slotwise.v1.HistoryResponse.next":
		return "" // the last page
	case "slotwise.v1.JobStatus.chain":
		return "" // the job is shown without its chain
	}
	return hostile
}

// Data stays unchanged: logs into a pipe, files, names for another program.
func TestDataIsUnchanged(t *testing.T) {
	t.Chdir(t.TempDir())
	writeHostileFiles(t)
	answers := httptest.NewServer(hostileMaster{t: t})
	defer answers.Close()
	t.Setenv("SLOTWISE_MASTER", answers.URL)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "j1_m_0_0"}, hostileFile},
		{[]string{"hadoop", "fs", "-cat", hostileFile}, hostile},
		{[]string{"hadoop", "fs", "-tail", hostileFile}, hostile},
		{[]string{"hadoop", "fs", "-head", hostileFile}, hostile},
		{[]string{"hadoop", "fs", "-text", hostileFile}, hostile},
		{[]string{"hadoop", "fs", "-find", "files", "-name", "evil*", "-print0"}, "files/" + hostileFile + "\x00files/sub/" + hostileFile + "\x00"},
		{[]string{"run", "--mapper", "cat", "--input", "data", "--output", "-", "--quiet"}, hostile + "\n"},
	} {
		var stdout, stderr clustertest.Buffer
		if status := execute(t.Context(), tt.args, &stdout, &stderr); status != exitOK || stdout.String() != tt.want {
			t.Errorf("%q: status %d and %q, want %q\n%s", tt.args, status, stdout.String(), tt.want, stderr.String())
		}
	}
}

// Package fmt writes to an output only what the program itself says. With arguments,
// console.Fprintf writes it, which keeps a value in its line and its column.
func TestPrintingEscapes(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "man.go" { // pages of the program's own text
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(f.Sel.Name, "Fprint") && !strings.HasPrefix(f.Sel.Name, "Print") {
				return true
			}
			if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "fmt" {
				return true
			}
			if buffer, ok := call.Args[0].(*ast.UnaryExpr); ok && buffer.Op == token.AND {
				return true // it is printed later
			}
			for _, arg := range call.Args[1:] {
				if _, constant := arg.(*ast.BasicLit); !constant {
					t.Errorf("%s: fmt.%s with arguments; use console.Fprintf", set.Position(call.Pos()), f.Sel.Name)
					break
				}
			}
			return true
		})
	}
}
