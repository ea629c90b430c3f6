# Thin names for the usual commands; everything real is in CMake and scripts/.
SETUP ?= scripts/setup.sh
JOBS ?= $(shell nproc)
BUILD = build/release
ARGS =

.PHONY: help setup configure build demo test bench bench-jax lint format docs clean verify
help:     ## print what each target does
	@sed -nE 's/^([a-z-]+): .*## (.*)/  make \1\t\2/p' Makefile | expand -t 18

setup:    ## install the Debian packages that are missing
	@$(SETUP)

configure: setup
	@mkdir -p build
	@cmake --preset release > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }

build: configure  ## build everything: library, command, examples, tests, benchmarks
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure  ## train a network on handwritten digits and look inside
	@cmake --build $(BUILD) -j $(JOBS) --target digits
	@$(BUILD)/bin/digits

test: build   ## build, then run all but the long tests
	@tests/conformance/check.sh --where .
	@ctest --test-dir $(BUILD) -j $(JOBS) -LE long --output-on-failure

bench: build  ## run our benchmarks (ARGS="--only REGEX --threads 2")
	@$(BUILD)/bench/telamon_bench $(ARGS)

bench-jax: build  ## ... beside JAX and others (PEERS="mlx drjit torch"), into docs/performance.md
	@$(SETUP) --bench
	@scripts/bench_jax.sh $(ARGS)

lint: build   ## clang-format and clang-tidy on the files changed since main
	@$(SETUP) --lint
	@scripts/lint.sh

format:   ## reformat all sources
	@$(SETUP) --lint
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 -i

docs:     ## check the links of the documentation
	@scripts/check_docs.sh

clean:    ## remove build/
	@rm -rf build

verify:   ## the long checks: both compilers, sanitizers, long tests, all of clang-tidy (STEPS="asan tsan" for some)
	@scripts/verify.sh $(STEPS)
