# `make help` lists the targets.
GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
# SQLite's engine, C that was translated to Go, is not instrumented: it is not ours, and would take most of the time. Only
# that one package, which shares no generic code with others: the linker keeps one copy of such code, instrumented or not.
RACE     = -race -gcflags='modernc.org/sqlite/lib=-race=false'
FILES    = $(shell git ls-files --cached --others --exclude-standard '*.go')

.PHONY: help build test lint ci bench chaos fuzz demo

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## compile everything; the program is bin/pawl
	$(GO) build -o bin/ ./cmd/...

test: ## run every test, with the race detector; needs nothing but Go (it installs a C compiler and PostgreSQL where none is)
	@scripts/need gcc gcc libc6-dev
	scripts/with-services $(GO) test $(RACE) -p 2 -timeout 15m ./...

lint: ## formatting, vet and staticcheck
	@unformatted="$$($(TOOL) gofumpt -l $(FILES))"; if [ -n "$$unformatted" ]; then echo "gofumpt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd bench && $(GO) vet ./... && $(GO) test ./...
	$(TOOL) staticcheck ./...

ci: lint test build ## what has to pass before a change lands

bench: ## measure beside a peer on a private PostgreSQL, 15 minutes; QUICK=1 2 minutes, JSON=FILE the figures, ONLY=REGEXP a part
	cd bench && $(GO) build -o ../bin/bench .
	@cd bench && exec ../bin/bench $(if $(QUICK),-quick) $(if $(JSON),-json '$(abspath $(JSON))') $(if $(ONLY),-only '$(ONLY)')

chaos: ## prove the promises by two minutes of faults; MINUTES=N, SEED=N, STORE=postgres|sqlite, JSON=FILE the figures
	@$(GO) build -o bin/chaos ./chaos
	@exec bin/chaos $(if $(MINUTES),-minutes '$(MINUTES)') $(if $(SEED),-seed '$(SEED)') $(if $(STORE),-store '$(STORE)') $(if $(JSON),-json '$(JSON)')

fuzz: ## fuzz everything that parses, half a minute each
	$(GO) test -run '^$$' -fuzz FuzzDecodeEnvelope -fuzztime 30s .
	$(GO) test -run '^$$' -fuzz FuzzRetryAfter -fuzztime 30s ./internal/reply
	$(GO) test -run '^$$' -fuzz FuzzResponse -fuzztime 30s -fuzzminimizetime 1s ./classify

demo: ## the life of a few hundred jobs, on this machine, in under a minute
	$(GO) run ./cmd/pawl demo
