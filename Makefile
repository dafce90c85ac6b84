# Two commands do everything on a fresh machine: `make run` the main job, `make test` the tests.
# PYTHON chooses the interpreter (3.11 or newer); everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint docs playground toolchain tools extension dist wheel vsix regen bless clean

run: $(VENV)/.ready toolchain
	$(BIN)/tkgen build specs/eight_wave.tk -o out
	$(BIN)/tkgen run specs/eight_wave.tk -D "M=256 N=256 K=192" --schedules 3
	$(BIN)/tkgen report specs/eight_wave.tk -o out/eight_wave.html

test: $(VENV)/.ready-dev toolchain tools extension playground
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/docs/prose.py

# torch first and by version: a plain `torch` may bring gigabytes of GPU packages.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -e '.[emulate]'
	touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/.ready
	$(BIN)/pip install -q -e '.[emulate,toolchain,lsp,module,docs,dev]'
	$(BIN)/pip install -q --no-deps triton==3.9.0
	touch $@

# A compiler with an AMDGPU backend: kept if one is there, else Debian's clang where we may install it, else a wheel.
toolchain: | $(VENV)/.ready
	@$(BIN)/tkgen doctor >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq clang-22 lld-22 llvm-22 >/dev/null; } || \
	  $(BIN)/pip install -q 'ziglang==0.17.0'
	@$(BIN)/tkgen doctor >/dev/null || { echo "no compiler with an AMDGPU backend could be installed:"; $(BIN)/tkgen doctor; exit 3; }

# The browser that the tests of pages drive, the npm that packs the VS Code extension, a clang with HIP for tests of host
# code, which the ziglang wheel has not, and HIP's headers; without them these tests skip.
HIP_HEADERS ?= /usr/include/hip
tools:
	@missing=; command -v chromium >/dev/null || missing="chromium chromium-driver"; \
	  command -v npm >/dev/null || missing="$$missing npm"; \
	  { command -v clang++-22 && command -v ld.lld-22 && command -v clang-offload-bundler-22; } >/dev/null \
	    || missing="$$missing clang-22 clang-tools-22 lld-22 llvm-22"; \
	  [ -e $(HIP_HEADERS)/hip_runtime.h ] || missing="$$missing libamdhip64-dev rocm-device-libs"; \
	  if [ -z "$$missing" ]; then :; \
	  elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	    && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; then :; \
	  else echo "not installed:" $$missing; echo "the tests that need them are skipped"; fi

# The packages that build the VS Code extension. Without npm, or without its registry, the test of the extension skips.
extension:
	@cd tkgen/lsp/vscode; \
	  if [ ! node_modules/.package-lock.json -ot package-lock.json ] && [ -e node_modules/.package-lock.json ]; then :; \
	  elif ! command -v npm >/dev/null; then echo "npm is not installed: the VS Code extension is not built and not tested"; \
	  else npm ci --no-audit --no-fund --loglevel=error || echo "npm ci failed: the VS Code extension is not tested"; fi

# Python for the browser, which the playground of the site runs on. Without npm, or without its registry, the site has no
# playground and its test skips.
playground:
	@cd docs/site/playground; \
	  if [ -e node_modules/.package-lock.json ] && [ ! node_modules/.package-lock.json -ot package-lock.json ]; then :; \
	  elif ! command -v npm >/dev/null; then echo "npm is not installed: the site gets no playground"; \
	  else npm ci --no-audit --no-fund --loglevel=error || echo "npm ci failed: the site gets no playground"; fi

# What others install, into dist/: the wheel with its source archive, and the VS Code extension.
DIST ?= dist
dist: wheel vsix

wheel: $(VENV)/.ready-dev
	$(BIN)/python -m hatchling build -d $(DIST)

vsix: extension
	mkdir -p $(DIST)
	cd tkgen/lsp/vscode && npm run --silent vsix -- --out $(abspath $(DIST))/tkgen.vsix

regen: $(VENV)/.ready
	$(BIN)/tkgen regen

# Every golden file as it is now: read the difference before it is committed.
bless: $(VENV)/.ready-dev regen
	$(BIN)/python tests/diagnostics/bless.py
	$(BIN)/python tests/sanitize/test_sanitize_pages.py
	$(BIN)/python -m tkgen.ir.functions.page docs/functions.md
	TKGEN_BLESS=1 $(BIN)/python -m pytest -q tests/docs/test_documentation.py

# The documentation site, into site/; a browser shows it, search included, from the folder or a server, without a network.
docs: $(VENV)/.ready playground
	$(BIN)/pip install -q -e '.[docs]'
	$(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

clean:
	rm -rf $(VENV) out build dist site
