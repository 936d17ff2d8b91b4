# `make demo` and `make test` need Python 3.11 or newer, make, and the package registry; `make test`
# also needs Java 17 or newer, for the tests with Spark, and looks at the map where it finds a Chromium.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST_ARGS ?=
DEMO_ARGS ?=
SPARK_INSTALL = $(MAKE) --silent $(VENV)/.spark

.PHONY: demo test java lint unit kernels soak cluster-test lowest bench wheel dist lock locked docs first-minute clean

# Where this is set, each of the many processes would read every source anew, and every test.
unexport PYTHONDONTWRITEBYTECODE

# `make demo ENGINE=embedded DEMO_ARGS="--duration 60 --no-browser"`. Spark is only installed where
# there is a Java that it can run on; unless it is all that was asked for, while the demo runs.
demo: $(VENV)/.core $(if $(filter spark,$(ENGINE)),$(VENV)/.spark)
	@ENGINE=$(or $(ENGINE),auto) SPARK_INSTALL="$(SPARK_INSTALL)" $(BIN)/nearcast demo $(DEMO_ARGS)

# Static checks run beside the tests, and are shown after them.
test: java
	@$(MAKE) --silent lint >$(VENV)/lint.txt 2>&1 & lint=$$!; \
	$(MAKE) --silent unit; tests=$$?; \
	wait $$lint; lint=$$?; cat $(VENV)/lint.txt; exit $$((tests | lint))

# Finds Java, or says how to get it.
java: $(VENV)/.dev
	@$(BIN)/python -m nearcast.spark.java

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev kernels
	$(BIN)/pytest -n auto --dist worksteal $(PYTEST_ARGS)

# Compiles what is not compiled yet; an installation does so while it downloads.
kernels: $(VENV)/.core
	@$(BIN)/nearcast kernels build --all

# The long runs, simulated worlds by many seeds, the tests with the lowest versions of all
# dependencies, then the search for examples that break a property: `make soak SEEDS=10000
# SEARCH_MINUTES=60`. What one finds does not keep the others from looking.
soak: $(VENV)/.dev kernels
	@found=0; $(BIN)/pytest -m soak $(PYTEST_ARGS) || found=1; \
	$(BIN)/python tests/soak/simulate.py --seeds $(or $(SEEDS),10000) || found=1; \
	$(MAKE) --silent cluster-test || found=1; \
	$(MAKE) --silent lowest || found=1; \
	$(BIN)/python tests/soak/search.py --minutes $(or $(SEARCH_MINUTES),60) || found=1; exit $$found

# A cluster of Spark with four workers on this machine, which are killed and replaced.
cluster-test: java kernels
	$(BIN)/pytest -m cluster $(PYTEST_ARGS)

# `make lowest PYTEST_ARGS="tests/text tests/store"` for some of them.
lowest: $(BIN)/python
	@$(BIN)/python tools/lowest.py $(PYTEST_ARGS)

# Writes down the versions, with hashes, of everything that is used to develop; `make locked` installs
# exactly those, where `make test` takes the latest that fit.
lock: $(BIN)/python
	@$(PIP) uv
	@$(BIN)/python -m uv pip compile pyproject.toml --extra dev --extra docs --extra dist --universal \
	--python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade --quiet \
	--output-file requirements-dev.lock

locked: $(BIN)/python requirements-dev.lock
	@$(PIP) --require-hashes --requirement requirements-dev.lock
	@$(PIP) --no-deps --editable .
	@touch $(VENV)/.core $(VENV)/.dev $(VENV)/.docs $(VENV)/.dist

bench: $(VENV)/.core kernels
	$(BIN)/nearcast bench ingest

# A wheel with its kernels, for this platform and this Python.
wheel: $(VENV)/.dist
	@$(BIN)/python tools/wheel.py dist

# What is published: the wheel with its kernels, the clients alone, and the sources; checked,
# installed and tried.
dist: $(VENV)/.dist
	@rm -rf dist
	@$(BIN)/python tools/wheel.py dist
	@$(BIN)/python tools/client.py dist
	@$(BIN)/python -m build --sdist --outdir dist >/dev/null
	@$(BIN)/python tools/dist.py dist

# The documentation as a site, in out/site: every link is followed, every warning is an error.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "out/site/index.html"

# What somebody sees who has just installed it: every kernel is deleted first, every phase timed.
first-minute: $(VENV)/.core $(VENV)/.spark
	@$(BIN)/python tools/first_minute.py

clean:
	rm -rf $(VENV) dist src/nearcast/_kernels .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Nearcast needs Python 3.11 or newer: install it, or name it with 'make PYTHON=/path/to/python'."; exit 2; }
	@echo "Creating $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: on Debian and Ubuntu, 'apt install python3-venv'."; rm -rf $(VENV); exit 2; }

$(VENV)/.core: $(BIN)/python pyproject.toml
	@echo "Installing nearcast ..."
	@$(PIP) --editable ".[server]"
	@touch $@

# What Spark needs and nothing else: the package itself may be in use meanwhile.
$(VENV)/.spark: $(VENV)/.core
	@if $(BIN)/python -m nearcast.spark.java >/dev/null 2>&1; then \
	echo "Installing Spark and compiling kernels, once (make demo ENGINE=embedded does without) ..."; \
	$(BIN)/nearcast kernels build & compiling=$$!; \
	$(BIN)/python tools/extras.py spark | $(PIP) --requirement /dev/stdin && wait $$compiling && touch $@; fi

$(VENV)/.docs $(VENV)/.dist: $(VENV)/.%: $(VENV)/.core
	@$(BIN)/python tools/extras.py $* | $(PIP) --requirement /dev/stdin
	@touch $@

# The tools are large: kernels are compiled while they are downloaded.
$(VENV)/.dev: $(VENV)/.core
	@echo "Installing the development tools and compiling kernels, once ..."
	@$(BIN)/nearcast kernels build --all & compiling=$$!; \
	$(BIN)/python tools/extras.py dev | $(PIP) --requirement /dev/stdin && wait $$compiling
	@touch $@
