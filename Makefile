# `make help` lists the targets. Everything is installed into .venv; build/ and .venv may be deleted at any time.
PYTHON ?= python3
SOAK_MINUTES ?= 30
VENV   := .venv
RUN    := $(VENV)/bin/python -m

INSTALL     := -m pip install -qq --disable-pip-version-check
EXTENSION   := pyproject.toml setup.py $(wildcard ext/*)
WHEEL_VENV  := build/wheel-venv
ADAPTERS    := build/adapters-venv
OUT_OF_TREE := build/smoke
# These would slow numpy down, and with it what we are measured against.
UNTUNED     := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE

FRAMEWORKS  := anthropic,openai-agents,langchain,langgraph,llama-index

FUZZED  := 10000
ARM_CC  := aarch64-linux-gnu-gcc
ARM_RUN := qemu-aarch64

# hnswlib would otherwise be built for this very processor.
export HNSWLIB_NO_NATIVE := 1

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint native reference wheel quality adapters bench bench-small bench-peers stress soak fuzz-asan arm-check docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/installed ## install the package with its offline embedder and run four searches over examples/
	VADEMECUM_EMBEDDING__PROVIDER=local PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh examples/demo.sh

test: lint docs native reference bench-small wheel ## everything CI runs, up to the first failure

lint: $(VENV)/developed ## style, types, who imports whom
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cython-lint ext

native: $(VENV)/developed ## the whole suite on the native kernels, and that no fault of tests/faults.toml is unproved
	VADEMECUM_KERNELS=native $(RUN) pytest -q --faults

reference: $(VENV)/developed ## every test that touches a kernel, on the plain Python twins
	VADEMECUM_KERNELS=reference $(RUN) pytest -q -m kernels

# The second environment has never seen the source tree, and the tests run from a copy beside which there is no src.
wheel: $(VENV)/developed ## a wheel built from the sdist, installed in a clean environment and tried there
	rm -rf build/dist $(WHEEL_VENV) $(OUT_OF_TREE)
	$(RUN) build --outdir build/dist . > build/wheel.log || { cat build/wheel.log; exit 1; }
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python $(INSTALL) --upgrade pip
	$(WHEEL_VENV)/bin/python $(INSTALL) --group test "$$(echo build/dist/*.whl)[local]"
	mkdir -p $(OUT_OF_TREE)
	cp -R tests examples pyproject.toml $(OUT_OF_TREE)
	cd $(OUT_OF_TREE) && VADEMECUM_KERNELS=native "$(CURDIR)/$(WHEEL_VENV)/bin/python" -m pytest -q -m smoke

# Frameworks bring a hundred packages: minutes to install, and no part of `make test`, where their tests are skipped.
adapters: $(EXTENSION) ## the adapters and their recipes, each against its framework, in an environment of their own
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python $(INSTALL) --upgrade pip
	$(ADAPTERS)/bin/python $(INSTALL) --group test --editable ".[knowledge,$(FRAMEWORKS)]" langchain
	VADEMECUM_KERNELS=native VADEMECUM_ADAPTERS=all $(ADAPTERS)/bin/python -m pytest -q tests/test_adapter_*.py

quality: $(VENV)/developed ## recall on public questions; fails below its floors
	$(RUN) benchmarks.quality

bench: $(VENV)/developed ## how fast: kernels, the engine, how it grows, keywords, how soon changes are found; half an hour
	mkdir -p build
	$(UNTUNED) $(RUN) pytest -q benchmarks --benchmark-only --benchmark-json=build/pytest-benchmark.json
	$(UNTUNED) $(RUN) benchmarks.roof
	$(UNTUNED) $(RUN) benchmarks.freshness
	$(UNTUNED) $(RUN) benchmarks.scaling --kernels build/pytest-benchmark.json
	$(UNTUNED) $(RUN) benchmarks.keyword

bench-small: $(VENV)/developed ## a few seconds of it, and the tests of its judge and its tables; no time is judged
	$(RUN) pytest -q benchmarks/test_small.py benchmarks/test_report.py

bench-peers: $(VENV)/developed ## beside other libraries, each in an environment of its own under build/peers-venv
	$(UNTUNED) $(RUN) benchmarks.peers

stress: $(VENV)/developed ## the tests that grow with patience, at full length
	VADEMECUM_STRESS=1 VADEMECUM_KERNELS=native $(RUN) pytest -q -m stress

fuzz-asan: $(VENV)/developed ## 10,000 damaged database files against the native walk, with the sanitizers on
	mkdir -p build
	$(CC) -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -Iext \
	    tests/native/fuzz_btree.c ext/btree.c -o build/fuzz
	$(VENV)/bin/python tests/fuzz_rowmap.py $(FUZZED) | build/fuzz

arm-check: ## the native kernels as NEON code, run by an emulator
	@for tool in $(ARM_CC) $(ARM_RUN); do command -v $$tool > /dev/null || { \
	    echo "arm-check needs $$tool; on Debian: apt-get install gcc-aarch64-linux-gnu qemu-user" >&2; exit 1; }; done
	mkdir -p build
	$(ARM_CC) -O3 -static -pthread -Iext tests/native/simd_check.c ext/simd.c ext/scan.c ext/codes.c \
	    -o build/simd_check -lm
	$(ARM_RUN) build/simd_check

soak: $(VENV)/developed ## four processes edit, search and are killed for SOAK_MINUTES (30), then the index is compared
	rm -rf build/soak
	mkdir -p build/soak
	PYTHONPATH=tests $(VENV)/bin/python tests/soak.py build/soak/notes $$(($(SOAK_MINUTES) * 60)) $$(($(SOAK_MINUTES) * 20)) 7

docs: $(VENV)/developed ## the pages of docs/ as HTML in build/docs; any warning is an error
	$(RUN) sphinx -q -W --keep-going docs build/docs

clean: ## delete everything that was built or installed
	rm -rf $(VENV) build dist src/*.egg-info src/vademecum/_native/*.so .benchmarks .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# An old pip does not know --group.
$(VENV)/created:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(INSTALL) --upgrade pip
	touch $@

$(VENV)/installed: $(VENV)/created $(EXTENSION)
	$(VENV)/bin/python $(INSTALL) --editable ".[local]"
	touch $@

$(VENV)/developed: $(VENV)/created $(EXTENSION)
	$(VENV)/bin/python $(INSTALL) --group dev --editable ".[local,openai,ann,watch,knowledge,mcp]"
	touch $@
