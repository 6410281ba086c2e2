package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

// memory is a bucket in memory. Its requests fail as its Faults say. Each request is one
// step.
type memory struct {
	faultfs.Faults
	now func() time.Time
	// tree makes the bucket refuse an object below another one, and one with objects below
	// it, as MinIO does.
	tree bool
	// unmade is the key of an upload that Complete confirms and does not make, as versitygw
	// does if it was killed in the middle. After unmadeLooks calls of MadeBy the object
	// appears, if that is not zero.
	unmade      string
	unmadeParts []minio.CompletePart
	unmadeLooks int
	// half is the key of an upload in whose completion the server is killed: an object that is
	// there keeps its bytes and gets the upload's id, and the upload is gone.
	half string
	mu   struct {
		sync.Mutex
		objects map[string]stored
		uploads map[string]*multipart // by the upload's name
		serial  int                   // makes names of uploads
	}
}

type stored struct {
	content  []byte
	id       string
	modified time.Time
}

type multipart struct {
	key, id string
	parts   map[int][]byte
}

var _ server = (*memory)(nil)

func newMemory() *memory {
	m := &memory{now: time.Now}
	m.mu.objects, m.mu.uploads = map[string]stored{}, map[string]*multipart{}
	return m
}

// restart returns a copy of the bucket, as the next process finds it after age.
func (m *memory) restart(age time.Duration) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, now := newMemory(), m.now
	next.now, next.tree = func() time.Time { return now().Add(age) }, m.tree
	next.mu.objects, next.mu.serial = maps.Clone(m.mu.objects), m.mu.serial
	for name, u := range m.mu.uploads {
		next.mu.uploads[name] = &multipart{u.key, u.id, maps.Clone(u.parts)}
	}
	return next
}

