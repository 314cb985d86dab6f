# Two commands do everything: `make demo` (the whole loop on this machine) and `make test`. Before a release: `make test-all`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# torch's CPU build where the pinned release is at hand; see constraints.txt. Python compiles what is imported when it is
# imported: of 18,000 files in all, which pip would spend a minute on
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# each file by its hash; torch and Meshwright itself come after, without: locks/README.md
LOCKED := $(PIP) --require-hashes -r
OWN    := $(PIP) --no-deps --no-build-isolation -e .

# torch alone is 2 CPU seconds to load, and 4 where what Python compiled of it may not be kept: some environments forbid
# it, and a run of the tests starts more than a hundred processes
unexport PYTHONDONTWRITEBYTECODE

.PHONY: locks demo test tests verdicts test-all mutants lint types gate bench clean reproduce install-torch install-dev

demo: $(VENV)/.torch
	$(BIN)/meshwright demo --out demo-out

# pyright takes one core for a minute or two, beside the tests; tests/conftest.py says which tests want the machine alone
test: $(VENV)/.dev lint gate
	$(MAKE) --no-print-directory -j2 types tests
	$(MAKE) --no-print-directory verdicts
	$(BIN)/python -m pytest -q -m alone

# a file's tests share what they set up, a room's what they compile: tests/by_rooms.py
tests: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'not alone'

# slow tests too, and examples that are drawn anew; docs/testing.md says what becomes of what it finds
test-all: $(VENV)/.dev lint gate types
	$(BIN)/python -m pytest -q --everything -n 2 --dist loadfile -m 'not alone'
	$(BIN)/python -m pytest -q --everything -m alone
	$(MAKE) --no-print-directory mutants

# plants bugs in copies of the tree; fails where the related tests notice too few of them
mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py --workers 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/pyright

# the project's own planners, held against their baseline; docs/gate.md says how to update it
gate: $(VENV)/.dev
	$(BIN)/meshwright regress standard --baseline gate/data/standard.baseline.json --workers 2

# the papers' figures, short versions: no verdict may change unseen; docs/gallery.md says how to keep new ones
verdicts: $(VENV)/.dev
	$(BIN)/meshwright reproduce all --fast --check --workers 2 --out build/verdicts

bench: $(VENV)/.dev
	$(BIN)/python -m pytest -q -s -o addopts= --import-mode=importlib tests/benchmarks

reproduce: $(VENV)/.torch
	$(BIN)/meshwright reproduce all --fast --out reproduce-out

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "meshwright needs Python >= 3.11; set PYTHON=python3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# all that README's commands need
$(VENV)/.torch: $(VENV)/.created pyproject.toml constraints.txt locks/run.txt
	$(LOCKED) locks/run.txt
	$(PIP) -c constraints.txt torch
	$(OWN)
	touch $@

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt locks/dev.txt
	$(LOCKED) locks/dev.txt
	$(PIP) -c constraints.txt torch
	$(OWN)
	touch $(VENV)/.torch $@

# after a change of dependencies; uv comes into an environment of its own
locks:
	$(PYTHON) -m venv $(VENV)/locks
	$(VENV)/locks/bin/python -m pip install --quiet --disable-pip-version-check uv
	UV=$(VENV)/locks/bin/uv locks/make.sh

clean:
	rm -rf $(VENV) build *.egg-info demo-out reproduce-out .pytest_cache .ruff_cache .hypothesis
