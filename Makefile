# Everything a contributor does. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
PYTEST := .venv/bin/pytest

# Lock files name versions and hashes, never where they came from.
LOCK = $$(command -v uv || echo .tools/uv/bin/uv) pip compile -q --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header

# What the provider and its extras need besides the engine, which no index has yet.
PROVIDER_REQUIREMENTS = $(PYTHON) -c 'import tomllib; \
  project = tomllib.load(open("clinker_provider/pyproject.toml", "rb"))["project"]; \
  needed = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]; \
  print(*(name for name in needed if not name.startswith("clinker-spark")), sep="\n")'

# pip's spark-submit looks for an interpreter on the path; this is the one.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help
help: ## List what there is to make
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## Make .venv from requirements.lock (does nothing when it is up to date)
	@scripts/setup.sh

.PHONY: java
java:
	@scripts/need-java.sh

.PHONY: run
run: setup java ## Run the example through Airflow on embedded Spark, then show its files and XComs
	@$(PYTHON) examples/run.py

.PHONY: test
test: setup java ## Run every test (PYTEST_ARGS adds options)
	@scripts/test.sh $(PYTEST_ARGS)

.PHONY: fast
fast: setup ## Run the tests that take no more than a moment
	@$(PYTEST) -m "not spark and not airflow and not thorough" $(PYTEST_ARGS)

.PHONY: explore
explore: setup ## Try the properties with other examples each time, many of them (EXAMPLES=3000)
	@HYPOTHESIS_EXPLORE=1 HYPOTHESIS_MAX_EXAMPLES=$(or $(EXAMPLES),3000) $(PYTEST) -m "hypothesis and not spark" $(PYTEST_ARGS)

.PHONY: lint
lint: setup ## Check style, formatting and types
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

.PHONY: check
check: lint fast ## What to run before every commit: lint and the fast tests

.PHONY: format
format: setup ## Format the code and mend what can be mended
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

.PHONY: docs
docs: setup ## Write the generated reference pages
	@$(PYTHON) -m docs.generate

.PHONY: site
site: setup ## Build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --clean

.PHONY: build
build: setup ## Build both wheels and dist/spark_jobs.zip
	@rm -rf dist
	@$(PYTHON) -m hatchling build -t wheel
	@cd clinker_provider && ../$(PYTHON) -m hatchling build -t wheel -d ../dist
	@$(PYTHON) -c 'from pathlib import Path; from spark_jobs import bundle; print(bundle.build(Path("dist/spark_jobs.zip")))'

.PHONY: bench
bench: setup java ## Measure against hand-written PySpark and DuckDB (BENCH_ARGS adds options)
	@$(PYTHON) benchmarks/run.py $(BENCH_ARGS)

BENCH_PAGE := $(or $(TMPDIR),/tmp)/clinker-bench-page
.PHONY: bench-page
bench-page: setup java ## Measure everything that docs/performance.md shows, and write its tables (an idle computer, 2 hours)
	@$(PYTHON) benchmarks/run.py --rows 5000000 --rows 20000000 --runs 3 --json $(BENCH_PAGE).whole.json
	@$(PYTHON) benchmarks/run.py --warm --rows 1000000 --runs 3 --json $(BENCH_PAGE).warm.json \
		$(foreach seed,1 2 3 4 5 6 7 8 9 10,--shape $(seed))
	@$(PYTHON) benchmarks/page.py $(BENCH_PAGE).whole.json $(BENCH_PAGE).warm.json

.PHONY: lock
lock: setup ## Resolve the dependencies anew and write the lock file
	@$(PROVIDER_REQUIREMENTS) | $(LOCK) --all-extras --upgrade -o requirements.lock pyproject.toml -

.PHONY: up down
up: ## Start Airflow and a Spark cluster with Docker (http://localhost:8080)
	@docker compose up --build --detach --wait
down: ## Stop them and remove their volumes
	@docker compose down --volumes

.PHONY: clean
clean: ## Remove everything that was made here, the environment included
	@rm -rf .venv .tools .airflow-range dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse examples/*/output
