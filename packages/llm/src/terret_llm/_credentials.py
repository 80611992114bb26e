from ._errors import HarnessError


def checked_api_key(key: str, *, source: str) -> str:
    """`key` without white space around it; `source` says where it came from, for the error.

    Raises MISSING_CREDENTIAL if it is blank and INVALID_CREDENTIAL if a header cannot carry it.
    The key itself is in no message.
    """
    key = key.strip()
    if not key:
        raise HarnessError(f"the API key from {source} is empty", "MISSING_CREDENTIAL")
    if not (key.isascii() and key.isprintable()):
        raise HarnessError(
            f"the API key from {source} holds characters that no HTTP header can carry",
            "INVALID_CREDENTIAL",
        )
    return key


def user_agent(distribution: str) -> str:
    """The user agent of a distribution's requests, from its metadata: `name/version`."""
    # a tenth of what importing this package costs, and only adapters need it
    from importlib.metadata import version

    return f"{distribution}/{version(distribution)}"
