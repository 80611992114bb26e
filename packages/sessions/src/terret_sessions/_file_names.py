from hashlib import sha256
from typing import Final

_MAX_LENGTH: Final = 120
_SAFE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def file_name(session_id: str) -> str:
    """A name for the file or folder of a session: one path segment, distinct for distinct ids.

    Bytes other than `A-Za-z0-9._-` are percent-encoded. A digest follows where a file system could
    confuse names: long ones, those with upper case, and those that begin or end with a dot.
    """
    name = "".join(chr(byte) if byte in _SAFE else f"%{byte:02x}" for byte in session_id.encode())
    if len(name) <= _MAX_LENGTH and name == name.lower() and name == name.strip("."):
        return name
    digest = sha256(session_id.encode()).hexdigest()[:16]
    return f"{name[:_MAX_LENGTH].strip('.')}~{digest}"
