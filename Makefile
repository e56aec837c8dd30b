# make help lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Each tool is built once, into a cache folder for its version and the version of Go.
STATICCHECK_VERSION := v0.8.2
GOFUMPT_VERSION     := v0.12.0
ACTIONLINT_VERSION  := v1.7.12
BENCHSTAT_VERSION   := v0.0.0-20260908200009-22c9c6c9d4da
MYPY_VERSION        := 2.4.1
ZIG_VERSION         := 0.17.1

VERSION ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
CACHE   := $(or $(XDG_CACHE_HOME),$(addsuffix /.cache,$(HOME)),$(CURDIR)/build/cache)/onnxmem
TOOLS   := $(CACHE)/tools-$(shell go env GOVERSION)

# The folder of the test data. This is the only place with a default: tests and
# scripts read the variable, and skip or say what to set where it is empty.
export ONNXMEM_DATA ?= $(wildcard $(abspath ../shared/data))

# One set of flags for all targets: what one of them has compiled, the others take from
# Go's cache.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

# The flags of the CUDA build: gorgonia's CUDA machine, over the stand-in in cu/.
CUDA := -modfile=go.cuda.mod -tags cuda

# A test that hangs ends its package after this long. Go's own 10 minutes are too few for
# what runs beside other work at the lowest priority.
TIMEOUT := -timeout 40m

FUZZTIME  ?= 30s
MUTANTS   ?= 50000
BENCH     ?= .
COUNT     ?= 10
NAME      ?= head
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

STATICCHECK := $(TOOLS)/staticcheck@$(STATICCHECK_VERSION)/staticcheck
ACTIONLINT  := $(TOOLS)/actionlint@$(ACTIONLINT_VERSION)/actionlint
GOFUMPT     := $(TOOLS)/gofumpt@$(GOFUMPT_VERSION)/gofumpt
MYPY        := $(CACHE)/mypy-$(MYPY_VERSION)/bin/mypy
ZIG         := $(CACHE)/zig-$(ZIG_VERSION)/bin/zig
BENCHSTAT   := $(TOOLS)/benchstat@$(BENCHSTAT_VERSION)/benchstat

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build: ## build bin/onnxmem
	@CGO_ENABLED=0 go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/onnxmem

.PHONY: lib
lib: $(if $(LIBS),$(ZIG)) ## build libonnxmem with onnxmem.h and a CMake package into build/lib (needs cc); LIBS=all or 'linux/arm64 ...': for these, with Zig's compiler
	@go run ./internal/wheels -lib build/lib $(if $(LIBS),-zig $(ZIG) $(filter-out all,$(LIBS)))

.PHONY: cuda
cuda: ## build bin/onnxmem-cuda, whose --device cuda runs the nodes on gorgonia's CUDA machine (needs a C compiler, no CUDA)
	@CGO_ENABLED=1 go build $(CUDA) -ldflags "-s -w -X main.version=$(VERSION)" -o bin/onnxmem-cuda ./cmd/onnxmem

.PHONY: test-cuda
test-cuda: ## vet the CUDA build and run its tests of sessions on a GPU, on a fake driver (needs a C and a C++ compiler)
	@if ! command -v "$$(go env CC)" >/dev/null; then echo "no C compiler: the CUDA build is not tested"; exit 0; fi; \
		export CGO_ENABLED=1; go vet $(CUDA) ./vm/... ./cmd/onnxmem gorgonia.org/cu/... && \
		GOGC=400 go test $(CUDA) $(TIMEOUT) -vet=off -json -run 'CUDA|Device' ./vm ./vm/internal/exec gorgonia.org/cu/... | go run ./internal/testreport

.PHONY: cuda-mod
cuda-mod: ## write go.cuda.mod and go.cuda.sum, the module files of the CUDA build, after a change of go.mod
	{ cat go.mod; printf '\nreplace gorgonia.org/cu => ./cu\n'; } >go.cuda.mod
	cp go.sum go.cuda.sum

.PHONY: test
test: ## run the tests; ends with a list of skipped tests and the reasons
	@# Those that take longest begin first, so that no core waits for them at the end.
	@# Collecting garbage a quarter as often saves a sixth of the processor time. The
	@# packages are vetted by make lint, and not twice. They are compiled as make build
	@# does, without cgo: with it, vm, cmd/onnxmem and what imports them are compiled again.
	@GOGC=400 GOMEMLIMIT=3GiB CGO_ENABLED=0 go test $(TIMEOUT) -vet=off -json ./vm ./vm/internal/gpu ./cmd/onnxmem ./passes ./plan/verify ./vm/internal/kernel ./... | go run ./internal/testreport

