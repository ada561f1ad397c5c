// Package link puts a TCP proxy between a client and a server, so that a test can break a real link: cut it, stall it
// in silence, slow it down, reset it, and heal it.
//
//	l, err := link.Listen("127.0.0.1:2379")
//	defer l.Close()
//	client := connect(l.Addr())
//	l.Stall(link.Down) // requests still arrive, answers no longer come, and no connection breaks
//	l.Heal()
//
// The address of a link never changes, so that a client keeps its configuration while the server behind it moves
// (SetTarget), as a container does when it is started again.
package link
