# `make demo` and `make test` need Python 3.11 or newer, make, and the package registry; `make test`
# also needs Java 17 or newer, for the tests with Spark, and looks at the map where it finds a Chromium.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
DEMO_ARGS ?=

.PHONY: demo test java lint unit soak bench clean

# Where this is set, each of the many processes would read every source anew, and every test.
unexport PYTHONDONTWRITEBYTECODE

# `make demo ENGINE=embedded DEMO_ARGS="--duration 60 --no-browser"`. Spark is only installed where
# there is a Java that it can run on.
demo: $(VENV)/.core $(VENV)/.kernels $(if $(filter embedded,$(ENGINE)),,$(VENV)/.spark)
	@ENGINE=$(or $(ENGINE),auto) $(BIN)/nearcast demo $(DEMO_ARGS)

test: java lint unit

# Finds Java, or says how to get it.
java: $(VENV)/.dev
	@$(BIN)/python -m nearcast.spark.java

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev $(VENV)/.kernels
	$(BIN)/pytest -n auto --dist worksteal $(PYTEST_ARGS)

# The long runs, then the search for examples that break a property: `make soak SEARCH_MINUTES=60`.
# What the one finds does not keep the other from looking.
soak: $(VENV)/.dev $(VENV)/.kernels
	@found=0; $(BIN)/pytest -m soak $(PYTEST_ARGS) || found=1; \
	$(BIN)/python tests/soak/search.py --minutes $(or $(SEARCH_MINUTES),60) || found=1; exit $$found

bench: $(VENV)/.core $(VENV)/.kernels
	$(BIN)/nearcast bench ingest

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Nearcast needs Python 3.11 or newer: install it, or name it with 'make PYTHON=/path/to/python'."; exit 2; }
	@echo "Creating $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: on Debian and Ubuntu, 'apt install python3-venv'."; rm -rf $(VENV); exit 2; }

# A compiled kernel is kept beside its source, and numba looks at that one file to see whether it is
# still right. It may hold code of other files too: whenever any source changes, all are made anew.
$(VENV)/.kernels: $(shell find src -name '*.py') | $(BIN)/python
	@find src -name '*.nb[ic]' -delete
	@touch $@

$(VENV)/.core: $(BIN)/python pyproject.toml
	@echo "Installing nearcast ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[server]"
	@touch $@

$(VENV)/.spark: $(VENV)/.core
	@if $(BIN)/python -m nearcast.spark.java >/dev/null 2>&1; then \
	echo "Installing Spark, once (make demo ENGINE=embedded does without) ..."; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[server,spark]"; fi
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	@echo "Installing nearcast and its development tools ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/.core
