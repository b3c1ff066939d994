# `make demo` and `make test` install everything that they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-all test-slow lint format docs benchmarks tutorials site lock clean

demo: $(VENV)/.runtime site
	@$(BIN)/sibling demo

# The quick tests, for every commit; all of them; and those that the quick ones leave out. Tests are
# compiled once, also where PYTHONDONTWRITEBYTECODE is set: each process would do it anew.
# With COVERAGE=1 they measure coverage; that of all tests fails below the minimum in pyproject.toml.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal $(if $(COVERAGE),--cov --cov-report=term:skip-covered)

test: $(VENV)/.dev site
	$(PYTEST) $(if $(COVERAGE),--cov-fail-under=0)

test-all: $(VENV)/.dev site
	$(PYTEST) -m "slow or not slow"

test-slow: $(VENV)/.dev site
	$(PYTEST) -m slow

# A broken link is a warning of `make site`, and its warnings are errors.
lint: $(VENV)/.dev site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Generated pages, which tests compare with the code.
docs: $(VENV)/.runtime
	$(BIN)/python -m service.tools.generate
	$(BIN)/python -m benchmarks --page

# Runs the benchmarks and writes docs/benchmarks: QUICK=1 for short forms, DATA=FOLDER for datasets.
benchmarks: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(DATA),--data $(DATA))

# Pages of docs/tutorials, from the notebooks, and pictures of pages; needs a service (`sibling serve`) without data.
tutorials: $(VENV)/.dev
	$(BIN)/python docs/tutorials/browser.py
	$(BIN)/python docs/tutorials/render.py

# The documentation as a site, which the service has at /help. Warnings are errors.
SITE := service/help
DOCS := $(VENV)/docs
site: $(SITE)/index.html

$(SITE)/index.html: $(shell find docs -type f -not -path '*/__pycache__/*') | $(DOCS)/.installed
	@rm -rf $(SITE)
	$(DOCS)/bin/python -m sphinx -E -W --keep-going -q -d $(VENV)/site docs $(SITE)
	@rm -rf $(SITE)/.buildinfo $(SITE)/objects.inv $(SITE)/_sources

# Lock files with versions and hashes, without registry addresses.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: $(VENV)/.dev
	$(LOCK) pyproject.toml --extra server --extra build -o requirements.lock
	$(LOCK) pyproject.toml --extra server --extra build --extra dev --extra tracing --group docs -o requirements-dev.lock
	$(LOCK) --group docs -o requirements-docs.lock

clean:
	rm -rf $(VENV)

# The lock files have every package, so pip resolves nothing: asked for `coverage[toml]`, it would
# take the newest release instead of the one that is locked.
#
# Bytecode and the numerical kernels are compiled here, so that neither a start nor a job waits for
# it, also where PYTHONDONTWRITEBYTECODE is set. All cores compile, where pip would use one. What only
# tests need is compiled by collecting them, where each test process would compile it anew.
$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "Installing (once) ..."
	@$(PIP) install --no-compile --no-deps --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib algorithms migrations service sibling
	@$(BIN)/python -m service.operations.warm
	@touch $@

# An environment of its own, as two of its packages have other versions than those of the service.
$(DOCS)/.installed: requirements-docs.lock | $(VENV)/pyvenv.cfg
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements-docs.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@$(PIP) install --no-compile --no-deps --require-hashes -r requirements-dev.lock
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -qq --collect-only > /dev/null
	@touch $@

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -m venv $(VENV)
