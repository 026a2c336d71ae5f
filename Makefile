.DEFAULT_GOAL := help
SHELL := /bin/bash
PIP_AUDIT_VERSION := 2.10.1
PYTHON ?= $(shell command -v python3.11 || command -v python3)
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

# What is installed, or built with, has the hash that its lock names, or is refused. Bytecode is
# written at once: with PYTHONDONTWRITEBYTECODE each process would compile what it imports.
BUILD := requirements-build.txt
INSTALL = $(UV) pip install --quiet --compile-bytecode --python .venv/bin/python --no-deps --build-constraints $(BUILD)
BUILD_WHEEL = $(UV) build --quiet --wheel --require-hashes --build-constraints $(BUILD)

$(CURDIR)/.uv/bin/uv: $(BUILD)
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $(BUILD)
	@touch $@

.venv/.ready: requirements.txt $(BUILD) pyproject.toml | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(INSTALL) --require-hashes -r requirements.txt
	$(INSTALL) -e .
	@touch $@

.venv/.ready-dev: .venv/.ready requirements-dev.txt
	$(INSTALL) --require-hashes -r requirements-dev.txt
	@touch $@

##@ Use
.PHONY: audit serve capture
ARCHIVE ?= examples/capture
WAREHOUSE ?= artifacts/warehouse
audit: setup ## run the daily audit DAG over the bundled capture and say where the report is
	.venv/bin/python -m quota_dags.local.audit audit --archive $(ARCHIVE) --warehouse $(WAREHOUSE)

serve: setup ## start Airflow on 127.0.0.1 (PORT=8080); Ctrl-C stops all of it
	.venv/bin/python -m quota_dags.local.serve $(if $(PORT),--port $(PORT))

KAFKA_VERSION ?= 4.1.0
SCENARIO ?= tests/oracle/scenarios/small.txt
CAPTURE ?= artifacts/capture
capture: setup ## record a capture of two real brokers (needs Maven) into CAPTURE=artifacts/capture
	.venv/bin/python tests/oracle/capture.py --kafka-version $(KAFKA_VERSION) --scenario $(SCENARIO) --out $(CAPTURE)

##@ Develop
.PHONY: test test-broker fleet simulated-fleet planted-faults check audit-deps renew-images fuzz faults ended format bench gallery reference lock package release clean
.cache/spark.jsa: .venv/.ready-dev
	.venv/bin/python -m tests.builders.spark_classes

# One more than CI's cores: live brokers wait most of their time.
WORKERS ?= 3
test: .cache/spark.jsa ## run all tests: pure, jvm, spark, airflow, browser, broker
	.venv/bin/python -m compileall -q spark_jobs expectations dags plugins tests
	.venv/bin/pytest --numprocesses $(WORKERS)

test-broker: setup-dev ## run only the tests that start real brokers (needs Java and Maven)
	.venv/bin/pytest -m broker tests/oracle

N ?= 12
fleet: setup-dev ## record and audit N random scenarios on real brokers (SEED=…, FOLDER=…): nobody sound may be accused
	.venv/bin/python -m tests.fleet.live_fleet $(N) $(if $(SEED),--seed $(SEED)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(LOAD_SECONDS),--load-seconds $(LOAD_SECONDS)) $(if $(FINDINGS_ONLY),--findings-only)

planted-faults: N = 300
planted-faults: setup-dev ## plant faults into N simulated brokers (SEED=…): which does the audit find, and how small
	.venv/bin/python -m tests.fleet.simulated_faults $(N) $(if $(SEED),--seed $(SEED))

simulated-fleet: N = 300
simulated-fleet: setup-dev ## audit N brokers simulated by Kafka's own classes (SEED=…, FOLDER=…; needs Java and Maven)
	.venv/bin/python -m tests.fleet.simulated_fleet $(N) $(if $(SEED),--seed $(SEED)) $(if $(FOLDER),--folder $(FOLDER))

check: setup-dev ## format, lint, types, coverage of the pure core, locks
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	NUMBA_DISABLE_JIT=1 .venv/bin/coverage run -m pytest -q tests/spark_jobs/quota -m "not jvm"
	.venv/bin/coverage run --append -m pytest -q tests/spark_jobs/ingest/lines tests/spark_jobs/ingest/messages tests/spark_jobs/ingest/fast_lines tests/spark_jobs/ingest/lost_lines -m "not jvm"
	.venv/bin/coverage report --fail-under=90
	.venv/bin/pytest -q tests/test_lock.py

audit-deps: $(UV) ## look up every locked package in PyPI's advisories (needs the network)
	$(PYTHON) -m tools.audit_deps requirements.txt requirements-build.txt requirements-dev.txt \
		--pip-audit "$(UV) tool run --quiet pip-audit==$(PIP_AUDIT_VERSION)"

renew-images: ## write which images the tags of the base images now stand for (needs Docker and the network)
	$(PYTHON) -m tools.renew_images docker/Dockerfile docker/compose.yaml

FUZZ_LINES ?= 1000000
fuzz: setup-dev ## read FUZZ_LINES bent log lines: nothing may raise, get lost or grow
	.venv/bin/python -m tests.endurance.fuzz_lines $(FUZZ_LINES)

TRIES ?= 10
faults: setup-dev ## meet each fault (killed processes, full disk, cut files, …) TRIES times in an audit
	.venv/bin/python -m tests.endurance.fault_runs $(TRIES)

ended: setup-dev ## kill each command that changes a warehouse at TRIES random moments, and run it again
	.venv/bin/python -m tests.endurance.ended_commands $(TRIES)

format: setup-dev ## format and fix what can be fixed
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: setup-dev ## ratios beside the JVM's Rate, C, Polars, applyInPandas, from_json: benchmarks/results/latest.json
	.venv/bin/python benchmarks/run.py

gallery: setup ## write docs/gallery: the design documents' own arguments, replayed
	.venv/bin/python -m docs.generate.gallery docs/gallery

reference: setup ## write docs/reference: commands and settings, from the sources
	.venv/bin/python -m docs.generate

LOCKS := requirements requirements-build requirements-dev tests/object_storage/moto
COMPILE = $(UV) pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
lock: $(UV) ## write requirements*.txt with their hashes from requirements*.in
	set -e; for lock in $(LOCKS); do $(COMPILE) $$lock.in -o $$lock.txt; done

package: setup ## build the wheel, and for spark-submit spark_jobs.zip, quota_audit.py, log4j2.properties
	$(BUILD_WHEEL) --out-dir dist
	cp dist/quota_audit-*.whl dist/spark_jobs.zip
	cp spark_jobs/cli/__main__.py dist/quota_audit.py
	cp spark_jobs/spark/log4j2.properties dist/

release: setup-dev ## make release VERSION=x.y.z: changelog, version, image tag, wheel, bill of materials, commit, git tag; no push
	.venv/bin/python -m tools.release "$(VERSION)" --build "$(BUILD_WHEEL)"

clean: ## remove what runs leave behind, keep the environment
	rm -rf artifacts .airflow dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis
