import re

_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|(?<=\d)\s*[-+*/](?=\s*\d)")
_EDGES = ".,;:!?()[]{}\"'`\u201c\u201d\u2018\u2019"
_ENDINGS = ("ing", "ied", "ies", "ed", "es", "s")

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all an and any are as at be before by can could do does for from get give
        had has have he her here his how i if in into is it its let like make many may me might
        much my need no not number numbers of on one or our out over please she should show some
        such tell text than that the their them then there these they this those through to up us
        use used using value want was we were what when where which who why will with would yes
        you your
        """,
    )
)

# Arithmetic is asked for with signs and words that are in no tool's description.
SYNONYMS = (
    frozenset({"+", "add", "plus", "sum", "total"}),
    frozenset({"-", "minus", "subtract", "difference"}),
    frozenset({"*", "times", "multiply", "product"}),
    frozenset({"/", "divide", "quotient"}),
)


def stems(text: str) -> frozenset[str]:
    """The words of `text` that carry meaning, reduced to a common form, with their synonyms."""
    words = (match[0].strip().lower() for match in _WORD.finditer(text))
    found = {stem(word) for word in words if word not in STOP_WORDS}
    for group in _SYNONYM_STEMS:
        if found & group:
            found |= group
    return frozenset(found)


def bare(word: str) -> str:
    """`word` without the punctuation and brackets around it."""
    return word.strip(_EDGES)


def stem(word: str) -> str:
    """A crude common form of English inflections: `adding` and `adds` become `add`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending) + ("y" if ending in ("ied", "ies") else "")
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


_SYNONYM_STEMS = tuple(frozenset(map(stem, group)) for group in SYNONYMS)
