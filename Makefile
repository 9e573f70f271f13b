# Everything generated lies in build/ and .venv/. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv/bin/python
PRESET ?= cpu
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help bootstrap browser torch native demo model inspect parity oracle self-test bench-split bench-steps bench-batch bench-turn bench-prefill bench-codecs bench-baseline tiny-models asan fuzz proto proto-check lint words format test test-fast cluster patches-verify clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 18

bootstrap: ## set up system packages, .venv, llama.cpp's source and bindings (at once when up to date)
	@$(PYTHON) packaging/bootstrap.py

browser: ## make a Chromium available for the browser tests alone (`make test` does it itself)
	@$(PYTHON) packaging/chromium.py

native: bootstrap ## build libllama, meshnet-worker and meshnet-worker-measure into build/native/$(PRESET)/bin
	@$(VENV) native/tools/build.py $(PRESET)

model: bootstrap ## fetch and verify the demo model
	@$(VENV) packaging/demo_model.py

torch: bootstrap ## install PyTorch's build for CPUs and transformers, which the reference engine needs (210 MB)
	@$(VENV) packaging/torch_extra.py

tiny-models: bootstrap ## make the generated models of all architectures that the native tests read
	@$(VENV) -m tests.simulators.tiny_models

inspect: bootstrap ## say what a GGUF model is made of and where it may be cut, as JSON; FILE=..., its first part or all; ARGS="--memory 100G,20G"
	@.venv/bin/meshnet inspect --json $(ARGS) $(FILE)

demo: native model ## run a site and its nodes here and talk to them; ARGS=--once ends with one JSON line
	@$(VENV) packaging/demo $(ARGS)

bench-split: native model ## measure what splitting costs; one JSON line at the end, status 3 where it is too noisy
	@$(VENV) native/tools/build.py $(PRESET) --target grpc_echo
	@$(VENV) native/tools/build.py peers --target llama-bench
	@$(VENV) native/tools/build.py peers-upstream --target llama-bench --target ggml-rpc-server
	@$(VENV) -m tests.bench.split $(ARGS)

bench-steps: native model ## say where the time of a decode step goes; one JSON line at the end, status 3 where that is not told
	@$(VENV) -m tests.bench.steps $(ARGS)

bench-batch: native model ## measure many streams at once against llama-server; one JSON line at the end, status 3 where it is too noisy
	@$(VENV) native/tools/build.py peers --target llama-server
	@$(VENV) -m tests.bench.batch $(ARGS)

bench-turn: native model ## measure the compute turn beside a third worker and foreign programs; one JSON line at the end, status 3 where it is too noisy
	@$(VENV) -m tests.bench.turn $(ARGS)

bench-prefill: native ## measure a long prompt through up to 8 timed stages against the pipeline's bound; one JSON line at the end
	@$(VENV) -m tests.bench.prefill $(ARGS)

bench-codecs: native model ## measure what packing rows between stages costs; one JSON line at the end, status 1 where a bar is missed
	@$(VENV) native/tools/build.py $(PRESET) --target pack_rows
	@LLAMA_CPP_LIB_PATH=$(CURDIR)/build/native/cpu/bin PYTHONPATH=packaging/demo $(VENV) -m tests.bench.codecs $(ARGS)

bench-baseline: native model ## compare PyTorch over safetensors with llama.cpp over GGUF: rates, first token, memory, logits; one JSON line at the end, status 3 where it is too noisy
	@$(VENV) packaging/torch_extra.py
	@LLAMA_CPP_LIB_PATH=$(CURDIR)/build/native/cpu/bin PYTHONPATH=packaging/demo $(VENV) -m tests.bench.baseline $(ARGS)

asan: bootstrap ## build our own sources with sanitizers and run their native tests
	@$(VENV) native/tools/build.py cpu-asan
	@$(VENV) -m tests.simulators.tiny_models
	@.venv/bin/ctest --test-dir build/native/cpu-asan --timeout 300 --output-on-failure

fuzz: bootstrap ## fuzz what comes from peers and relays: 60 s, and at most 120 s for its control; ARGS="--seconds N"; the last line is JSON
	@$(VENV) native/tools/fuzz.py $(ARGS)

proto: bootstrap ## regenerate Python code from shared/meshnet/v1/*.proto
	@$(VENV) packaging/protobuf_code.py generate

proto-check: bootstrap ## fail when the generated Python code is not what the protos give
	@$(VENV) packaging/protobuf_code.py check

lint: bootstrap ## ruff, mypy, import-linter, clang-format
	@$(VENV) packaging/lint.py

words: bootstrap ## count the words of comments by folder and print the longest sentences; ARGS=--check or "--draw N --seed S"; the last line is JSON
	@$(VENV) packaging/words.py $(ARGS)

format: bootstrap ## format Python and C++
	@$(VENV) packaging/lint.py --fix

test: bootstrap ## build what is missing and run everything; the last line is JSON
	@$(VENV) packaging/run_tests.py

test-fast: bootstrap ## run the tests that need no native build: three minutes, and it says what it leaves out; the last line is JSON
	@$(VENV) packaging/fast_tests.py

cluster: native ## run the tests of two site processes on PostgreSQL and Redis, which it installs or unpacks
	@$(VENV) packaging/cluster_parts.py
	@$(VENV) -m pytest --no-skips -m cluster --junitxml=build/reports/cluster.xml $(ARGS) tests/cluster

parity: native model tiny-models ## compare split and unsplit bit for bit, between processes and through the whole stack
	@LLAMA_CPP_LIB_PATH=$(CURDIR)/build/native/cpu/bin PYTHONPATH=packaging/demo $(VENV) -m tests.parity $(ARGS)

oracle: native model tiny-models ## compare llama.cpp with PyTorch at every seam, within a tolerance; ARGS=--tiny without the demo model
	@$(VENV) packaging/torch_extra.py
	@LLAMA_CPP_LIB_PATH=$(CURDIR)/build/native/cpu/bin PYTHONPATH=packaging $(VENV) -m tests.oracle $(ARGS)

self-test: native model ## say how far engines and broken weights are from the demo model's golden probe; one JSON line at the end
	@$(VENV) packaging/torch_extra.py
	@PYTHONPATH=packaging $(VENV) -m tests.golden $(ARGS)

patches-verify: bootstrap ## rebuild the patched llama.cpp source from the archive and compare digests
	@$(VENV) native/tools/llama_source.py verify

clean: ## remove everything generated except downloads
	rm -rf .venv build/native build/llama.cpp build/llama.cpp.stamp build/bootstrap.stamp build/prefix build/browser build/qt build/cluster build/fuzz build/reports
