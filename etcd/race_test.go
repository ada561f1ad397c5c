//go:build race

package etcd

func init() { raceDetector = true }
