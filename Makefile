# The two commands: `make demo` shows the tool at work, `make test` is what CI runs.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of processes import the package; where this is set, each would compile it anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint types install browser clean

demo: .venv/installed
	$(BIN)/legroom plan digits --device cpu

# Most tests start processes that import torch, so several run at a time: one more than cores (tests/conftest.py).
test: lint types browser
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

install: .venv/installed

# Debian's chromium, for the test of the report page; where it cannot be installed, that test is skipped with the reason.
APT := apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium
browser:
	@command -v chromium >/dev/null || $(if $(filter 0,$(shell id -u)),,sudo -n) env DEBIAN_FRONTEND=noninteractive sh -c '$(APT)' >/dev/null \
	  || echo "chromium could not be installed: the browser test will be skipped"

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
