//go:build !(linux || dragonfly || openbsd || solaris || darwin || freebsd || netbsd)

package file

import "io/fs"

// inode adds nothing: a change is known by size and time alone, and every change is settled as if made in place.
func inode(*ident, fs.FileInfo) {}
