# SPDX-License-Identifier: Apache-2.0
# Everything that you do with a checkout. Each target sets up what it needs (tools/setup.sh), once.
# Variables: PYTHON (makes .venv), CXX, RUN (more options for `netpipe run`), BENCH, M (a module, for `make test`),
# TESTS (more options for pytest).
SHELL := /bin/bash
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

venv := .venv
export PATH := $(CURDIR)/$(venv)/bin:$(PATH)
RUN ?=
BENCH ?=
M ?=
export TESTS ?=

# A second build of the same source costs nothing where ccache is installed. It takes precompiled headers only if told.
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
endif

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 \t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: run
run: build build/.mpi ## set up, build and measure this host: run.jsonl and report.html
	netpipe run --output run.jsonl --report report.html $(RUN)

.PHONY: build
build: build/build.ninja ## set up and build: the native part in build/, the command in .venv/bin/netpipe
	cmake --build build

.PHONY: mpi
mpi: build ## MPICH and Open MPI from PyPI and their modules; tries again if an earlier attempt failed
	rm -f $(venv)/.mpi build/.mpi
	$(MAKE) build/.mpi

.PHONY: check
check: setup-test ## what your change could have broken: format, lint, types, unit and module tests; about a minute, more if what everything includes has to be compiled
	python tools/run_tests.py check

.PHONY: test
test: setup-test ## the gate: every module and pattern, every kind of fault, in at most 8 minutes; M=tcp: the tests of that module alone
	python tools/run_tests.py $(if $(M),module $(M),test)

.PHONY: test-deep
test-deep: setup-deep ## what the gate leaves out: sanitizers, every launcher and MPI, installations, clang-tidy, fuzzing
	python tools/run_tests.py deep

.PHONY: bench
bench: build ## netpipe beside hand-written loops, NPtcp and iperf3, in one run (BENCH: options of bench/compare.py)
	cmake -S . -B build -DNETPIPE_BENCH=ON -DNETPIPE_TESTS=ON
	cmake --build build
	python bench/compare.py $(BENCH)

.PHONY: tidy
tidy: setup-deep ## clang-tidy with its analyzer on every C and C++ file that ships; test-deep analyzes a sixteenth of them
	python tools/run_tests.py tidy

.PHONY: format
format: setup-test ## rewrite C, C++ and Python in the project's format
	find include src tests examples bench -name "*.[ch]" -o -name "*.cpp" | xargs -r clang-format -i
	ruff check --quiet --fix-only
	ruff format

.PHONY: setup setup-test setup-deep
setup: $(venv)/.run ## .venv, with cmake and ninja where they are missing
setup-test: $(venv)/.test ## what `make check` and `make test` need besides
setup-deep: $(venv)/.deep ## what `make test-deep` needs besides

.PHONY: clean distclean
clean: ## remove what was built and cached
	rm -rf build build-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests tools bench -name __pycache__ -prune -exec rm -rf {} +
distclean: clean ## remove .venv as well
	rm -rf $(venv)

# Each stamp lies in the folder that it describes, so that both go together.
$(venv)/.run: tools/setup.sh requirements/run.txt requirements/build.txt pyproject.toml VERSION
	tools/setup.sh run
	@touch $@

# A machine that cannot install them goes on without: nobody needs MPI to measure TCP.
$(venv)/.mpi: tools/setup.sh requirements/mpi.txt $(venv)/.run
	tools/setup.sh mpi
	@touch $@

build/.mpi: $(venv)/.mpi $(wildcard src/modules/mpi/* src/modules/mpi/*/* include/netpipe/*.h) | build
	tools/setup.sh modules
	@touch $@

$(venv)/.test: $(venv)/.mpi requirements/test.txt
	tools/setup.sh test
	@touch $@

$(venv)/.deep: $(venv)/.test requirements/deep.txt
	tools/setup.sh deep
	@touch $@

build/build.ninja: $(venv)/.run
	cmake -S . -B build -G Ninja
	@touch $@
