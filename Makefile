# SPDX-License-Identifier: Apache-2.0
# Everything that one does with a checkout. Each target sets up what it needs (tools/setup.sh), once.
# Variables: PYTHON (to make .venv from), CXX, RUN (more options of `netpipe run`), BENCH, TESTS (more options of pytest).
SHELL := /bin/bash
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

venv := .venv
export PATH := $(CURDIR)/$(venv)/bin:$(PATH)
RUN ?=
BENCH ?=
export TESTS ?=

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 \t/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: run
run: build build/.mpi ## set up, build, and measure this host: run.jsonl and report.html
	netpipe run --output run.jsonl --report report.html $(RUN)

.PHONY: build
build: build/build.ninja ## set up and build: the native part in build/, the command in .venv/bin/netpipe
	cmake --build build

.PHONY: mpi
mpi: build ## MPICH and Open MPI from PyPI, and their modules, also where they could not be had before
	rm -f $(venv)/.mpi build/.mpi
	$(MAKE) build/.mpi

.PHONY: test
test: setup-test ## everything that is tested, in less than 20 minutes on two cores
	python tools/run_tests.py all

.PHONY: check
check: setup-test ## format, lint, types and unit tests, within 2 minutes
	python tools/run_tests.py check

.PHONY: bench
bench: build ## netpipe beside hand-written loops, NPtcp and iperf3, in one run (BENCH: names and options of bench/compare.py)
	cmake -S . -B build -DNETPIPE_BENCH=ON -DNETPIPE_TESTS=ON
	cmake --build build
	python bench/compare.py $(BENCH)

.PHONY: tidy
tidy: setup-test ## clang-tidy on every source file that ships
	python tools/run_tests.py tidy

.PHONY: format
format: setup-test ## write C, C++ and Python in the project's format
	find include src tests examples bench -name "*.[ch]" -o -name "*.cpp" | xargs -r clang-format -i
	ruff check --quiet --fix-only
	ruff format

.PHONY: setup setup-test
setup: $(venv)/.run ## .venv, and cmake and ninja where they are missing
setup-test: $(venv)/.test ## what the tests need besides

.PHONY: clean distclean
clean: ## remove what was built and cached
	rm -rf build build-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests tools bench -name __pycache__ -prune -exec rm -rf {} +
distclean: clean ## remove .venv as well
	rm -rf $(venv)

# The stamps stand in what they speak of, so that they go with it.
$(venv)/.run: tools/setup.sh requirements/run.txt requirements/build.txt pyproject.toml VERSION
	tools/setup.sh run
	@touch $@

# A machine that cannot have them goes on without: whoever measures TCP needs no MPI.
$(venv)/.mpi: tools/setup.sh requirements/mpi.txt $(venv)/.run
	tools/setup.sh mpi
	@touch $@

build/.mpi: $(venv)/.mpi $(wildcard src/modules/mpi/*) include/netpipe/module.h | build
	tools/setup.sh modules
	@touch $@

$(venv)/.test: $(venv)/.mpi requirements/test.txt
	tools/setup.sh test
	@touch $@

build/build.ninja: $(venv)/.run
	cmake -S . -B build -G Ninja
	@touch $@
