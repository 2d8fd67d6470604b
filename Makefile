# make run | make test | make lint. Everything is installed into .venv, from lock files with hashes.

# The first Python that is new enough; PYTHON=… chooses another.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python3.14; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$candidate"; break; }; \
	done)
VENV := .venv/bin/python
PYTEST := $(VENV) -m pytest -q

.DEFAULT_GOAL := help
.PHONY: help run test lint python installed installed-dev

help:
	@echo "make run    set up and serve the product on PORT (8000); make run ARGS=--help lists its settings"
	@echo "make test   the whole suite: lint, tests, real processes, browser"
	@echo "make lint   format, style, types, layers, migrations"

run: installed
	@exec $(VENV) -m receipts_project.launch $(ARGS)

# Each part runs whatever the others did; a failure of any is the result. The browser's own loop makes Django see
# "async" in the test's thread, hence a run of its own.
test: installed-dev
	@failed=0; \
	$(MAKE) --no-print-directory lint || failed=1; \
	$(PYTEST) -n 2 -m "not processes and not browser" --ignore tests/browser || failed=1; \
	$(PYTEST) -m "processes and not browser" --ignore tests/browser || failed=1; \
	DJANGO_ALLOW_ASYNC_UNSAFE=1 $(PYTEST) tests/browser || failed=1; \
	exit $$failed

lint: installed-dev
	@$(VENV) -m ruff format --check --quiet --output-format concise . || { echo "run: .venv/bin/ruff format ."; exit 1; }
	@$(VENV) -m ruff check --quiet --output-format concise .
	@$(VENV) -m mypy --no-error-summary
	@told=$$($(VENV) -c "from importlinter.cli import lint_imports_command as lint; lint()" --no-cache 2>&1) \
		|| { echo "$$told"; exit 1; }
	@$(VENV) manage.py makemigrations --check --dry-run --verbosity 1

python:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
		echo "Python 3.11 or newer is needed (Debian: apt-get install python3 python3-venv), or set PYTHON=/path/to/python3." >&2; exit 1; }

installed: python
	@"$(PYTHON)" tools/install.py requirements.lock

installed-dev: python
	@"$(PYTHON)" tools/install.py requirements-dev.lock
