"""Lets schemathesis 4.24 generate cases with the versions of its helpers that are installed here.

It calls a method that jsonschema-rs 0.61 has renamed, and hypothesis-jsonschema 0.23 one that
hypothesis 6.170 has replaced. Newer releases of the two make this file superfluous.
"""

import types
from typing import Any

import pytest
from hypothesis.internal.conjecture import utils


class _Many:
    """`many` as it was: a loop over `more()`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._many = utils.many(*args, **options).__enter__()
        self._elements = iter(self._many)

    def more(self) -> bool:
        for _ in self._elements:
            return True
        self._many.__exit__(None)
        return False

    def reject(self, why: str | None = None) -> None:
        self._many.reject(why)


def mend_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `APIOperation.as_strategy` work as long as the test runs."""
    mended = types.SimpleNamespace(**{**vars(utils), "many": _Many})
    monkeypatch.setattr("hypothesis_jsonschema._from_schema.cu", mended)
    generating = "schemathesis.specs.openapi._hypothesis"
    monkeypatch.setattr(f"{generating}._canonical_strategy_or_none", lambda *_: None)