SWEEPS := ^Test(AgainstTheOptimum|AliasesOfRandomModels|FoldedProductsBesideSlices|FoldedZoo|Frontier|BatchIsKilled|Core|SecondOpinion|CompactSlices|CompactTraining|SlicedTraining|SlicedTrainingWithRecomputation|DeviceTraining|DevicePrecision|TensorTiles|DevicePlans|DeviceNodeTests|BuiltInsStayOnDevice|GuardedLightNetworks|Tampered|SlicedNetworks|SlicesMutated|Pools|Limit|PlansAreAccepted|SlicesAndRecomputation|BoundsOfSlicesByBruteForce|LargeNetworksAreProven|MoreEffortIsNeverWorse|MorePermissionsAreNoWorse|PairsAreNeverWorse|Installed|Reproducible|StaticCommand|RuntimeInstalled|BoundsOfAttentionInPieces|OnFake|AgainstReference|ConvolutionsByLibrary|Mutants|RandomGradients|RandomCorners|SingleLimits|Trials|PairsOfOptions|Zones)$$

# As in make test, those that take longest begin first.
SWEEP_PACKAGES := ./passes ./passes/internal/limits ./plan/verify ./internal/trial ./vm ./vm/internal/gpu ./internal/wheels ./ort ./vm/internal/exec ./schedule ./bench/gpu ./cmd/onnxmem ./schedule/budget ./autodiff ./internal/proof

# Those of which make sweeps does all that make test does. The other two plan other networks,
# or with another effort.
SWEPT := $(subst |SlicedNetworks|,|,$(subst |SecondOpinion|,|,$(SWEEPS)))

.PHONY: test-unswept
test-unswept: ## run the tests that make test runs, but for those that make sweeps runs whole
	@export GOGC=400 GOMEMLIMIT=3GiB CGO_ENABLED=0; { failed=0; \
		go test $(TIMEOUT) -vet=off -json -skip '$(SWEPT)' $(SWEEP_PACKAGES) || failed=1; \
		go test $(TIMEOUT) -vet=off -json $$(go list ./... | grep -vxF "$$(go list $(SWEEP_PACKAGES))") || failed=1; \
		exit $$failed; } | go run ./internal/testreport

.PHONY: sweeps
sweeps: ## run the tests that make test leaves out, or does in part, since each takes seconds
	@export GOGC=400 GOMEMLIMIT=3GiB CGO_ENABLED=0 ONNXMEM_SWEEPS=1; { failed=0; \
		go test $(TIMEOUT) -vet=off -json -run '$(SWEEPS)' $(SWEEP_PACKAGES) || failed=1; \
		(cd report/browser && go test $(TIMEOUT) -vet=off -json .) || failed=1; \
		exit $$failed; } | go run ./internal/testreport

# The kit's largest size, with the sources beside it: what may travel to a lent machine.
KIT_BYTES := 67108864

# no: the kit leaves NVIDIA's compiler to the machine; auto: only where it does not fit.
KIT_NVRTC ?= auto
# What the kit would have, with the sources and one more file.
KIT_WITH = $$(($$(du -sb build/gpu | cut -f1) + $$(git ls-files -z | xargs -0 du -cb | tail -n 1 | cut -f1) + $$(cat $(1) | wc -c)))

