module github.com/rulewire/rulewire/sentinel

go 1.26

require (
	github.com/alibaba/sentinel-golang v1.0.4
	github.com/rulewire/rulewire v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/rulewire/rulewire => ../
