# One set of commands for people and for CI; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
DOCS := $(VENV)/.docs
BROWSER := $(VENV)/.browser
# Each worker starts with a part of the suite of its own, so that two seldom compile the same kernel at once.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal
PORTABLE := $(CURDIR)/build/portable-kernels
BOUNDS := $(CURDIR)/build/bounds-kernels

.DEFAULT_GOAL := help
.PHONY: help setup demo live test test-extras test-long test-browser test-portable campaigns kernels lint format docs docs-serve docs-cli bench attack soak test-bounds test-python test-lowest constraints lock setup-locked release-check clean clean-kernels

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## create .venv and install everything but the heavy extras

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("rankloop needs Python 3.11 or newer; say which with PYTHON=…" if sys.version_info < (3, 11) else 0)'
	@echo "Installing into $(VENV) (a minute or two, once) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[export,live,logs,reports,trees]' --group dev
	@touch $@

$(EXTRAS): $(READY) constraints-extras.txt
	@echo "Installing the extras (torch, ray, pyspark) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement constraints-extras.txt
	@touch $@

$(DOCS): $(READY)
	@echo "Installing what the documentation needs …"
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

# Without a network, the tests are skipped and say why.
$(BROWSER): $(READY)
	@.ci/chromium
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser \
		&& touch $@ || echo "playwright could not be installed: tests in a browser are skipped."

demo: $(READY) ## learn from simulated clicks: a table and a page of curves, under three minutes
	@$(BIN)/rankloop demo

live: $(READY) ## the live service with simulated users, and its page in the browser; Ctrl-C ends it
	@$(BIN)/python -m rankloop.live.demo

test: $(READY) ## lint, types, import directions, tests and doctests; no heavy extras
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint kernels
	$(PYTEST) -m "not extras and not long"
	@echo "Left out: tests that need torch, ray or Spark (make test-extras) and long ones (make test-long)."

test-extras: $(EXTRAS) ## the tests that need heavy extras (torch, ray, Spark), which it installs
	$(BIN)/python -m pytest -m extras --numprocesses 2 --dist loadfile tests

test-long: $(READY) ## the tests that take long: statistical checks, large sizes, the walk-through
	$(PYTEST) -m "long and not extras" tests

campaigns: $(READY) ## the longest tests: the live service for an hour, and a thousand logs put to every command
	RANKLOOP_CAMPAIGNS=1 $(BIN)/python -m pytest -m long tests/live tests/offline/test_commands_agree.py

test-browser: $(BROWSER) ## the page of the live service in a real browser; installs chromium (apt-get) and playwright
	$(BIN)/python -m pytest -m long tests/live/test_browser.py

test-portable: $(READY) ## before a release: all tests but the extras, with the arithmetic of another processor
	rm -rf $(PORTABLE)
	NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= OPENBLAS_CORETYPE=Prescott NUMBA_CACHE_DIR=$(PORTABLE) \
		$(PYTEST) -m "not extras"

test-bounds: $(READY) ## before a release: the tests of compiled code, with every index checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(BOUNDS) $(PYTEST) -m "not extras and not long" \
		tests/kernels tests/policies tests/online tests/training tests/objectives tests/estimators tests/clicks

test-python: $(READY) ## before a release: the tests with another Python, VERSION=3.13 or the path of one
	$(BIN)/python .ci/versions.py pinned --python $(or $(VERSION),3.13)

test-lowest: $(READY) ## before a release: the tests with the lowest versions of dependencies that are allowed
	$(BIN)/python .ci/versions.py lowest $(if $(VERSION),--python $(VERSION))

kernels: $(READY) ## compile the kernels that tests need, once, before several processes need them
	@$(BIN)/python -m tests.compile_kernels

lint: $(READY) ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS) ## build the site in build/site; broken links and warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Open build/site/index.html; for the search, which needs a server, run: make docs-serve"

docs-serve: $(DOCS) ## the site on loopback, rebuilt as pages change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

docs-cli: $(READY) ## bring docs/cli.md and docs/settings.md up to date
	$(BIN)/python -m rankloop.cli.reference docs/cli.md docs/settings.md

bench: $(READY) ## ratios against baselines measured in the same run; writes build/bench.json
	$(BIN)/python -m benchmarks

attack: $(READY) ## long campaigns against readers, kernels and files: BUDGET seconds each, SEED=… repeats one
	$(BIN)/python -m tests.attack --budget $(or $(BUDGET),60) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

soak: $(READY) ## the same work again and again for SECONDS: memory, threads and open files stay flat
	nice $(BIN)/python -m tests.attack.soak --seconds $(or $(SECONDS),900)

lock: $(READY) ## write requirements-lock.txt: the packages of constraints.txt with hashes, for this system
	$(BIN)/python .ci/lock.py

setup-locked: ## create .venv from requirements-lock.txt: every file is compared with its hash
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

release-check: $(READY) ## before a release: a reproducible wheel that works in an empty environment, known licences
	PYTHONPATH=. $(BIN)/python .ci/release_check.py

constraints: $(READY) ## pin the versions that are installed now
	$(BIN)/python -m pip freeze --exclude-editable --all | grep -vE '^(torch|ray)==' > constraints.txt

clean-kernels: ## forget compiled kernels
	find rankloop -name "*.nb[ci]" -delete

clean: ## remove .venv, build and compiled kernels
	rm -rf $(VENV) build dist
	find rankloop -name '*.nb[ci]' -delete
