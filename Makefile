# Everything Ferment needs to be built, run and checked. `make run` and
# `make test` work on a machine that has Go, make and git, and nothing else.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
ROUNDS  ?= 50
LDFLAGS := -s -w -X main.version=$(VERSION)

# Programs and tests are the same with and without a C compiler. With -trimpath
# everywhere nothing is compiled twice; without symbols (-s) each of the test
# programs links in half the time.
export CGO_ENABLED ?= 0
export GOFLAGS := $(filter-out -trimpath -ldflags=-s,$(GOFLAGS)) -trimpath -ldflags=-s

.PHONY: build run test long test-live check bench bench-workspace soak proto man release

build: ## bin/ferment, bin/plugins/* and the lock file that approves these
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ferment ./host/ferment
	$(GO) build -ldflags '-s -w' -o bin/plugins/ ./plugins/...
	@rm -f bin/ferment.lock.hcl # what was just built is what is approved
	OPENAI_API_KEY=none ANTHROPIC_API_KEY=none OLLAMA_MODEL=none MLX_MODEL=none bin/ferment plugin lock # also what is started only where there is a key

run: build ## the tour: one plan over real plugins, with an engine killed on the way
	$(GO) run ./examples/tour

test: build ## the test suite; TAGS=slow adds what takes longer, TAGS=external tests with outside programs, TAGS=long full sizes
	FERMENT_BIN=$(CURDIR)/bin $(GO) test -p 4 -vet=off -timeout 3h $(if $(TAGS),-tags $(TAGS)) ./host/internal/runtime/cli ./plugins/workspace/core/store ./... # the longest first; make check vets, .ci/run runs the rest

long: build ## every proof that repeats something, in full size, with a table of what held; takes hours
	.ci/long

test-live: ## the plugin of language models against real servers: which, say FERMENT_LIVE_* (plugins/llm/README.md)
	$(GO) test -count=1 -timeout 1h -tags live -run '^TestLive$$' -v ./plugins/llm

check: build ## formatting, vet, lint, the configuration and the plans of this repository
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	$(GO) vet -tags external,slow,long ./... ./.ci/mutate ./.ci/release # a folder with a dot is not among the rest
	GOFLAGS= $(GO) mod tidy -diff # go.sum names what is used and no more
	cd host/bench && $(GO) vet ./... # a module of its own
	$(GO) build -o bin/txclose ./sdk/conversation/txclose/cmd/txclose
	$(GO) vet -vettool=bin/txclose ./... # transactions of conversations that a path leaves open
	.ci/lint
	bin/ferment validate --strict
	bin/ferment fmt --check
	bin/ferment check examples/plans/*.edn

bench: build ## ratios against the peers, measured in the same run
	cd host/bench && $(GO) run . $(BENCH)

bench-workspace: build ## its part about workspaces, also as JSON in bin/; fails if a goal is missed that was met
	cd host/bench && $(GO) run . -check -json $(CURDIR)/bin/bench-workspace.json workspace

soak: ## the tests of supervision again and again: make soak ROUNDS=50
	.ci/soak $(ROUNDS)

man: build ## the manual pages of all commands, in bin/man1
	bin/ferment manual --dir bin/man1

release: ## dist/: an archive, a Debian package, the list of modules in them (SPDX), and SHA256SUMS
	$(GO) run ./.ci/release -out dist $(if $(RELEASE),-version $(RELEASE))

proto: ## generated code of the wire contract
	sh sdk/internal/pluginv1/gen.sh
	protoc --proto_path=sdk/wire --python_out=host/internal/runtime/cli/scaffold/templates/python/ferment plugin.proto goplugin.proto
