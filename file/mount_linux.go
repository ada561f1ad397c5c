package file

import (
	"bytes"
	"os"
	"strings"
)

// mountPoint reports that something is mounted on path itself, as a subPath volume is. Such a mount shows the inode
// that it was made with: when the file is replaced on the other side, no event can exist and no look finds it.
func mountPoint(path string) bool {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(table) {
		// The fifth field is the mount point, with blanks and the like in octal.
		if f := bytes.Fields(line); len(f) > 4 && string(f[4]) == octal.Replace(path) {
			return true
		}
	}
	return false
}

var octal = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
