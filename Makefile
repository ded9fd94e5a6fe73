PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help setup browser postgresql reproduce tables bench pictures test test-long coverage lint docs release-check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: $(STAMP)  ## create .venv and install the package with its development tools

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "psconrl needs Python 3.11 or newer; try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --no-compile --editable . --group dev
	touch $@

browser:  ## install what the tests of the report need: Debian's Chromium, and axe-core by npm
	command -v chromium || ($(ROOT) apt-get update && $(ROOT) apt-get install --yes --no-install-recommends chromium)
	command -v npm || ($(ROOT) apt-get update && $(ROOT) apt-get install --yes --no-install-recommends npm)
	test -d node_modules/axe-core || npm install --no-save --no-package-lock --no-audit --no-fund axe-core

postgresql:  ## install what the tests of shared learners need: Debian's PostgreSQL
	test -n "$$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null)" || ($(ROOT) apt-get update && $(ROOT) apt-get install --yes --no-install-recommends postgresql)

reproduce: setup  ## run the paper's experiments at its scale: figures, claims, tables and a report in results/
	$(BIN)/python -m reproduction --out results

tables: setup  ## for maintainers: write the numbers and figures of results/, and those of benchmarks, into README and docs
	$(BIN)/python -m reproduction.write_docs $(wildcard results)

bench: setup  ## measure the speed of everything: docs/benchmarks.md
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python -m reproduction.write_docs

pictures: setup  ## draw the pictures of README and documentation that are not the paper's
	$(BIN)/python -m docs.draw_worlds
	$(BIN)/python -m docs.draw_steering
	$(BIN)/python -m docs.draw_learning

test: lint  ## ruff, mypy (strict) and all tests but the long ones
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup

test-long: setup  ## the long statistical checks
	$(BIN)/python -m pytest -m long

coverage: setup  ## which lines the tests do not reach
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --cov

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup  ## build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html

release-check: setup  ## build sdist and wheel, install the wheel elsewhere, run README there
	$(BIN)/python docs/release_check.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build node_modules
