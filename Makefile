# `make run` and `make test` are all that one needs; `make help` lists the rest.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
CODE := boxoffice approvals tools agents tests benchmarks manage.py
ARGS ?=
JOBS ?= 2
CALLS ?= 12000
SECONDS ?= 1800

.PHONY: help run test lint format types lock faults hostile bench
.DELETE_ON_ERROR:

help: ## List the commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

run: .venv/.synced ## Start the site with its servers and demo data; Ctrl-C ends it (PORT=8000)
	@$(PYTHON) -m boxoffice.config.devstack --tied

test: .venv/.synced ## Run the whole suite (ARGS="tests/agents -x" for a part)
	$(PYTHON) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

faults: .venv/.synced ## Kill processes at every crash point, and print the matrix (ARGS="--matrix-json FILE")
	$(PYTHON) -m pytest tests/faults -m "" $(ARGS)

hostile: .venv/.synced ## Put 12,000 hostile calls to the tools, for at most half an hour (CALLS=, SECONDS=)
	$(PYTHON) -m pytest tests/hostile --timeout 0 --hostile-calls $(CALLS) \
		--hostile-seconds $(SECONDS) $(ARGS)

bench: .venv/.synced ## Measure, and print the tables of docs/benchmarks.md
	$(PYTHON) -m benchmarks $(ARGS)

lint: .venv/.synced ## Check style, templates, imports, settings, migrations, spelling
	.venv/bin/ruff check $(CODE)
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/djlint --quiet --check --lint templates
	.venv/bin/lint-imports
	SECRET_KEY=$$($(PYTHON) -c 'import secrets; print(secrets.token_urlsafe(48))') DEBUG=0 \
		$(PYTHON) manage.py check --deploy --fail-level WARNING
	DEBUG=1 $(PYTHON) manage.py check_migrations --quiet
	.venv/bin/typos

types: .venv/.synced ## Check types, strictly
	DEBUG=1 .venv/bin/mypy

format: .venv/.synced ## Put code and templates into shape
	.venv/bin/ruff check --fix --exit-zero --quiet $(CODE)
	.venv/bin/ruff format $(CODE)
	-.venv/bin/djlint --quiet --reformat templates

lock: .venv/.synced ## Resolve the dependencies of pyproject.toml into requirements.lock
	.venv/bin/uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url \
		--universal --python-version 3.12 --quiet -o requirements.lock

# The virtual environment follows the lock file. A broken or too old one is made anew.
.venv/.synced: requirements.lock
	@if ! $(PYTHON) -c 'import sys, pip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
		found=$$(sh deploy/find-python.sh) || exit 1; \
		echo "Making .venv with $$($$found --version)"; \
		"$$found" -m venv --clear .venv || exit 1; \
	fi
	@echo "Installing what requirements.lock names into .venv (a minute, the first time)"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.lock
	@touch $@
