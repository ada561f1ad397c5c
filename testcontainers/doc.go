// Package testcontainers runs the real servers of Rulewire's backends in containers, for Rulewire's own suites and for
// yours. The helpers themselves are one package per store:
//
//	etcdtest    a single etcd
//	redistest   one Redis, a master with replicas and Sentinels, or a cluster
//	consultest  a single Consul server
//	nacostest   a single Nacos server
//
// This package has what they share: a Node is one server process in its container behind a link (package link), which
// can be stopped, killed, paused and started again without a change of the address that the client sees.
//
// # Images
//
// The official image of a store is used unless RULEWIRE_ETCD_IMAGE, RULEWIRE_REDIS_IMAGE, RULEWIRE_CONSUL_IMAGE or
// RULEWIRE_NACOS_IMAGE names another. Where no image registry is reachable, "make images" in Rulewire's repository builds local images of the same
// servers from packages; they are used where the official ones are absent.
//
// A server that is already up is used instead if RULEWIRE_ETCD_ADDR, RULEWIRE_REDIS_ADDR, RULEWIRE_CONSUL_ADDR or
// RULEWIRE_NACOS_ADDR gives its address. What needs its process (stop, kill, pause, an empty start) then returns [errors.ErrUnsupported].
//
// # Without Docker
//
// A test that needs a container is skipped where no Docker engine answers. With RULEWIRE_REQUIRE_CONTAINERS=1 it fails
// instead, so that a CI run can't pass by testing nothing.
package testcontainers
