# Tandem's habits. `make help` lists them. Needs Go, git, make and bash; tools/needs.sh installs what else a target uses.

.DEFAULT_GOAL := help
SHELL         := bash

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X tandem/internal/app.version=$(VERSION)
CLASS       := examples/class
DEMO        := bin/submitter --local --engine standin grade $(CLASS)/submissions --rubric $(CLASS)/rubric.json --solution $(CLASS)/solution.ipynb --template $(CLASS)/template.ipynb --out demo-grades
STATICCHECK := go tool -modfile=tools/go.mod staticcheck
NATS_MAIN   := github.com/nats-io/nats-server/v2
VULN        := go run ./test/vuln ./... $(NATS_MAIN)
PLATFORMS   := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
SCRIPTS     := .ci/run $(shell git ls-files '*.sh')

# What checks deploy/: systemd's own check of units (macOS has plutil for plists), and openssl's of certificates.
DEPLOY_NEEDS := openssl $(if $(filter Linux,$(shell uname -s)),systemd-analyze)

# What the tests of lost power and of separate hosts use. They also need root, and say so where they have none.
HOST_NEEDS := $(if $(filter Linux,$(shell uname -s)),ip tc ss mkfs.ext4 losetup nsenter fsfreeze)

TEST_NEEDS := cc chromium prometheus promtool $(DEPLOY_NEEDS) $(HOST_NEEDS)
LINT_NEEDS := cc shellcheck $(DEPLOY_NEEDS)

# Two packages at a time, on any machine: real engines and time limits share the cores with the race detector. Within a package more tests
# at once than there may be cores: those that are marked parallel mostly wait.
GOTEST := go test -p 2 -parallel 4

# Every test, under the race detector. What is asked for together with lint is vetted there.
TEST := $(GOTEST) -race -timeout 15m $(if $(filter lint,$(MAKECMDGOALS)),-vet=off)

# What lint's commands begin with: .ci/run has them take what the tests leave of the processors.
SPARE :=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## the commands, into bin/
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: nats
nats: ## nats-server, the version the tests run, into bin/: for a deployment
	GOBIN=$(CURDIR)/bin go install -trimpath -ldflags '-s -w' $(NATS_MAIN)

.PHONY: test
test: engines backends clients ## every test, under the race detector, with real NATS, Ollama and llama-server
	@tools/needs.sh $(TEST_NEEDS)
	$(TEST) ./...

.PHONY: test-short
test-short: ## only the packages that need no engine: seconds, for the edit loop
	$(GOTEST) $$(go list ./... | grep -vE '^tandem/(internal/(app|llamacpp|ollama|standin)|test)(/|$$)')

.PHONY: test-engines
test-engines: engines backends ## the whole matrix of hand-overs: every shape of model, prompt lengths to 8,000, one slot and four; and between backends of llama.cpp: processor, BLAS, Vulkan; and forged KV states by the thousand
	TANDEM_MATRIX=whole go test -v -count=1 -timeout 40m ./test/engines
	TANDEM_MATRIX=whole go test -v -count=1 -timeout 40m -run 'Backend|TestCheck$$|SoundEngines|Forged' ./internal/app ./internal/slots

.PHONY: lint
lint: ## gofmt, vet (Linux and macOS), staticcheck, go fix, go mod tidy, shell scripts, units and plists, documents, vuln
	@tools/needs.sh $(LINT_NEEDS)
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "gofmt would change (make fmt):"; echo "$$files"; exit 1; }
	for platform in $(PLATFORMS); do GOOS=$${platform%/*} GOARCH=$${platform#*/} $(SPARE) go vet ./... || exit 1; done
	$(SPARE) $(STATICCHECK) ./...
	$(SPARE) go fix -diff ./...
	go mod tidy -diff
	go -C tools mod tidy -diff
	bash -n $(SCRIPTS)
	shellcheck $(SCRIPTS)
	$(SPARE) $(TEST) ./deploy ./internal/arch
	$(SPARE) $(VULN)

.PHONY: vuln
vuln: ## known vulnerabilities that our code reaches, by govulncheck; where the database (GOVULNDB) cannot be read, it says so
	$(VULN)

