//go:build unix

package cli

import (
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/slotwise/slotwise/internal/storage"
)

// fileOwner returns the permissions, the owner and the group of a file. Storage that keeps
// none has the user's and common permissions.
func fileOwner(e entry) (mode, owner, group string) {
	mode, owner, group = modeOf(e.Dir)+" ", defaultOwner(), "supergroup"
	if _, local := e.fs.(storage.Local); !local {
		return mode, owner, group
	}
	info, err := os.Stat(e.location.path)
	if err != nil {
		return mode, owner, group
	}
	mode = info.Mode().Perm().String()[1:] + " "
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner, group = strconv.Itoa(int(st.Uid)), strconv.Itoa(int(st.Gid))
		if u, err := user.LookupId(owner); err == nil {
			owner = u.Username
		}
		if g, err := user.LookupGroupId(group); err == nil {
			group = g.Name
		}
	}
	return mode, owner, group
}
