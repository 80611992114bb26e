import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD, so that it can be written as UTF-8."""
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def refuse_surrogates(text: str) -> None:
    if text.isascii():
        return
    found = _SURROGATE.search(text)
    if found is not None:
        raise ValueError(
            f"the text holds a lone surrogate, U+{ord(found[0]):04X}, at position {found.start()}"
        )
