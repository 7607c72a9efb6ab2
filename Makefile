# Everything happens in .venv of this checkout; the first target that needs it makes it.
VENV := .venv
PY := $(VENV)/bin/python
MARK := $(VENV)/.installed
TEST_WORKERS ?= 2

.PHONY: predict test test-long lint posterior posterior-engines notebooks bench clean

predict: $(MARK)
	$(VENV)/bin/tailcast predict --model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm -tp 1 \
	  --rate 12 --input-tokens 512 --output-tokens 256 --slo ttft.p99=300ms

test: $(VENV)/.installed-dev lint
	$(PY) -m pytest -n $(TEST_WORKERS) --dist loadfile -m "not slow and not vllm" -q
	$(PY) -m pytest -n $(TEST_WORKERS) --dist loadfile -m "slow and not vllm and not long" -q

# What takes minutes each: simulation-based calibration on 200 truths.
test-long: $(VENV)/.installed-dev
	$(PY) -m pytest -m long -q

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check src tests benchmarks examples notebooks
	$(VENV)/bin/ruff format --check src tests benchmarks examples notebooks
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache
	$(PY) tests/docstrings.py

# The shipped posterior from the data it names; see posteriors/README.md.
DATA ?= ../shared/data
posterior: $(MARK)
	$(VENV)/bin/tailcast fit $(DATA)/experiments/train $(DATA)/step_time \
	  -o posteriors/physics-h100-vllm015 --seed 0

# The posterior over several engines, accelerators and versions.
PUBLIC := $(addprefix $(DATA)/public/,llm-pilot-tgis splitwise-perf argonne-llm-inference-bench)
posterior-engines: $(MARK)
	$(VENV)/bin/tailcast fit $(DATA)/experiments/train $(DATA)/step_time $(PUBLIC) \
	  -o posteriors/physics-many-engines --latency-model physics-engines \
	  --leave-out "static batches mistral-7b-v0.1-tp?-h100-sxm-80gb" \
	  --leave-out "TGIS * mpt-7b-tp1-h100-sxm-80gb" \
	  --draws 1000 --tune 700 --stored 80 --seed 0

# Run every notebook again and write what it shows beside its script.
notebooks: $(VENV)/.installed-dev
	$(PY) notebooks/render.py

bench: $(VENV)/.installed-dev
	$(PY) benchmarks/run.py $(BENCH_ARGS)

$(MARK): pyproject.toml
	"$$(.ci/find-python)" -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: $(MARK)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
