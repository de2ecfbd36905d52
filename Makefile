# Everything from a fresh clone: `make run` starts a node, `make test` runs the tests. Needs Python 3.11+, make and git.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
WORKERS ?= 6
# Six at a time on two cores: most tests wait for another process much of the time.
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq

# Each process of a run would compile every module again: a node starts three times as fast from bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all check torture bench docs clean locks

help:
	@echo "make run       start a node to try: tidings serve --dev        (ARGS='--port 9000')"
	@echo "make test      the tests, without the long ones                (ARGS='-k unread')"
	@echo "make check     lint, types, tidy and the tests: what CI runs"
	@echo "make test-all  the long tests too"
	@echo "make torture   an hour of faults against a Tidings of its own    (ARGS='--seconds 60 --seed 7')"
	@echo "make bench     the benchmarks; results in bench-results           (ARGS='--quick')"
	@echo "make docs      the documentation as a site with a search, in site/"
	@echo "make setup     the environment only: $(VENV), with the tidings command in it"
	@echo "make clean     remove the environment and what tools left behind (never a node's data)"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements/dev.txt pyproject.toml clients/python/pyproject.toml proof/pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" tools/environment.sh dev
	@touch $@ $(VENV)/.ready-run

$(VENV)/.ready-run: requirements/run.txt
	@test -e $(VENV)/.ready || PYTHON="$(PYTHON)" VENV="$(VENV)" tools/environment.sh run
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready requirements/bench.txt
	@echo "setup: installing requirements/bench.txt into $(VENV) ..."
	@$(PIP) --no-deps --require-hashes -r requirements/bench.txt
	@touch $@

run: $(VENV)/.ready-run
	@exec $(BIN)/tidings serve --dev $(ARGS)

test: setup
	@tools/packages.sh
	@echo "test: Valkey and SQLite are embedded; servers listen on loopback and unix sockets; what is missing is named"
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -q >/dev/null || true  # compiles once, not six times
	@$(PYTEST) -m "not long" $(ARGS)

test-all: setup
	@tools/packages.sh
	@$(PYTEST) $(ARGS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@git ls-files -z | xargs -0 $(BIN)/codespell
	@$(BIN)/mypy --strict src clients/python/src proof/src examples tests
	@$(MAKE) --no-print-directory test

torture: setup
	@$(BIN)/tidings torture --seconds 3600 --report torture.html $(ARGS)

bench: $(VENV)/.ready-bench
	@$(BIN)/tidings bench all $(ARGS)

docs: $(VENV)-docs/.ready
	@$(VENV)-docs/bin/zensical build >/dev/null

$(VENV)-docs/.ready: requirements/docs.txt
	@$(PYTHON) -m venv --clear $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip --disable-pip-version-check install -qq --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

# The locks name exact versions and hashes and no host, so they hold wherever the packages come from. Python before 3.11.3
# needs async-timeout too: a lock that a later Python makes leaves it out, and it must be put back.
LOCK := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

locks: setup
	@$(BIN)/python -m pip --disable-pip-version-check install -q pip-tools
	@$(BIN)/python tools/requirements.py pyproject.toml[thumbnails] clients/python/pyproject.toml \
	  | $(LOCK) -o requirements/run.txt -
	@$(BIN)/python tools/requirements.py pyproject.toml[dev] clients/python/pyproject.toml proof/pyproject.toml \
	  | $(LOCK) -c requirements/run.txt -o requirements/dev.txt -
	@$(LOCK) --extra aws --extra dynamodb --extra otel --extra postgresql --extra push --extra thumbnails -c requirements/dev.txt -o requirements/image.txt pyproject.toml
	@$(LOCK) --only-build-deps --build-deps-for wheel -c requirements/dev.txt -o requirements/build.txt pyproject.toml
	@$(BIN)/python tools/requirements.py pyproject.toml[dev] clients/python/pyproject.toml proof/pyproject.toml[peers] \
	  | $(LOCK) -c requirements/dev.txt -o requirements/bench.txt -
	@$(LOCK) -o requirements/s3.txt requirements/s3.in
	@$(LOCK) -o requirements/docs.txt requirements/docs.in
	@$(LOCK) -c requirements/dev.txt -o requirements/guides.txt requirements/guides.in

clean:
	@rm -rf $(VENV) $(VENV)-s3 $(VENV)-docs site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