.PHONY: gpu-kit
gpu-kit: build ## build build/gpu, whose `run` checks and measures on a machine with an NVIDIA GPU and nothing else (needs xz)
	@rm -rf build/gpu build/gpu-unpacked && mkdir -p build/gpu/testdata build/gpu-unpacked
	@CGO_ENABLED=0 go build -ldflags "-s -w -X main.version=$(VERSION)" -o build/gpu/run ./bench/gpu
	@cp bin/onnxmem build/gpu-unpacked/ && cp -r testdata/nodes testdata/functions build/gpu/testdata/
	@for t in vm vm/internal/gpu; do CGO_ENABLED=0 go test -c -ldflags "-s -w" -o build/gpu-unpacked/$$(basename $$t).test ./$$t; done
	@for f in build/gpu-unpacked/*; do xz --format=lzma -5 -c $$f >build/gpu/$$(basename $$f).lzma; done
	@for f in $(if $(filter no,$(KIT_NVRTC)),,$(wildcard build/nvrtc/nvidia/*/lib/libnvrtc-builtins.so.* build/nvrtc/nvidia/*/lib/libnvrtc.so.*)); do \
		packed=build/nvrtc/$$(basename $$f).lzma; \
		[ $$packed -nt $$f ] || { xz --format=lzma -5 -c $$f >$$packed.new && mv $$packed.new $$packed; }; \
		if [ "$(KIT_NVRTC)" = yes ] || [ $(call KIT_WITH,$$packed) -le $(KIT_BYTES) ]; then cp $$packed build/gpu/; \
		else echo "without NVIDIA's compiler, for which there is no room: the machine must have it (pip install nvidia-cuda-nvrtc, or CUDA)"; fi; \
	done
	@if ! command -v "$$(go env CC)" >/dev/null; then echo "without the CUDA build: it needs a C compiler"; else \
		f=build/gpu-unpacked/onnxmem-cuda; \
		CGO_ENABLED=1 go build $(CUDA) -ldflags "-s -w -X main.version=$(VERSION)" -o $$f ./cmd/onnxmem && xz --format=lzma -5 $$f && \
		if [ $(call KIT_WITH,$$f.lzma) -le $(KIT_BYTES) ]; then mv $$f.lzma build/gpu/; \
		else echo "without the CUDA build, for which there is no room: KIT_NVRTC=no makes some, if the machine has NVIDIA's compiler"; fi; \
	fi
	@rm -r build/gpu-unpacked
	@test -e build/nvrtc/nvidia || echo "without NVIDIA's compiler: make nvrtc gets it"
	@echo "without compute-sanitizer: no package of PyPI has it; the machine's own is used"
	@du -ab --apparent-size --max-depth=1 build/gpu
	@kit=$$(du -sb build/gpu | cut -f1); tree=$$(git ls-files -z | xargs -0 du -cb | tail -n 1 | cut -f1); \
		echo "kit $$kit B, sources $$tree B: $$((kit + tree)) B of at most $(KIT_BYTES)"; [ $$((kit + tree)) -le $(KIT_BYTES) ]

.PHONY: gpu
gpu: gpu-kit ## check and measure on the GPU of this machine; PARTS='networks tests', NETWORKS='resnet50 bert', BATCH=8, TIME_LIMIT=9m, OUT=FOLDER
	@build/gpu/run

.PHONY: gpu-torch
gpu-torch: build ## measure PyTorch's steps below limits on the GPU of this machine (PyTorch 2.11 or later, 14 minutes); ARGS='--out FILE', --help
	@PYTHONPATH=ort/python/src:python/src ONNXMEM_COMMAND=bin/onnxmem python3 bench/gpu/steps_torch.py $(ARGS)

# The version of NVIDIA's compiler that the kernels are tested with; its licence is NVIDIA's.
NVRTC_WHEEL := nvidia-cuda-nvrtc==13.0.88

build/nvrtc/nvidia: # NVIDIA's wheel, 90 MB from PyPI
	@mkdir -p build/nvrtc
	@cd build/nvrtc && python3 -m pip download -q --no-deps -d . $(NVRTC_WHEEL) && python3 -m zipfile -e *.whl .

NVRTC_LIBRARY = $$(ls $(CURDIR)/build/nvrtc/nvidia/*/lib/libnvrtc.so.?? | head -n 1)

.PHONY: nvrtc
nvrtc: build/nvrtc/nvidia ## compile every GPU kernel with NVIDIA's compiler for ARCHS (sm_75 sm_80 sm_90 sm_120), no GPU needed (90 MB from PyPI)
	@ONNXMEM_TEST_NVRTC=$(NVRTC_LIBRARY) ONNXMEM_TEST_ARCHS="$(ARCHS)" go test -count=1 -timeout 60m -v -run '^TestNVRTC$$' ./vm/internal/gpu

.PHONY: nvrtc-once
nvrtc-once: ## compile each GPU kernel once, and each file for every architecture; what passed before is not compiled again
	@mkdir -p build && $(MAKE) -s build/nvrtc/nvidia >build/nvrtc.log 2>&1 || { echo "NVIDIA's compiler could not be fetched from PyPI (build/nvrtc.log): no kernel is compiled with it"; exit 0; }; \
	ONNXMEM_TEST_NVRTC_ONCE=$(NVRTC_LIBRARY) go test -count=1 -timeout 45m -v -run '^TestNVRTCOnce$$' ./vm/internal/gpu

