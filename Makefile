.DEFAULT_GOAL := help
SHELL := /bin/bash
UV_VERSION := 0.13.8
PYTHON ?= python3.11
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export GX_ANALYTICS_ENABLED := false

# uv from PATH where there is one, else fetched by pip into .uv
UV := $(shell command -v uv 2>/dev/null || echo $(CURDIR)/.uv/bin/uv)

.PHONY: help setup setup-dev
help: ## print this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Set-up
setup: .venv/.ready ## create .venv from the lock
setup-dev: .venv/.ready-dev ## .venv plus what tests and checks need

$(CURDIR)/.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.ready: requirements.txt pyproject.toml | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(UV) pip install --quiet --python .venv/bin/python --no-deps -r requirements.txt
	$(UV) pip install --quiet --python .venv/bin/python --no-deps -e .
	@touch $@

.venv/.ready-dev: .venv/.ready requirements-dev.txt
	$(UV) pip install --quiet --python .venv/bin/python --no-deps -r requirements-dev.txt
	@touch $@
