.DEFAULT_GOAL := help
.PHONY: help sync format lint types imports catalogs test check rows peers smoke soak bench changes

help:      ## list the targets
	@sed -nE 's/^([a-z]+):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

sync:      ## create or renew .venv with all members
	uv sync

format:    ## format, and fix what can be fixed without thought
	uv run ruff check --fix-only . && uv run ruff format .

lint:      ## ruff: rules and format
	uv run ruff check . && uv run ruff format --check .

types:     ## mypy, strict, on sources and tests
	uv run mypy

imports:   ## the direction of imports between members
	uv run lint-imports

catalogs:  ## generated reference pages are up to date (renew them: scripts/catalogs.py --write)
	uv run python scripts/catalogs.py

test:      ## all tests
	uv run pytest

check: lint types imports catalogs  ## what has to hold besides the tests

rows:      ## rows of the behaviour checklists that tests prove (scripts/rows.py --help)
	uv run python scripts/rows.py

peers:     ## install aimock, a scripted model server that some tests talk to (needs npm)
	npm install --silent --no-audit --no-fund --no-save --prefix build/peers @copilotkit/aimock@1.43.0

smoke:     ## build the wheels and use them in an empty environment
	uv run python scripts/smoke.py

soak:      ## long runs for which CI has no time: one line for each
	uv run python tests/support/durable_kills.py --kills 1000
	TERRET_SOAK=100000 uv run pytest packages/context/tests/test_context_properties.py packages/context/tests/test_context_leaks.py

bench:     ## benchmarks against their floors
	uv run python benchmarks/container.py
	uv run python benchmarks/loop.py
	uv run python benchmarks/llm.py
	uv run python benchmarks/loader.py
	uv run python benchmarks/sessions.py
	uv run python benchmarks/service.py

changes:   ## the changelog of what is not released yet
	uv run towncrier build --draft --version next
