# The two commands: `make demo` shows the tool at work, `make test` is what CI runs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types install clean

demo: .venv/installed
	$(BIN)/legroom plan digits --device cpu

test: lint types
	$(BIN)/python -m pytest

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

install: .venv/installed

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "legroom needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist legroom-out src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