.PHONY: fmt
fmt: ## gofmt and go fix, in place
	gofmt -w .
	go fix ./...

.PHONY: demo
demo: build engines ## grade a class of eight notebooks on this machine, from notebooks to pages
	rm -rf demo-grades
	$(DEMO) || [ $$? -eq 3 ] # 3: some need review, as they must: one notebook is broken, one tells the grader what to do

.PHONY: bench
bench: engines ## benchmarks; the figures that count are in docs/MEASUREMENTS.md
	go test -p 1 -run '^$$' -bench . -timeout 30m ./...

.PHONY: bench-handover
bench-handover: engines ## what a hand-over costs beside the ways to do without it; 20 minutes, on an idle machine
	go run ./test/handoverbench
	go test -run '^$$' -bench BenchmarkTransfer -benchtime 5x ./internal/handover

.PHONY: bench-class
bench-class: build engines ## a class of 60 notebooks of realistic size, the submitter and a worker killed in the middle
	go run ./test/classbench

.PHONY: bench-plans
bench-plans: ## every plan, two whole machines and the lower bound, on each fleet and load, over paced engines, six loads at once: 75 minutes, on an idle machine with two processors (PLANS="--fleets spark-mac-qwen --jobs 16": 5)
	go run ./test/planbench $(PLANS)

.PHONY: bench-real-plans
bench-real-plans: engines ## plans and two whole engines, on two real llama-servers and two real Ollamas, three loads, and whether texts are the engine's own: 25 minutes, on an idle machine (PLANS="--rounds 3": more often)
	go run ./test/planbench real $(PLANS)

.PHONY: bench-gateway
bench-gateway: build ## what the gateway adds to an engine, 200 streams, 100,000 requests, and 2,000 requests and a batch of 50,000 lines while it is killed: 10 minutes, on an idle machine
	go run ./test/gatewaybench

.PHONY: bench-console
bench-console: build ## the console with 100,000 jobs in the streams and a hundred people who look: 6 minutes, on an idle machine
	go run ./test/gatewaybench --rounds 0 --streams 0 --requests 0 --killed 0 --lines 0 --jobs 100000

.PHONY: self-match
self-match: ## compare 500 notebooks that Debian packages ship each with itself, as a student's with the solution (on Debian; NOTEBOOKS="DIR": your own)
	go run ./test/selfmatch $(or $(NOTEBOOKS),$$(scripts/notebooks.sh))

.PHONY: faults
faults: engines ## kill, freeze, cut off and starve every part under load, and judge what became of each job: 10 minutes, on an idle machine (FAULTS="--seed 2 --share 0.1": another, shorter one)
	go run ./test/faults $(FAULTS)

.PHONY: faults-mutants
faults-mutants: engines ## take out one defence after the other, and see that the judge notices
	go run ./test/faults $(FAULTS) mutants

# The console of a real run: the example class graded on stand-ins, with the gateway of submitter dev in front.
.PHONY: screenshots
screenshots: build engines ## pictures of the console's pages, from a class that is graded, into docs/pictures
	@tools/needs.sh chromium node npm
	scripts/screenshots.sh $(CURDIR)/docs/pictures

.PHONY: clean
clean: ## remove what the targets above made (engines stay in their cache)
	rm -rf bin demo-grades test/*/node_modules

# Real engines for tests and demo: found or fetched once, then cached. Whoever uses them asks the script again where they are.
.PHONY: engines
engines:
	@command -v ollama >/dev/null || tools/needs.sh cc c++
	scripts/engines.sh >/dev/null

# llama-servers on other backends, for tests.
.PHONY: backends
backends:
	scripts/engines.sh backends >/dev/null

# Node, for the tests of docs/PROTOCOL.md and of the gateway, which have npm fetch others' clients themselves; and Python with such clients.
.PHONY: clients
clients:
	@tools/needs.sh node npm
	scripts/engines.sh python >/dev/null

# All at once, before several targets are made at the same time.
.PHONY: needs
needs:
	@tools/needs.sh $(LINT_NEEDS) $(TEST_NEEDS) c++ node npm
