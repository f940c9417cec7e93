# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup triton demo test long quick check format docs lock sbom pictures dist container-test clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/ready ## create .venv with the pinned dependencies

$(VENV)/ready: $(wildcard requirements*.lock) pyproject.toml
	PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH="$(TORCH)" TORCH_INDEX="$(TORCH_INDEX)" tools/setup.sh
	touch $@

triton: setup ## also install Triton (690 MB), whose interpreter tests the kernels on CPUs
	sed -n '/^triton==/,/[^\\]$$/p' requirements-cuda.lock > $(VENV)/triton.lock
	$(BIN)/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes \
		--report $(VENV)/reports/triton.json --requirement $(VENV)/triton.lock

demo: setup ## train, score, translate and explain a model on the built-in corpus
	$(BIN)/unisono demo

test: setup check ## lint, types and all tests but the long ones
	$(BIN)/python -m pytest -rs -n 4 --dist loadfile --no-loadscope-reorder -m "not long and not container"

long: setup ## tests of minutes each: the self-test, the wheel, blank machines
	$(BIN)/python -m pytest -rs -n 2 --dist load -m long

quick: setup ## the default tier: no other processes, a few minutes
	$(BIN)/python -m pytest -m "not ranks and not slow and not long and not container"

check: setup ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated reference pages
	$(BIN)/python -m unisono.cli.reference > docs/reference/commands.md

lock: ## ask PyPI for the hashes of the pinned versions
	$(PYTHON) tools/lock.py requirements*.lock

sbom: setup ## write sbom.json: every package with version, licence and hash (CycloneDX)
	$(BIN)/python tools/sbom.py > sbom.json

pictures: setup ## make the pictures of docs/images again; needs Chromium and some minutes
	$(BIN)/python docs/images/make_pictures.py

dist: setup ## build the wheel and the source archive in dist/
	rm -rf dist build
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"

container-test: setup ## build the image on a Debian made here and train in it; root, buildah, debootstrap
	$(BIN)/python -m pytest -m container

clean: ## remove the environment and caches; runs and corpora stay
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
