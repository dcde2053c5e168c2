# Two commands for users: make demo, make test. Four for developers: build, bench, fmt, lint.
# Every target does its own set-up on a fresh Debian 12, as root or with sudo.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
RELEASE := build/release
DEV := build/dev
ALGORITHMS := build/algorithms
BIN := $(CURDIR)/$(RELEASE)/bin
JOBS ?= $(shell nproc)
STAGE ?=

.PHONY: help demo test build platform algorithms bench fmt lint fuzz generate clean packages python

help:
	@echo "make demo   train a real model through the SageMaker SDK on this machine"
	@echo "make test   build and run every test          (STAGE=unit|check|process|sdk|e2e for one label)"
	@echo "make build  release binaries in $(RELEASE)/bin"
	@echo "make bench  measure against the named peers   make fuzz   fuzz every parser for 30 s each"
	@echo "make fmt    format the C++ code               make lint   style, layering, file sizes, shell scripts"

packages:
	@tools/setup.sh

python: packages
	@tools/python_env.sh

build: platform algorithms

# Daemon, agent and command: no LibTorch, no Python.
platform: packages
	@cmake --preset release >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS)

# The built-in training programs, on the LibTorch of the Python environment.
algorithms: packages
	@tools/python_env.sh train
	@tools/algorithms.sh $(ALGORITHMS) $(BIN)/algorithms
	@cmake --build $(ALGORITHMS) -j $(JOBS)

demo: platform
	@tools/python_env.sh train v2
	@examples/demo.sh $(BIN)

test: build python
	@cmake --preset dev >/dev/null
	@cmake --build $(DEV) -j $(JOBS)
	@TRAINYARD_BIN=$(BIN) ctest --test-dir $(DEV) --output-on-failure --schedule-random --timeout 900 -j 2 $(if $(STAGE),-L '^$(STAGE)$$')

bench: packages python algorithms
	@tools/python_env.sh bench
	@cmake --preset bench >/dev/null
	@cmake --build build/bench -j $(JOBS)
	@ALGORITHMS_BIN=$(BIN)/algorithms bench/run.sh build/bench/bin

fuzz: packages
	@cmake --preset fuzz >/dev/null
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_targets
	@tools/fuzz.sh build/fuzz/bin $(or $(SECONDS_EACH),30)

fmt: packages
	@git ls-files '*.cc' '*.h' | grep -v '^src/shapes/' | xargs clang-format-14 -i

lint: packages
	@tools/lint.sh

generate: build
	@tools/generate.sh $(BIN)

clean:
	@rm -rf build
