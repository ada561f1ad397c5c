module github.com/rulewire/rulewire/redis

go 1.26.0

replace github.com/rulewire/rulewire => ../

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/rulewire/rulewire v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