.PHONY: proofs
proofs: build ## have VeriPB check the proofs of lower bounds (compiled once; needs cargo)
	@.ci/proofs $(CACHE)

.PHONY: beam
beam: ## build, vet and test bin/onnxmem-beam, the pipeline for many machines (a separate module)
	cd beam && CGO_ENABLED=0 go build -ldflags "-X main.version=$(VERSION)" -o ../bin/onnxmem-beam .
	cd beam && go vet ./... && go test $(TIMEOUT) ./...

.PHONY: beam-once
beam-once: ## run make beam, unless nothing of which the pipeline is built has changed since it passed
	@.ci/beam $(CACHE)

.PHONY: beam-flink
beam-flink: ## run the pipeline on a Flink cluster on this machine; one of two workers is killed (needs Java 17 and Maven)
	@mkdir -p build
	mvn -q -f beam/flink/pom.xml dependency:build-classpath -Dmdep.outputFile=$(CURDIR)/build/flink-classpath
	cd beam && ONNXMEM_FLINK_CLASSPATH="$$(cat ../build/flink-classpath)" go test -count 1 -v -run '^TestFlink$$' .

.PHONY: lint
lint: $(STATICCHECK) $(GOFUMPT) $(ACTIONLINT) ## run go vet, staticcheck, gofumpt and actionlint, and generate the assembly again; all must be clean
	CGO_ENABLED=0 go vet ./...
	@.ci/assembly
	CGO_ENABLED=0 $(STATICCHECK) ./...
	@cd report/browser && CGO_ENABLED=0 go vet . && CGO_ENABLED=0 $(STATICCHECK) .
	@$(ACTIONLINT) .github/workflows/*.yml
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs $(GOFUMPT) -l); if [ -n "$$unformatted" ]; then echo "not formatted, see gofumpt -d:"; echo "$$unformatted"; exit 1; fi

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: mutants
mutants: ## run MUTANTS (50000) hostile variants of the operator tests, each in guarded memory
	@if [ -e "$(ONNXMEM_DATA)/node-tests.tar.gz" ]; then go run ./vm/internal/mutate/mutants -n $(MUTANTS); else echo "no operator tests in ONNXMEM_DATA: nothing is run"; fi

.PHONY: audit
audit: ## list every module that the command links, its date and what needs it; run govulncheck if its database is reachable
	@.ci/audit

.PHONY: golden
golden: build ## compare plans and runs with those of a base: BASE=main or another binary, ONLY='^run/node/' (a pattern; all take half an hour)
	@bench/golden.py --base '$(or $(BASE),main)' --only '$(ONLY)'

.PHONY: bench
bench: build $(BENCHSTAT) ## run the benchmarks COUNT (10) times into bench/NAME.txt (head), and bench/spine.py and bench/memory.py
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./... | tee bench/$(NAME).txt
	$(BENCHSTAT) bench/$(NAME).txt
	bench/spine.py | tee bench/$(NAME)-spine.txt
	bench/memory.py | tee bench/$(NAME)-memory.txt

.PHONY: bench-process
bench-process: build ## compare the memory of run's process with the plan, ONNX Runtime's and, with ARGS='--torch PYTHON', PyTorch's; exit status 1: too much
	@crosscheck/run ort bench/process.py $(ARGS)

.PHONY: bench-peers
bench-peers: build ## compare the time of steps and of starts with ONNX Runtime's and OpenVINO's (PyPI); ARGS='--threads 2 NAME ...': only these, --help
	@crosscheck/run peers bench/peers.py $(ARGS)

.PHONY: ablation
ablation: ## measure the loss without each part of the searches, into docs/ablation.md (hours); SEARCH=./alloc SET=zoo PARTS=twins,splits: only these
	@mkdir -p build/problems
	go test ./passes -run '^TestWriteProblems$$' -args -problems $(CURDIR)/build/problems
	@for search in $(or $(SEARCH),./schedule ./alloc ./schedule/budget); do \
		go test $$search -run '^$$' -bench '^BenchmarkAblation$$/set=$(SET)' -benchtime 1x -timeout 0 -args \
			-problems $(CURDIR)/build/problems -ablation $(CURDIR)/docs/ablation.md -parts '$(PARTS)'; done

.PHONY: results
results: build ## write the generated tables of docs/results; ARGS='PAGE PAGE/TABLE ...': only these, slow ones too; ARGS=--list
	@bench/results.py $(ARGS)

.PHONY: crosscheck
crosscheck: build ## check planned models with onnx.checker and ONNX Runtime, optima with HiGHS, training steps with PyTorch; ARGS=--help
	@crosscheck/run $(ARGS)

.PHONY: demo
demo: build ## write a network, plan it, verify the plan
	@mkdir -p build/demo
	bin/onnxmem model mobilenet_v2 build/demo/mobilenet.onnx --dim batch=8
	bin/onnxmem optimize build/demo/mobilenet.onnx build/demo/planned.onnx
	bin/onnxmem verify build/demo/planned.onnx

.PHONY: cross
cross: ## build for every platform
	@# Nothing here is run: without optimization and debug data, which no other target
	@# could use for these platforms, windows/arm64 takes 90 s of processor time in place
	@# of 159 s. This machine's own platform shares what make build and make test compile.
	@for p in $(PLATFORMS); do echo "$$p"; \
		flags=(); if [ "$$p" != "$$(go env GOHOSTOS)/$$(go env GOHOSTARCH)" ]; then flags=('-gcflags=all=-N -l -dwarf=false' '-ldflags=-s -w'); fi; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build "$${flags[@]}" ./...; done

.PHONY: web
web: ## build the page for browsers into build/web and the npm package into build/npm
	@CGO_ENABLED=0 go run ./web/bundle -version $(VERSION)

.PHONY: web-serve
web-serve: ## serve the page on this machine alone: ADDRESS=localhost:8080
	@go run ./web/bundle -serve $(or $(ADDRESS),localhost:8080)

.PHONY: web-test
web-test: build web ## compare the npm package's plans, figures and messages with the command's, in Node 20 or later; press the page's buttons in a browser
	@if ! command -v node >/dev/null; then echo "no Node: the npm package is not tested"; \
		else node web/test/equal.mjs $(CURDIR)/bin/onnxmem "$(ONNXMEM_DATA)"; fi
	@cd report/browser && go test $(TIMEOUT) -count=1 -vet=off -json -run '^TestPlannerPage$$' . | (cd ../.. && go run ./internal/testreport)

.PHONY: wheels
wheels: $(ZIG) ## build the Python wheels of every platform into build/wheels; WHEELS='host' or 'linux/arm64 ...': only these (a C compiler, Zig's, from PyPI)
	@rm -rf build/wheels
	@go run ./internal/wheels -version $(VERSION) -zig $(ZIG) -out build/wheels $(WHEELS)

.PHONY: release
release: $(ZIG) ## build the wheels, the archives with the command and checksums.txt of every platform into build/release; WHEELS as above
	@rm -rf build/release
	@go run ./internal/wheels -version $(VERSION) -zig $(ZIG) -archives -out build/release $(WHEELS)

.PHONY: types
types: $(MYPY) ## check the types of the Python modules (mypy from PyPI)
	@cd python && MYPYPATH=src $(MYPY) --strict --python-version 3.10 --cache-dir $(CACHE)/mypy src tests
	@cd ort/python && MYPYPATH=src:../../python/src $(MYPY) --config-file mypy.ini --cache-dir $(CACHE)/mypy-ort src tests torchtests

.PHONY: clean
clean: ## remove bin and build
	rm -rf bin build

$(STATICCHECK):
	GOBIN=$(@D) GOFLAGS= go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)

$(ACTIONLINT):
	CGO_ENABLED=0 GOBIN=$(@D) GOFLAGS= go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(GOFUMPT):
	GOBIN=$(@D) GOFLAGS= go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)

$(BENCHSTAT):
	GOBIN=$(@D) GOFLAGS= go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)

# The package has the compiler in its folder of modules; a link makes it a command.
$(ZIG):
	python3 -m venv $(CACHE)/zig-$(ZIG_VERSION)
	$(@D)/pip install --quiet ziglang==$(ZIG_VERSION)
	ln -sf $$($(@D)/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig $@

$(MYPY):
	python3 -m venv $(CACHE)/mypy-$(MYPY_VERSION)
	$(@D)/pip install --quiet mypy==$(MYPY_VERSION)
