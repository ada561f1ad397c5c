// Package interop has no code of its own: its tests run Sentinel's own Java data sources beside Rulewire and compare what
// both sides make of one document, rule by rule, in both directions.
//
// The Java side is the Maven project in the folder java: the artifacts of com.alibaba.csp as they are published, and a
// program that answers one question a line. The tests need a JDK (8 or later) and Maven and are skipped, with one line,
// where there is none; with RULEWIRE_REQUIRE_JAVA=1 they fail instead. Those of Redis and etcd need containers as well.
//
//	go test ./interop/...
package interop
