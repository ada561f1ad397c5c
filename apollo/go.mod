module github.com/rulewire/rulewire/apollo

go 1.26.7

replace github.com/rulewire/rulewire => ../

require (
	github.com/apolloconfig/agollo/v4 v4.4.0
	github.com/go-json-experiment/json v1.27.2
	github.com/rulewire/rulewire v0.0.0
	go.uber.org/goleak v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
