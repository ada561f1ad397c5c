# Each target is one Go program or one small script; what they do is told in CONTRIBUTING.md.
.PHONY: help setup test check run bench bench-backends fuzz images docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## download what building and testing needs
	go list -deps -test work >/dev/null
	go tool staticcheck -version

test: ## everything that CI checks: format, lint, tidiness, tests with -race, fuzz smoke
	go run ./tools/check

check: ## the quick part of it: no tests
	go run ./tools/check format deps docs faults vet lint tidy

run: ## an example service on rule files (RULES=dir ADDR=127.0.0.1:0 COMMAND=127.0.0.1:8719 DASHBOARD=127.0.0.1:8080)
	@go build -o bin/service ./examples/service
	@exec ./bin/service $(if $(RULES),-rules '$(RULES)') $(if $(ADDR),-addr '$(ADDR)') $(if $(COMMAND),-command '$(COMMAND)') $(if $(DASHBOARD),-dashboard '$(DASHBOARD)')

bench: ## one table: work, ours, theirs, ratio, budget, met or not
	go run ./bench

bench-backends: ## write → listener on the real servers, beside RULEWIRE_BENCH_PEER (STORE=regexp; KEYS=1000: what so many keys take)
	go run ./bench/backends $(if $(STORE),-store '$(STORE)') $(if $(KEYS),-keys $(KEYS))

fuzz: ## every fuzz target for a while (TARGET=regexp TIME=10m)
	go run ./tools/fuzz $(if $(TARGET),-target '$(TARGET)') $(if $(TIME),-time '$(TIME)')

images: ## local images of etcd, Redis, Nacos and Consul, built from packages (where no image registry answers)
	go run ./tools/check images

docs: ## write the generated pages again
	go run ./tools/faults
