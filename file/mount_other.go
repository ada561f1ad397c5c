//go:build !linux

package file

func mountPoint(string) bool { return false }
