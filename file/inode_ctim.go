//go:build linux || dragonfly || openbsd || solaris

package file

import (
	"io/fs"
	"syscall"
)

// inode adds what only a Unix tells of a file.
func inode(id *ident, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = uint64(st.Dev), st.Ino
		id.changed = st.Ctim.Nano()
	}
}
