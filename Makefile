# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test quick check format docs pictures clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/ready ## create .venv with the pinned dependencies

$(VENV)/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

demo: setup ## train, score, translate and explain a model on the built-in corpus
	$(BIN)/unisono demo

test: setup check ## lint, types and the whole test suite
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

quick: setup ## the default tier: no extra processes, under a minute
	$(BIN)/python -m pytest -m "not ranks and not slow"

check: setup ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated reference pages
	$(BIN)/python -m unisono.cli.reference > docs/reference/commands.md

pictures: setup ## make the pictures of docs/images again; needs Chromium and some minutes
	$(BIN)/python docs/images/make_pictures.py

clean: ## remove the environment and caches; runs and corpora stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
