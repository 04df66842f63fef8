# Every target sets up what it needs: a machine with python3 and make is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test check format bench controlplane clean

demo: $(READY)  ## the main job on the examples (exit code 1 of a command says that a pod waits, as one here does)
	$(BIN)/cardwise simulate examples/cluster.yaml || [ $$? -eq 1 ]
	@echo
	$(BIN)/cardwise explain research/finetune-0 -f examples/cluster.yaml || [ $$? -eq 1 ]
	@echo
	$(BIN)/cardwise top -f examples/cluster.yaml

test: $(READY)  ## all tests
	$(BIN)/python -m pytest -n auto

check: $(READY)  ## format, lint, strict types, layers
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format src tests bench
	$(BIN)/ruff check --fix src tests bench

bench: $(READY)  ## figures; BENCH_JSON=FILE writes them, BENCH_QUICK=1 runs a small version
	$(BIN)/python bench/run.py

controlplane: $(READY)  ## build etcd, kube-apiserver and kube-scheduler for the tests, newest and oldest; once, with Go
	$(BIN)/python tests/controlplane/build.py current oldest

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
