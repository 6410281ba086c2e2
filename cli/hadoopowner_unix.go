//go:build unix

package cli

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// fileOwner returns the permissions, the owner and the group of a file. Where the storage
// keeps none, it returns common permissions, the user and HDFS's common group.
func fileOwner(e entry) (mode, owner, group string) {
	// HDFS has answered with the listing, so no call is needed.
	if s := e.Status; s != nil {
		mode := []byte(s.Mode.Perm().String()[1:] + " ")
		// As ls: t with the right to enter the directory, T without.
		if s.Mode&fs.ModeSticky != 0 {
			mode[8] = 'T'
			if s.Mode&1 != 0 {
				mode[8] = 't'
			}
		}
		return string(mode), s.Owner, s.Group
	}
	mode, owner, group = modeOf(e.Dir)+" ", defaultOwner(), "supergroup"
	// An object store has no owners. Scripts still expect the columns.
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
		// A file may belong to a number without a name.
		if u, err := user.LookupId(owner); err == nil {
			owner = u.Username
		}
		if g, err := user.LookupGroupId(group); err == nil {
			group = g.Name
		}
	}
	return mode, owner, group
}
