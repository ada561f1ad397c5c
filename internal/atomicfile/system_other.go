//go:build !unix

package atomicfile

import "io/fs"

// keepOwner does nothing: the new file inherits its access list from the directory.
func keepOwner(temp, fs.FileInfo) error { return nil }

// syncDir does nothing: a directory can't be forced to the disk here.
func syncDir(string) error { return nil }
