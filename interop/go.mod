module github.com/rulewire/rulewire/interop

go 1.26

require (
	github.com/rulewire/rulewire v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.13.0 // indirect
)

replace github.com/rulewire/rulewire => ../
