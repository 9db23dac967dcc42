# make demo | test | check | bench | bench-full | bench-peers | bench-hooks | hooks-full | findings-full | soak | fuzz |
# brokers: each does its own set-up in .venv.
#
# Variables: PYTHON (any Python from 3.11 on), SECONDS (how long the demo runs), VENV, ARGS (handed to pytest or bench),
# WORKERS (processes that test side by side, each with its own brokers; 0: this one).

PYTHON ?= python3
VENV ?= .venv
SECONDS ?= 60
ARGS ?=
WORKERS ?= 2
BIN := $(VENV)/bin
# What an installation depends on: the compiled core is made with it.
BUILT := pyproject.toml hatch_build.py $(wildcard collector/*/*.pxd) $(patsubst %.pxd,%.py,$(filter-out %/layout.pxd,$(wildcard collector/*/*.pxd)))

.PHONY: help demo test check bench bench-full bench-peers bench-hooks hooks-full findings-full soak fuzz brokers clean

help:
	@sed -n '1,6s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.run
	$(BIN)/tasktrail demo --seconds $(SECONDS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --rerun-show-tracebacks $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tasktrail check rules
	$(BIN)/tasktrail test rules/shipped_test.yaml
	$(BIN)/python -m pip check
	$(BIN)/python -m tests.audit

bench: $(VENV)/.dev
	$(BIN)/python -m tests.brokers run kafka -- sh -c '$(BIN)/tasktrail bench --kafka "$$TASKTRAIL_TEST_KAFKA" $(ARGS)'

bench-full: bench
	$(BIN)/python -m collector.bench.memory 1000000
	$(BIN)/python -m tests.bench.latency
	$(BIN)/python -m tests.bench.sources
	$(BIN)/python -m tests.bench.probes rabbitmq
	$(BIN)/python -m tests.bench.bullmq
	$(BIN)/python tests/bench/formats.py
	$(BIN)/python tests/bench/stitch.py
	$(BIN)/python tests/bench/series.py
	$(BIN)/python -m tests.bench.checkpoints
	$(BIN)/python -m tests.bench.kept
	$(BIN)/python tests/bench/promql.py

bench-peers: $(VENV)/.dev
	$(BIN)/python -m tests.bench.peers $(ARGS)

# Each hook in real workers of its framework: what it costs, and 10,000 tasks of which none is lost or counted twice.
bench-hooks: $(VENV)/.dev
	$(BIN)/python -m tests.bench.hooks $(ARGS)

hooks-full: $(VENV)/.dev
	TASKTRAIL_HOOK_TASKS=10000 $(BIN)/python -m pytest tests/integration/hooks/test_frameworks.py $(ARGS)

# 50 seeds of 10,000 trails whose findings are known: every planted one once, and nothing else.
findings-full: $(VENV)/.dev
	TASKTRAIL_FINDING_SEEDS=50 TASKTRAIL_FINDING_TRAILS=10000 $(BIN)/python -m pytest \
		tests/unit/truth/test_findings.py $(ARGS)

soak: $(VENV)/.dev
	TASKTRAIL_KILLS=$${TASKTRAIL_KILLS:-100} TASKTRAIL_KILL_WINDOW=2s TASKTRAIL_FROZEN=40 $(BIN)/python -m pytest -s \
		tests/integration/test_kill.py tests/integration/test_kill_counts.py tests/integration/test_links.py $(ARGS)
	TASKTRAIL_REDRIVEN=10000 TASKTRAIL_KILLS=10 $(BIN)/python -m pytest tests/integration/test_redrive.py $(ARGS)
	TASKTRAIL_REDRIVEN=1000 $(BIN)/python -m pytest tests/integration/test_redrive_jobs.py $(ARGS)
	TASKTRAIL_DEAD=1000 $(BIN)/python -m pytest tests/integration/test_dead_frameworks.py $(ARGS)
	TASKTRAIL_FAILOVER=yes $(BIN)/python -m pytest tests/integration/test_failover.py tests/integration/test_rolling.py $(ARGS)
	TASKTRAIL_REBALANCES=20 $(BIN)/python -m pytest tests/integration/test_rebalances.py $(ARGS)
	$(BIN)/python -m tests.soak 120
	$(BIN)/python -m tests.bench.bounds

# A million torn inputs over everything that reads bytes of others; FUZZ is how many, and a seed behind it.
FUZZ ?= 1000000
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz $(FUZZ)

brokers: $(VENV)/.dev
	$(BIN)/python -m tests.brokers up

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

# The two set-ups: what the program needs, and what its developers need besides. Each is made again when
# pyproject.toml has changed. pip says itself what it could not get; the line after it says what to do.

$(VENV)/.run: $(BUILT) | $(BIN)/python
	@$(call install,.)
	@touch $@

$(VENV)/.dev: $(BUILT) | $(BIN)/python
	@$(call install,.[dev])
	@touch $@ $(VENV)/.run

define install
echo "make: installing '$(1)' into $(VENV) (once; it may take a minute)" >&2; \
$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)' || { \
	echo 'make: pip could not install what $(1) needs (its own words are above).' >&2; \
	echo 'make: it needs a package index: name yours with PIP_INDEX_URL, or a folder of wheels with PIP_FIND_LINKS.' >&2; \
	exit 1; }
endef

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo 'make: there is no $(PYTHON); name a Python from 3.11 on: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $$($(PYTHON) --version) is too old; name a Python from 3.11 on: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo 'make: this Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv' >&2; \
		exit 1; }
	@echo 'make: making the virtual environment $(VENV)' >&2
	@$(PYTHON) -m venv $(VENV)
