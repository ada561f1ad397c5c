//go:build race

package redis

func init() { raceDetector = true }
