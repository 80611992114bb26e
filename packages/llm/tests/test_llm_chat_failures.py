import json
from typing import Any

import pytest

from fault_cases import FAULTS
from terret_llm import LlmFailure
from terret_llm.wire import ProviderErrors, retry_after_ms

NOW = "Wed, 21 Oct 2026 07:28:00 GMT"
ERRORS = ProviderErrors("api.example", secrets=("s3cr3t-key",))


def failure(status: int, body: object = b"", **headers: str) -> LlmFailure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ERRORS.of_response(status, {k.replace("_", "-"): v for k, v in headers.items()}, data)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (401, "no", "AUTH"),
        (403, "no", "AUTH"),
        (402, "Insufficient Balance", "QUOTA"),
        (404, "The model `x` does not exist", "UNKNOWN_MODEL"),
        (404, "no such route", "HTTP_404"),
        (400, "model x is not supported", "UNKNOWN_MODEL"),
        (400, "max_tokens is too large: 999999", "INVALID_REQUEST"),
        (422, "field required", "INVALID_REQUEST"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "CONTEXT_WINDOW_EXCEEDED"),
        (400, "Input length exceeds model's maximum context length", "CONTEXT_WINDOW_EXCEEDED"),
        (400, "exceeds the available context size (4096 tokens)", "CONTEXT_WINDOW_EXCEEDED"),
        (413, "", "CONTEXT_WINDOW_EXCEEDED"),
        (429, "Rate limit reached for tokens per min", "RATE_LIMIT"),
        (429, "You exceeded your current quota, check billing", "QUOTA"),
        (503, "server is busy, too many requests", "SERVER"),
        (529, "Overloaded", "SERVER"),
        (504, "", "TIMEOUT"),
        (418, "teapot", "HTTP_418"),
        (307, "", "HTTP_307"),
    ],
)
def test_status_and_text_give_the_code(status: int, message: str, code: str) -> None:
    """M-031, M-071, B-124, B-127: the status comes first, the text decides within it."""
    found = failure(status, {"error": {"message": message}})
    assert (found.code, found.status) == (code, status)
    assert found.message.startswith(f"api.example answered HTTP {status}")
    assert message in found.message


VECTORS = FAULTS / "cases" / "vec-overflow-wordings.json"
WORDINGS = json.loads(VECTORS.read_text("utf-8")) if VECTORS.exists() else []


@pytest.mark.skipif(not WORDINGS, reason="the wordings are not here")
@pytest.mark.parametrize("row", WORDINGS, ids=lambda row: row["message"][:30])
def test_an_overflow_is_told_from_other_refusals_by_its_wording(row: dict[str, Any]) -> None:
    """B-127, M-031: wordings of providers, and some that only look like it."""
    found = failure(row["status"], {"error": {"message": row["message"]}})
    assert (found.code == "CONTEXT_WINDOW_EXCEEDED") == row["overflow"]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "bad"}},
        {"error": "bad"},
        {"message": "bad"},
        {"detail": "bad"},
        {"detail": [{"loc": ["body"], "msg": "bad"}]},
        [{"error": {"message": "bad"}}],
        {"error": {"code": "bad"}},
        b"bad",
        b'"bad"',
    ],
)
def test_the_providers_words_are_found_in_any_shape_of_body(body: object) -> None:
    """B-116: JSON is tried whatever the content type says."""
    assert failure(400, body).message == "api.example answered HTTP 400: bad"


@pytest.mark.parametrize("body", [b"\x00\xff\xfe" * 9, b"", b"[]", b"{}", b"null", b"[" * 99_999])
def test_a_body_without_words_still_gives_the_status(body: bytes) -> None:
    """B-116: binary, empty and hostile bodies."""
    assert failure(500, body).message.startswith("api.example answered HTTP 500")


def test_words_are_one_bounded_line_without_secrets() -> None:
    """B-125, B-271: keys that the provider echoes are removed."""
    words = "Incorrect key s3cr3t-key,\nsk-proj-Abc12345 or Bearer abc.def: " + "x" * 900
    shown = failure(401, {"error": {"message": words}}).message
    assert "s3cr3t" not in shown
    assert "Abc12345" not in shown
    assert "abc.def" not in shown
    assert "\n" not in shown
    assert len(shown) < 560


def test_the_request_id_is_kept() -> None:
    """M-071: for the provider's support."""
    assert failure(500, x_request_id="req-7").request_id == "req-7"
    assert failure(500).request_id is None


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:03 GMT", "date": NOW}, 3000),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": NOW}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e9999"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_the_wait_a_provider_asks_for(headers: dict[str, str], delay: int | None) -> None:
    """B-120, B-122, M-071: seconds, milliseconds or a date; nonsense is ignored."""
    assert retry_after_ms(headers) == delay
