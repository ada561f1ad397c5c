// Package condition tells whether two errors say the same, so that a log has one record for each change.
package condition

import "regexp"

// localEnd is the own end of a connection in the text of an error: its port is another one with each attempt.
var localEnd = regexp.MustCompile(`\S+:\d+->`)

// Of is the text of an error without what differs between two attempts that fail in the same way.
func Of(err error) string { return localEnd.ReplaceAllString(err.Error(), "") }
