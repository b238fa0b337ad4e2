# Every target sets up what it needs in .venv, and again when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/

# A virtual environment whose interpreter no longer runs, or that was made elsewhere, is made anew.
ifneq ($(shell $(RUN)python -c 'import sys; print(sys.prefix)' 2>/dev/null),$(abspath $(VENV)))
$(shell rm -rf $(VENV))
endif

# Compiled sources are kept wherever they can be: without them each of the processes that tests start compiles all anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: report explore docs test test-slow test-torch check check-types check-rest bench sweeps dist smoke format clean

report: $(VENV)/ready
	$(RUN)biasfree reproduce --out report

explore: $(VENV)/ready
	$(RUN)biasfree explore

# The site, docs/_build/html/index.html: studies for verdicts and pictures, all pages and notebooks, then its tests.
docs: $(VENV)/ready
	$(RUN)biasfree reproduce --quick --quiet --out docs/_build/studies
	$(RUN)sphinx-build -q -E -W --keep-going -b html docs docs/_build/html
	$(RUN)pytest -q -m slow tests/site/test_site.py
	@echo "wrote docs/_build/html/index.html"

# Two processes; a file's tests stay together, since they share runs and compiled functions. tests/conftest.py says in
# which order the files come. With a thread each: those of a matrix library would wait for each other.
test: $(VENV)/ready
	OPENBLAS_NUM_THREADS=1 $(RUN)pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/ready
	$(RUN)pytest -m slow

# What needs PyTorch, which the set-up of the benchmarks brings.
test-torch: $(VENV)/ready-bench
	$(RUN)pytest -m torch -rs

# The types beside the rest: they take longest.
check: $(VENV)/ready
	@$(MAKE) --no-print-directory -j 2 check-types check-rest

check-types: $(VENV)/ready
	$(RUN)mypy

check-rest: $(VENV)/ready
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)lint-imports

bench: $(VENV)/ready-bench
	$(RUN)python -m bench

# The phase diagrams of docs/sweeps.md; started again, they go on where they were.
sweeps: $(VENV)/ready
	mkdir -p .cache/sweeps
	for plan in six-points noisy-gaussian theorem-5 weight-decay; do \
	  $(RUN)biasfree sweep $$plan --workers 2 --folder .cache/sweeps/$$plan.runs --out .cache/sweeps/$$plan.nc \
	    --plot docs/sweep-$$plan.png || exit 1; \
	done

# The wheel is built from the source distribution; timestamps are fixed, so the bytes depend on the files alone.
dist: $(VENV)/ready
	rm -rf dist
	$(RUN)python -m build --no-isolation --outdir dist

# The wheel in a fresh environment outside the checkout: every command, and the README's examples.
smoke: dist
	set -e; folder=$$(mktemp -d); trap 'rm -rf $$folder' EXIT; \
	$(PYTHON) -m venv $$folder/venv; \
	$$folder/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/*.whl; \
	cp tests/smoke.py README.md $$folder; cd $$folder; venv/bin/python smoke.py README.md

format: $(VENV)/ready
	$(RUN)ruff check --fix .
	$(RUN)ruff format .

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis report build dist docs/_build docs/generated

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "biasfree needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/ready-bench: $(VENV)/ready
	$(RUN)python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@
