# Thin wrappers over CMake, for people and for continuous integration; `make help` lists them.
#
# Every target installs what it misses through tools/install-dependencies and reads no standard
# input. What is built, and how, stands in CMakeLists.txt and CMakePresets.json: this file only
# puts commands in order. JOBS limits the parallel work.
.DEFAULT_GOAL := stage
.DELETE_ON_ERROR:
.NOTPARALLEL:
SHELL := /bin/bash

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# Warnings are errors where the compiler is the one that CI runs; elsewhere they are only shown.
WERROR ?= $(if $(CI),ON,OFF)

release := build/release
staged := build/sabot
vendor := $(CURDIR)/build/vendor
venv := build/venv
torch_python := $(CURDIR)/$(venv)/bin/python
sanitizers := address thread
empty :=
semicolon_list = $(subst $(empty) $(empty),;,$(strip $(1)))
build_tree = cmake --build $(1) --parallel $(JOBS)
# A tree that `make test` or `make bench` configured keeps its tests and benchmarks.
configure_once = test -f $(release)/build.ninja || cmake --preset release -DSABOT_TESTS=OFF

.PHONY: stage install torch demo test vendor deps reference bench fuzz format lint \
  bench-torch conformance-torch clean help

stage:  ## build Release and stage a relocatable tree in build/sabot (the default)
	@tools/install-dependencies build
	@$(configure_once)
	@$(call build_tree,$(release))
	@rm -rf $(staged)
	@cmake --install $(release) --prefix $(staged) > $(release)/install.log
	@echo "Staged in $(staged): try $(staged)/bin/sabot --help"

install: stage  ## the same tree under PREFIX (default /usr/local)
	@cmake --install $(release) --prefix $(PREFIX)

torch:  ## build the torch backend too, for the PyTorch of build/venv (installed if missing)
	@tools/install-dependencies build torch
	@tools/torch-venv $(venv)
	@$(configure_once)
	@cmake $(release) -DSABOT_TORCH_PYTHON=$(torch_python) > $(release)/torch.log || \
	  { cat $(release)/torch.log; exit 1; }
	@$(MAKE) --no-print-directory stage

demo: stage  ## run the experiment, in C and under PyTorch: without and with an injected error
	@$(staged)/bin/sabot demo
	@$(MAKE) --no-print-directory torch
	@$(venv)/bin/python tools/torch-demo --tree $(staged)

test:  ## build everything and run all tests, under sanitizers too
	@tools/install-dependencies build test torch
	@tools/torch-venv $(venv)
	@$(MAKE) --no-print-directory vendor
	@for name in $(sanitizers); do \
	  cmake --preset $$name > build/$$name.log 2>&1 || \
	    { cat build/$$name.log; exit 1; }; \
	  $(call build_tree,build/$$name) --target sanitized || exit 1; \
	done
	@cmake --preset release -DSABOT_TESTS=ON -DSABOT_WERROR=$(WERROR) \
	  -DSABOT_VENDOR_DIR=$(vendor) -DSABOT_VENDOR_NCCL=$(vendor)/2.28.9/libnccl.so.2 \
	  -DSABOT_SANITIZED_TREES="$(call semicolon_list,$(addprefix build/,$(sanitizers)))" \
	  -DSABOT_TORCH_PYTHON=$(torch_python)
	@$(MAKE) --no-print-directory stage
	@ctest --test-dir $(release) --parallel $(JOBS) --output-on-failure --no-label-summary \
	  --output-junit $(CURDIR)/build/junit.xml

vendor:  ## fetch the pinned NCCL wheels that the ABI tests compare with
	@tools/install-dependencies test
	@test -x $(venv)/bin/pip || python3 -m venv $(venv) || /usr/bin/python3 -m venv --clear $(venv)
	@$(venv)/bin/python tools/fetch-vendor $(vendor)

deps:  ## copy header-only dependencies to build/deps, for a machine that lacks them
	@tools/install-dependencies build
	@mkdir -p build/deps/include
	@cp -rL /usr/include/toml++ /usr/include/CLI build/deps/include/
	@if test -d /usr/src/googletest; then cp -rL /usr/src/googletest build/deps/; fi

reference:  ## rewrite the generated pages of docs/reference/
	@tools/install-dependencies build test
	@mkdir -p build && cmake --preset release -DSABOT_TESTS=ON > build/reference.log
	@$(call build_tree,$(release)) --target write_reference
	@SABOT_UPDATE=1 tests/reference/fresh.py --writer $(release)/tests/reference/write_reference

bench:  ## measure, print and write build/bench/*.json
	@tools/install-dependencies build bench
	@cmake --preset release -DSABOT_BENCH=ON
	@$(call build_tree,$(release))
	@python3 bench/run.py --build $(release)

bench-torch: torch  ## measure torch.distributed over Sabot against gloo
	@PYTHONPATH=$(staged)/python $(torch_python) bench/torch_bench.py

conformance-torch: torch  ## PyTorch's own distributed tests, with name-gated ones answered too
	@PYTHONPATH=$(staged)/python $(torch_python) tests/torch/conformance.py check --answers
	@PYTHONPATH=$(staged)/python $(torch_python) tests/torch/conformance.py check --backend sabot:gloo

fuzz:  ## let each fuzzer search for FUZZ_SECONDS (default 60), beyond its corpus
	@tools/install-dependencies build fuzz
	@cmake --preset fuzz
	@$(call build_tree,build/fuzz)
	@tools/fuzz build/fuzz $${FUZZ_SECONDS:-60}

format:  ## rewrite the C and C++ sources that differ from .clang-format
	@tools/install-dependencies format
	@git ls-files '*.hpp' '*.cpp' '*.h' '*.c' | xargs clang-format -i

lint:  ## clang-tidy over the sources of src and products
	@tools/install-dependencies build lint
	@$(configure_once)
	@$(call build_tree,$(release))
	@git ls-files 'src/**.cpp' 'products/**.cpp' | grep -v _test.cpp | \
	  xargs -P $(JOBS) -n 4 clang-tidy -p $(release) --quiet

clean:  ## remove everything that was built
	@rm -rf build

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 22