// read and change run one request.
func (m *memory) read(ctx context.Context, op faultfs.Op, key string, do func() error) error {
	if err := cmp.Or(ctx.Err(), m.Reading(op, key)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return do()
}

func (m *memory) change(ctx context.Context, op faultfs.Op, key string, do func() error) error {
	if err := cmp.Or(ctx.Err(), m.Changing(op, key)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.serial++
	return do()
}

func (m *memory) Get(ctx context.Context, key string, most int64) (content []byte, err error) {
	err = m.read(ctx, faultfs.Read, key, func() error {
		o, found := m.mu.objects[key]
		if !found {
			return fs.ErrNotExist
		}
		if int64(len(o.content)) > most {
			return errTooLarge
		}
		content = slices.Clone(o.content)
		return nil
	})
	return content, err
}

func (m *memory) putLocked(key string, content []byte, id string) error {
	for other := range m.mu.objects {
		if m.tree && (strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/")) {
			return fmt.Errorf("%s cannot exist beside %s", key, other)
		}
	}
	m.mu.objects[key] = stored{slices.Clone(content), id, m.now()}
	return nil
}

func (m *memory) Put(ctx context.Context, key string, content []byte) error {
	return m.change(ctx, faultfs.Put, key, func() error {
		return m.putLocked(key, content, "")
	})
}

func (m *memory) Each(ctx context.Context, prefix string, fn func(object) bool) error {
	var list []object
	err := m.read(ctx, faultfs.List, prefix, func() error {
		for key, o := range m.mu.objects {
			if strings.HasPrefix(key, prefix) {
				list = append(list, object{key, o.modified})
			}
		}
		slices.SortFunc(list, func(a, b object) int { return cmp.Compare(a.Key, b.Key) })
		return nil
	})
	for _, o := range list {
		if !fn(o) {
			break
		}
	}
	return err
}

func (m *memory) Delete(ctx context.Context, key string) error {
	return m.change(ctx, faultfs.Remove, key, func() error {
		delete(m.mu.objects, key)
		return nil
	})
}

func (m *memory) Copy(ctx context.Context, from, to string) error {
	return m.change(ctx, faultfs.Copy, to, func() error {
		o, found := m.mu.objects[from]
		if !found {
			return fs.ErrNotExist
		}
		return m.putLocked(to, o.content, o.id)
	})
}

func (m *memory) Begin(ctx context.Context, key, id string) (upload string, err error) {
	err = m.change(ctx, faultfs.Create, key, func() error {
		upload = fmt.Sprint("upload", m.mu.serial)
		m.mu.uploads[upload] = &multipart{key, id, map[int][]byte{}}
		return nil
	})
	return upload, err
}

func (m *memory) Part(ctx context.Context, p pending, number int, data []byte) (part minio.CompletePart, err error) {
	err = m.change(ctx, faultfs.Write, p.Key, func() error {
		u := m.mu.uploads[p.Upload]
		if u == nil {
			return errNoUpload
		}
		u.parts[number] = slices.Clone(data)
		part = minio.CompletePart{PartNumber: number, ETag: fmt.Sprint("part", m.mu.serial)}
		return nil
	})
	return part, err
}

func (m *memory) Complete(ctx context.Context, p pending) error {
	return m.change(ctx, faultfs.Commit, p.Key, func() error {
		u := m.mu.uploads[p.Upload]
		if u == nil {
			return errNoUpload
		}
		if p.Key == m.unmade {
			m.unmadeParts = p.Parts
			return nil
		}
		if p.Key == m.half {
			m.half = ""
			delete(m.mu.uploads, p.Upload)
			if o, found := m.mu.objects[p.Key]; found {
				o.id = u.id
				m.mu.objects[p.Key] = o
			}
			return storage.Unavailable(errors.New("killed"))
		}
		return m.makeLocked(p.Upload, p.Parts)
	})
}

// makeLocked makes the object of some parts of an upload.
func (m *memory) makeLocked(upload string, parts []minio.CompletePart) error {
	u := m.mu.uploads[upload]
	var content []byte
	for _, part := range parts {
		content = append(content, u.parts[part.PartNumber]...)
	}
	if err := m.putLocked(u.key, content, u.id); err != nil {
		return err
	}
	delete(m.mu.uploads, upload)
	return nil
}

func (m *memory) Abort(ctx context.Context, p pending) error {
	return m.change(ctx, faultfs.Discard, p.Key, func() error {
		delete(m.mu.uploads, p.Upload)
		return nil
	})
}

func (m *memory) MadeBy(ctx context.Context, key string) (id string, err error) {
	err = m.read(ctx, faultfs.Stat, key, func() error {
		if key == m.unmade && m.unmadeLooks > 0 {
			if m.unmadeLooks--; m.unmadeLooks == 0 {
				for upload, u := range m.mu.uploads {
					if u.key == key {
						return m.makeLocked(upload, m.unmadeParts)
					}
				}
			}
		}
		o, found := m.mu.objects[key]
		if !found {
			return fs.ErrNotExist
		}
		id = o.id
		return nil
	})
	return id, err
}

// memoryFS is a storage.FS on a bucket in memory. Reading follows the rules of
// FS.List; staging is the package's own.
type memoryFS struct{ m *memory }

func (f memoryFS) stager() *storage.Stager { return impatient(newStager(f.m, "bucket", 32, f.m.now)) }

// impatient makes a stager not wait between its tries.
func impatient(x *storage.Stager) *storage.Stager {
	x.Publisher.(*publisher).pause = 1
	return x
}

func (f memoryFS) Stage(ctx context.Context, dir string, replace storage.Replace) (storage.Staging, error) {
	return f.stager().Stage(ctx, dir, replace)
}

func (f memoryFS) StageShared(ctx context.Context, dir, token string, replace storage.Replace) (storage.Staging, error) {
	return f.stager().StageShared(ctx, dir, token, replace)
}

func (f memoryFS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	return f.stager().Reopen(ctx, dir, token)
}

func (f memoryFS) Remove(ctx context.Context, p string) error { return stageOps{f.m}.Remove(ctx, p) }

func (f memoryFS) Stat(ctx context.Context, p string) (storage.Info, error) {
	infos, err := f.List(ctx, path.Dir(p))
	for _, info := range infos {
		if info.Path == path.Clean(p) {
			return info, nil
		}
	}
	return storage.Info{}, failed("stat", p, cmp.Or(err, fs.ErrNotExist))
}

func (f memoryFS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	byPath := map[string]storage.Info{}
	publishing, complete := false, false
	err := f.m.Each(ctx, dir+"/", func(o object) bool {
		name, _, below := strings.Cut(strings.TrimPrefix(o.Key, dir+"/"), "/")
		publishing = publishing || name == publishingDir
		complete = complete || name == storage.SuccessFile
		if p := dir + "/" + name; name != publishingDir {
			byPath[p] = storage.Info{Path: p, Dir: below}
			if !below {
				content := f.m.mu.objects[o.Key].content
				byPath[p] = storage.Info{Path: p, Size: int64(len(content)), ModTime: o.Modified}
			}
		}
		return true
	})
	switch {
	case err != nil:
	case publishing && !complete:
		err = ErrPublishing
	case len(byPath) == 0 && !publishing:
		err = fs.ErrNotExist
		if _, merr := f.m.MadeBy(ctx, dir); merr == nil {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		return nil, failed("list", dir, err)
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b storage.Info) int { return cmp.Compare(a.Path, b.Path) }), nil
}

func (f memoryFS) Open(ctx context.Context, p string) (storage.File, error) {
	content, err := f.m.Get(ctx, path.Clean(p), math.MaxInt64)
	if err != nil {
		return nil, failed("open", p, err)
	}
	return memoryFile{bytes.NewReader(content), ctx}, nil
}

type memoryFile struct {
	*bytes.Reader
	ctx context.Context
}

func (f memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.Reader.ReadAt(p, off)
}

func (memoryFile) Close() error { return nil }

// left returns the uploads and the objects outside of the outputs, all named out.
func (m *memory) left() (left []string) {
	for _, key := range slices.Sorted(maps.Keys(m.mu.objects)) {
		if !strings.Contains(key, "/out/") || strings.Contains(key, publishingDir) {
			left = append(left, key)
		}
	}
	for name, u := range m.mu.uploads {
		left = append(left, u.key+" ("+name+")")
	}
	return left
}

// TestMemoryConforms holds staging on a bucket in memory to the contract.
func TestMemoryConforms(t *testing.T) {
	m := newMemory()
	storagetest.Run(t, storagetest.Target{
		New: func() storage.FS { return memoryFS{m} }, Dir: "dir",
		Leftovers: func(*testing.T) []string { return m.left() },
	})
}

// TestMemoryCrashes kills staged output on S3 after every request.
func TestMemoryCrashes(t *testing.T) {
	storagetest.RunCrashes(t, storagetest.CrashTarget{
		New:           func() storagetest.Machine { return machine(newMemory()) },
		ErrPublishing: ErrPublishing,
	})
}

// TestMemoryErrors makes each request of a job fail once.
func TestMemoryErrors(t *testing.T) {
	storagetest.RunErrors(t, storagetest.CrashTarget{
		New:           func() storagetest.Machine { return machine(newMemory()) },
		ErrPublishing: ErrPublishing,
	})
}

// TestMemoryRandom lets jobs replace one output in random order, with random kills.
func TestMemoryRandom(t *testing.T) {
	t.Parallel()
	storagetest.RunRandom(t, storagetest.CrashTarget{
		New:           func() storagetest.Machine { return machine(newMemory()) },
		ErrPublishing: ErrPublishing,
	}, 300)
}

func machine(m *memory) storagetest.Machine {
	return storagetest.Machine{
		FS: memoryFS{m}, Dir: "dir", Faults: &m.Faults,
		Left: func() []string {
			// A process killed between beginning an upload and recording it leaves an
			// upload without parts, which nothing can find (docs/storage.md).
			maps.DeleteFunc(m.mu.uploads, func(_ string, u *multipart) bool { return len(u.parts) == 0 })
			return m.left()
		},
		Restart: func(age time.Duration) storagetest.Machine { return machine(m.restart(age)) },
	}
}

// TestUploadsLost loses an upload outside of the protocol: a lifecycle rule of the bucket
// aborts it, or the server confirms it and does not make the object. The commit fails, and
// the abort restores the old output, although the commit had begun to replace it.
func TestUploadsLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(m *memory)
		want error
	}{
		"aborted": {
			func(m *memory) {
				maps.DeleteFunc(m.mu.uploads, func(_ string, u *multipart) bool { return u.key == "dir/out/b" })
			}, errUploadLost,
		},
		"not made": {func(m *memory) { m.unmade = "dir/out/b" }, errNotMade},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m, f, s := replacing(t)
			c.lose(m)
			for range 2 {
				if err := s.Commit(ctx); !errors.Is(err, c.want) {
					t.Fatalf("commit: %v", err)
				}
				if _, err := f.List(ctx, "dir/out"); !errors.Is(err, ErrPublishing) {
					t.Fatalf("a reader during the commit: %v", err)
				}
			}
			must(t, s.Abort(ctx))
			infos, err := f.List(ctx, "dir/out")
			if err != nil || len(infos) != 3 {
				t.Errorf("after the abort: %v, %v", infos, err)
			}
			for _, name := range []string{"a", "b"} {
				if got := string(m.mu.objects["dir/out/"+name].content); got != "old" {
					t.Errorf("%s is %q after the abort", name, got)
				}
			}
			if left := m.left(); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestMadeLate commits on a server that confirms an upload some time before its object
// appears: the commit waits for the object.
func TestMadeLate(t *testing.T) {
	t.Parallel()
	m, _, s := replacing(t)
	m.unmade, m.unmadeLooks = "dir/out/b", 3
	must(t, s.Commit(t.Context()))
	for _, name := range []string{"a", "b"} {
		if got := string(m.mu.objects["dir/out/"+name].content); got != "new" {
			t.Errorf("%s is %q after the commit", name, got)
		}
	}
	if left := m.left(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// replacing returns a bucket with an output of two files, a and b, and a staging that
// holds new ones and may replace them.
func replacing(t *testing.T) (*memory, memoryFS, storage.Staging) {
	t.Helper()
	ctx := t.Context()
	m := newMemory()
	f := memoryFS{m}
	put := func(s storage.Staging, content string) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			w, err := s.Create(ctx, name)
			must(t, err)
			_, err = w.Write([]byte(content))
			must(t, err)
			must(t, w.Commit())
		}
	}
	old, err := f.Stage(ctx, "dir/out", storage.ReplaceNothing)
	must(t, err)
	put(old, "old")
	must(t, old.Commit(ctx))
	s, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceAll)
	must(t, err)
	put(s, "new")
	return m, f, s
}

// publishPart begins a part as an attempt does, and returns its writer.
func publishPart(t *testing.T, s storage.Staging, content string) storage.Writer {
	t.Helper()
	w, err := s.Create(t.Context(), "part")
	must(t, err)
	_, err = w.Write([]byte(content))
	must(t, err)
	return w
}

// TestDelayedWriter delays an attempt that was granted its commit, right before it
// announces the commit. Meanwhile its successor commits the same file. The delayed attempt
// fails, and the successor's file is published.
func TestDelayedWriter(t *testing.T) {
	m := newMemory()
	f := memoryFS{m}
	ctx := t.Context()
	a, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	b, err := f.Reopen(ctx, "dir/out", "t")
	must(t, err)
	delayed := publishPart(t, a, "delayed")
	m.Inject(faultfs.Rule{Op: faultfs.Put, Path: announcedDir, Nth: 1, Call: func() {
		must(t, publishPart(t, b, "successor").Commit())
	}})
	err = delayed.Commit()
	if !errors.Is(err, errFenced) || !errors.Is(err, storage.ErrUnavailable) || m.Fired() == 0 {
		t.Errorf("the delayed writer's commit: %v", err)
	}
	must(t, b.Commit(ctx))
	if got := string(m.mu.objects["dir/out/part"].content); got != "successor" {
		t.Errorf("the file is %q", got)
	}
	if left := m.left(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestStalledAttempt stops an attempt that was granted the commit after its record, lets
// the successor commit and the job publish, and continues it. It removes its own objects
// and nothing of its successor's.
func TestStalledAttempt(t *testing.T) {
	m := newMemory()
	f := memoryFS{m}
	ctx := t.Context()
	a, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	b, err := f.Reopen(ctx, "dir/out", "t")
	must(t, err)
	stalled := publishPart(t, a, "stalled")
	m.Inject(faultfs.Rule{Op: faultfs.Put, Path: filesDir, Nth: 1, Call: func() {
		must(t, publishPart(t, b, "successor").Commit())
		must(t, b.Commit(ctx))
	}})
	if err := stalled.Commit(); !errors.Is(err, errEnded) || m.Fired() == 0 {
		t.Errorf("the stalled attempt: %v", err)
	}
	if got := string(m.mu.objects["dir/out/part"].content); got != "successor" {
		t.Errorf("published %q", got)
	}
	if _, done := m.mu.objects["dir/out/_SUCCESS"]; !done {
		t.Error("there is no _SUCCESS")
	}
	if left := m.left(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestLateTouch: a process that reopens a staging while another one ends it leaves nothing
// behind.
func TestLateTouch(t *testing.T) {
	m := newMemory()
	f := memoryFS{m}
	ctx := t.Context()
	s, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	m.Inject(faultfs.Rule{Op: faultfs.Put, Path: touchedFile, Nth: 1, Call: func() { must(t, s.Commit(ctx)) }})
	_, err = f.Reopen(ctx, "dir/out", "t")
	must(t, err)
	if left := m.left(); len(left) > 0 || m.Fired() == 0 {
		t.Errorf("left %q", left)
	}
}

// TestClaims: of two commits of one output, the one that is delayed right after it has put
// its claim finds the other one's claim, whichever of the two comes first in the alphabet.
func TestClaims(t *testing.T) {
	ctx := t.Context()
	for _, tokens := range [][2]string{{"a", "b"}, {"b", "a"}} {
		m := newMemory()
		f := memoryFS{m}
		var jobs [2]storage.Staging
		for i, token := range tokens {
			s, err := f.StageShared(ctx, "dir/out", token, storage.ReplaceAll)
			must(t, err)
			must(t, publishPart(t, s, token).Commit())
			jobs[i] = s
		}
		// The second job begins when the first one has put its claim and not yet listed the
		// claims.
		var second error
		m.Inject(faultfs.Rule{Op: faultfs.List, Path: "dir/out/" + publishingDir, Nth: 1, Call: func() {
			second = jobs[1].Commit(ctx)
		}})
		first := jobs[0].Commit(ctx)
		if !errors.Is(second, errBusy) || first != nil || m.Fired() == 0 {
			t.Errorf("%v: the commits return %v and %v", tokens, first, second)
		}
		must(t, jobs[1].Abort(ctx))
		if got := string(m.mu.objects["dir/out/part"].content); got != tokens[0] {
			t.Errorf("%v: published %q", tokens, got)
		}
		if left := m.left(); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
}

// TestTree: on a server that has no object a/b beside an object a, an output replaces one in
// which a file has the name of a directory of the other. A commit that is undone brings the
// old output back.
func TestTree(t *testing.T) {
	ctx := t.Context()
	for name, old := range map[string][]string{"a file becomes a directory": {"a"}, "a directory becomes a file": {"a/b/c", "a/b/d"}} {
		for _, undone := range []bool{false, true} {
			m := newMemory()
			m.tree = true
			f := memoryFS{m}
			must(t, m.Put(ctx, "dir/out/"+storage.SuccessFile, nil))
			for _, key := range old {
				must(t, m.Put(ctx, "dir/out/"+key, []byte("dir/.gone")))
			}
			s, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceAll)
			must(t, err)
			w, err := s.Create(ctx, "a/b")
			must(t, err)
			_, err = w.Write([]byte("x"))
			must(t, errors.Join(err, w.Commit()))
			want := []string{"dir/out/_SUCCESS", "dir/out/a/b"}
			if undone {
				m.Inject(faultfs.Rule{Op: faultfs.Put, Path: "dir/out/" + storage.SuccessFile, Nth: 1, Err: errors.New("no")})
				if err := s.Commit(ctx); err == nil || m.Fired() != 1 {
					t.Fatalf("%s: %v", name, err)
				}
				again, err := f.Reopen(ctx, "dir/out", "t")
				must(t, errors.Join(err, again.Abort(ctx)))
				want = []string{"dir/out/_SUCCESS"}
				for _, key := range old {
					want = append(want, "dir/out/"+key)
				}
			} else if err := s.Commit(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := slices.Sorted(maps.Keys(m.mu.objects)); !slices.Equal(got, want) {
				t.Errorf("%s, undone: %v: the bucket has %q, want %q", name, undone, got, want)
			}
		}
	}
}

// TestUnremovedRoot: the root of a published staging could not be removed. Reopening the
// staging removes it, and an error while it is reopened does not look like a staging that
// never was.
func TestUnremovedRoot(t *testing.T) {
	m := newMemory()
	f := memoryFS{m}
	ctx := t.Context()
	s, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	must(t, publishPart(t, s, "x").Commit())
	m.Inject(faultfs.Rule{Op: faultfs.Remove, Path: filesDir})
	must(t, s.Commit(ctx))
	if left := m.left(); len(left) == 0 {
		t.Fatal("nothing is left")
	}
	m.Reset()
	failure := errors.New("no")
	m.Inject(faultfs.Rule{Op: faultfs.Read, Path: storage.SuccessFile, Nth: 1, Err: failure})
	if _, err := f.Reopen(ctx, "dir/out", "t"); !errors.Is(err, failure) {
		t.Errorf("reopening while the output cannot be read: %v", err)
	}
	_, err = f.Reopen(ctx, "dir/out", "t")
	must(t, err)
	if left := m.left(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestUsedToken: objects of an ended staging of the same token do not become part of a new
// one, and sweeping fails if it cannot find out whether a staging is in use.
func TestUsedToken(t *testing.T) {
	m := newMemory()
	f := memoryFS{m}
	ctx := t.Context()
	must(t, putJSON(ctx, m, "dir/.out.slotwise-shared-t"+filesDir+"gone/id", pending{Name: "gone", ID: "id"}))
	s, err := f.StageShared(ctx, "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	failure := errors.New("no")
	m.Inject(faultfs.Rule{Op: faultfs.List, Path: "slotwise-shared-t/", Nth: 2, Err: failure}) // the first one looks for the owner
	if _, err := f.Stage(ctx, "dir/out", storage.ReplaceNothing); !errors.Is(err, failure) {
		t.Errorf("sweeping: %v", err)
	}
	m.Reset()
	must(t, publishPart(t, s, "x").Commit())
	must(t, s.Commit(ctx))
	if left := m.left(); len(left) > 0 || len(m.mu.objects) != 2 {
		t.Errorf("left %q, %d objects", left, len(m.mu.objects))
	}
}
