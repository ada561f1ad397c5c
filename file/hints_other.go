//go:build !unix

package file

func limits(err error) string { return err.Error() }

func mounted(err error) error { return err }
