# Every target makes what it needs in .venv of the repository; with `uv` on the PATH it is used, else python3's own venv and pip.
#   make test PYTHON=python3.13      another interpreter (3.11 or later)
#   make bench BENCH="benchmarks/kernels.py" BENCH_ARGS=    other benchmarks, or at full length

PYTHON ?= python3
VENV ?= .venv
BENCH ?= benchmarks/kernels.py
BENCH_ARGS ?= --quick

BIN := $(VENV)/bin
# one stamp per interpreter and dependency group: written after an installation, older than pyproject.toml means install again
STAMP := $(VENV)/.installed-$(subst /,_,$(PYTHON))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo study test check bench build smoke clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)-run ## learn a small social network, rank its missing links, write ./demo/
	$(BIN)/consmrf demo

study: $(STAMP)-run ## compare all methods on small graphs, write ./study/
	$(BIN)/consmrf study --quick --out study

test: $(STAMP)-test ## run the whole test-suite, a process per core (ARGS="-n0 -k name" narrows it, in one)
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

check: $(STAMP)-check ## lint, format, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)-test ## list the benchmarks and run the quick one
	@echo "choose with BENCH=, at full length with BENCH_ARGS="
	@awk 'FNR == 1 { gsub(/"""/, ""); printf "  %s: %s\n", FILENAME, $$0 }' benchmarks/*.py
	@set -e; for script in $(BENCH); do echo "== $$script $(BENCH_ARGS)"; $(BIN)/python $$script $(BENCH_ARGS); done

build: $(STAMP)-build ## build the source archive and, from it, the wheel, in dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist

smoke: build ## install the wheel in an environment of its own and use it there
	scripts/smoke $(PYTHON) dist/*.whl

clean: ## remove what the other targets made (.venv stays)
	rm -rf demo study dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP)-run: pyproject.toml scripts/environment
	scripts/environment $(PYTHON) $(VENV) --editable .
	@touch $@

$(STAMP)-%: pyproject.toml scripts/environment
	scripts/environment $(PYTHON) $(VENV) --editable . --group $*
	@touch $@
