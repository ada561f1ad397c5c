//go:build darwin || freebsd || netbsd

package file

import (
	"io/fs"
	"syscall"
)

// inode adds what only a Unix tells of a file.
func inode(id *ident, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = uint64(st.Dev), uint64(st.Ino)
		id.changed = st.Ctimespec.Nano()
	}
}
