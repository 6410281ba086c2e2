package s3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// forgedRoot is the root of the staging into which the tests put objects that a job's code
// might put there.
const forgedRoot = "dir/.out.slotwise-shared-t"

// bystander returns a bucket with another user's output and upload, and the keys of all that
// the tests must find unchanged.
func bystander(t *testing.T) (*memory, pending) {
	t.Helper()
	m := newMemory()
	theirs := pending{Name: "part", Key: "ana/out/part", ID: "theirs"}
	var err error
	theirs.Upload, err = m.Begin(t.Context(), theirs.Key, theirs.ID)
	must(t, err)
	part, err := m.Part(t.Context(), theirs, 1, []byte("ana's"))
	must(t, err)
	theirs.Parts = parts{part}
	must(t, m.Complete(t.Context(), theirs))
	must(t, m.Put(t.Context(), "ana/out/_SUCCESS", nil))
	return m, theirs
}

// TestForgedRecords puts objects into a job's staging that no writer writes. The commit fails
// before it is decided, whichever object is forged and whatever it claims, the abort removes
// the staging, and no other object of the bucket changes.
func TestForgedRecords(t *testing.T) {
	_, theirs := bystander(t)
	record := func(f pending) string {
		b, err := json.Marshal(f)
		must(t, err)
		return string(b)
	}
	forged := func(name string) string { return record(pending{Name: name, ID: "id", Upload: theirs.Upload}) }
	many := fmt.Sprintf(`{"Name":"a","ID":"id","Parts":[%s{}]}`, strings.Repeat("{},", maxParts))
	for what, c := range map[string]struct{ key, content string }{
		"the name of another one":    {"a/id", forged("b")},
		"the id of another one":      {"a/other", forged("a")},
		"a name that leads away":     {"..%2F..%2Fana%2Fout%2Fpart/id", forged("../../ana/out/part")},
		"an absolute name":           {"%2Fana/id", forged("/ana")},
		"the name of the directory":  {"./id", forged(".")},
		"the end of the output":      {"_SUCCESS/id", forged("_SUCCESS")},
		"a claim":                    {publishingDir + "%2Fx/id", forged(publishingDir + "/x")},
		"no name":                    {"/id", forged("")},
		"an id that is a path":       {"a/i/d", record(pending{Name: "a", ID: "i/d"})},
		"a long id":                  {"a/" + strings.Repeat("i", 200), record(pending{Name: "a", ID: strings.Repeat("i", 200)})},
		"too many parts":             {"a/id", many},
		"parts without numbers":      {"a/id", `{"Name":"a","ID":"id","Parts":[{},{}]}`},
		"no JSON":                    {"a/id", "\x00"},
		"JSON of another kind":       {"a/id", `[1,2]`},
		"more than a record can be":  {"a/id", forged("a") + strings.Repeat(" ", maxRecord)},
		"no object of its own place": {"a", forged("a")},
	} {
		m, _ := bystander(t)
		before := maps.Clone(m.mu.objects)
		s, err := memoryFS{m}.StageShared(t.Context(), "dir/out", "t", storage.ReplaceNothing)
		must(t, err)
		must(t, publishPart(t, s, "x").Commit())
		must(t, m.Put(t.Context(), forgedRoot+filesDir+c.key, []byte(c.content)))
		if err := s.Commit(t.Context()); !errors.Is(err, errNoRecord) && !errors.Is(err, errTooLarge) {
			t.Errorf("%s: the commit ends with %v", what, err)
		}
		if _, decided := m.mu.objects[forgedRoot+commitFile]; decided {
			t.Errorf("%s: the commit was decided before it failed", what)
		}
		again, err := memoryFS{m}.Reopen(t.Context(), "dir/out", "t")
		must(t, errors.Join(err, again.Abort(t.Context())))
		if after := m.mu.objects; !maps.EqualFunc(before, after, func(a, b stored) bool { return a.id == b.id && bytes.Equal(a.content, b.content) }) {
			t.Errorf("%s: the bucket has %q instead of %q", what, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
	}
}

// TestForgedKey forges two records whose Key is another user's object. One record cannot be
// completed, so the commit is undone and removes the objects that it has
// made. The keys in a record are not read.
func TestForgedKey(t *testing.T) {
	m, theirs := bystander(t)
	s, err := memoryFS{m}.StageShared(t.Context(), "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	for name, upload := range map[string]string{"a": theirs.Upload, "b": "gone"} {
		content := fmt.Sprintf(`{"Name":%q,"Key":"ana/out/part","Upload":%q,"ID":"theirs"}`, name, upload)
		must(t, m.Put(t.Context(), forgedRoot+filesDir+name+"/theirs", []byte(content)))
	}
	if err := s.Commit(t.Context()); err == nil {
		t.Error("the commit succeeds")
	}
	again, err := memoryFS{m}.Reopen(t.Context(), "dir/out", "t")
	must(t, errors.Join(err, again.Abort(t.Context())))
	if got := string(m.mu.objects["ana/out/part"].content); got != "ana's" {
		t.Errorf("the other user's object has %q", got)
	}
	if left := slices.Sorted(maps.Keys(m.mu.objects)); len(left) != 2 {
		t.Errorf("the bucket has %q", left)
	}
}

// TestForgedManifest replaces the list of files after the commit has been decided, and before
// it is carried out. The commit fails, and the old output is restored.
func TestForgedManifest(t *testing.T) {
	for _, content := range []string{"\x00", `[{"Name":"../../ana/out/part","ID":"theirs"}]`, `[{"Name":"_SUCCESS","ID":"x"}]`,
		`[{"Name":"part","ID":"x","Parts":[{"PartNumber":1}]}]`, strings.Repeat(" ", maxManifest+1)} {
		m, _ := bystander(t)
		must(t, m.Put(t.Context(), "dir/out/"+storage.SuccessFile, nil))
		must(t, m.Put(t.Context(), "dir/out/old", []byte("old")))
		s, err := memoryFS{m}.StageShared(t.Context(), "dir/out", "t", storage.ReplaceAll)
		must(t, err)
		must(t, publishPart(t, s, "x").Commit())
		m.Inject(faultfs.Rule{Op: faultfs.Read, Path: commitFile, Nth: 1, Call: func() {
			m.mu.objects[forgedRoot+commitFile] = stored{content: []byte(content), modified: m.now()}
		}})
		if err := s.Commit(t.Context()); !errors.Is(err, errNoRecord) && !errors.Is(err, errTooLarge) {
			t.Errorf("%.50q: the commit ends with %v", content, err)
		}
		for _, key := range []string{"ana/out/part", "ana/out/_SUCCESS", "dir/out/old", "dir/out/_SUCCESS"} {
			if _, found := m.mu.objects[key]; !found {
				t.Errorf("%.50q: %s is gone", content, key)
			}
		}
	}
}

// TestHalfMade kills the server while a file replaces one of its name: the old bytes have the
// new file's id afterwards, as on versitygw. The commit, continued by another process, must
// not take them for the new file.
func TestHalfMade(t *testing.T) {
	ctx := t.Context()
	m := newMemory()
	must(t, m.Put(ctx, "dir/out/"+storage.SuccessFile, nil))
	must(t, m.Put(ctx, "dir/out/part", []byte("old")))
	s, err := memoryFS{m}.StageShared(ctx, "dir/out", "t", storage.ReplaceAll)
	must(t, err)
	must(t, publishPart(t, s, "new").Commit())
	m.half = "dir/out/part"
	if err := s.Commit(ctx); err == nil || m.half != "" {
		t.Fatalf("the server was not killed: %v", err)
	}
	again, err := memoryFS{m}.Reopen(ctx, "dir/out", "t")
	must(t, err)
	if err := again.Commit(ctx); err == nil {
		t.Errorf("published %q", m.mu.objects["dir/out/part"].content)
	}
	must(t, again.Abort(ctx))
	if _, whole := m.mu.objects["dir/out/"+storage.SuccessFile]; !whole || string(m.mu.objects["dir/out/part"].content) != "old" {
		t.Errorf("the old output is not back: %q", slices.Sorted(maps.Keys(m.mu.objects)))
	}
}
