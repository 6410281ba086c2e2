package storage

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestFence ends the permission of a process at each step of a commit. The process changes the target no
// more, and another one can then complete the commit or take it back.
func TestFence(t *testing.T) {
	lost := errors.New("another master leads")
	for _, replace := range []Replace{ReplaceNothing, ReplaceOutput} {
		for _, commit := range []bool{true, false} {
			steps := 0
			for allowed := 0; ; allowed++ {
				dir := t.TempDir()
				out, token := filepath.Join(dir, "out"), NewToken()
				before := map[string]string{}
				if replace == ReplaceOutput {
					old := stageShared(t, out, NewToken(), ReplaceNothing)
					put(t, old, "part-r-00000", "old")
					must(t, old.Commit(ctx))
					before["out/part-r-00000"], before["out/_SUCCESS"] = "old", old.area.Token+"\n"
				}
				s := stageShared(t, out, token, replace)
				put(t, s, "part-r-00000", "new")
				asked := 0
				err := s.Commit(WithFence(ctx, func() error {
					if asked++; asked > allowed {
						return lost
					}
					return nil
				}))
				if err == nil {
					steps = allowed
					break
				}
				if !errors.Is(err, lost) || asked != allowed+1 {
					t.Fatalf("after %d steps: %v, asked %d times", allowed, err, asked)
				}
				other := reopen(t, out, token)
				want := before
				if commit {
					must(t, other.Commit(ctx))
					want = map[string]string{"out/part-r-00000": "new", "out/_SUCCESS": token + "\n"}
				} else {
					must(t, other.Abort(ctx))
				}
				wantTree(t, dir, want)
			}
			if steps < 3 {
				t.Errorf("a commit asks %d times", steps)
			}
		}
	}
	// Without permission nothing begins and nothing is taken back.
	dir := t.TempDir()
	fenced := WithFence(ctx, func() error { return lost })
	if _, err := (Local{}).StageShared(fenced, filepath.Join(dir, "out"), NewToken(), ReplaceNothing); !errors.Is(err, lost) {
		t.Errorf("stage: %v", err)
	}
	wantTree(t, dir, map[string]string{})
	s := stageShared(t, filepath.Join(dir, "out"), NewToken(), ReplaceNothing)
	put(t, s, "part-r-00000", "new")
	if err := reopen(t, filepath.Join(dir, "out"), s.area.Token).Abort(fenced); !errors.Is(err, lost) {
		t.Errorf("abort: %v", err)
	}
	must(t, s.Commit(ctx))
}
