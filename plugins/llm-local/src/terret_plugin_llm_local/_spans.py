import re

from ._words import STOP_WORDS, bare, stem

Number = int | float

_LONGEST_PHRASE = 6
_MOST_PHRASES = 200

_UNITS = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORTH = {word: value for value, word in enumerate(_UNITS)} | {
    word: value for value, word in zip(range(20, 100, 10), _TENS, strict=True)
}
_NUMBER = re.compile(
    r"(?P<sign>\b(?:minus|negative)\s+|(?<!\w)-\s?)?"
    r"(?:(?<![\w.])(?<![A-Za-z]-)(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
    rf"|\b(?:(?P<tens>{'|'.join(_TENS)})(?:[\s-](?P<unit>{'|'.join(_UNITS[1:10])}))?"
    rf"|(?P<word>{'|'.join(_UNITS)}))\b)",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    "[\"\u201c]([^\"\u201d]+)[\"\u201d]|(?<!\\w)['\u2018]([^'\u2019]+)['\u2019](?!\\w)|`([^`]+)`"
)
_AFTER_COLON = re.compile(r":\s+(\S.*)", re.DOTALL)


def numbers(text: str, at_least: int = 0) -> list[Number]:
    """The numbers of `text` in their order; those in words only if numerals are too few."""
    found = list(_NUMBER.finditer(text))
    numerals = [match for match in found if match["digits"]]
    return [_value(text, match) for match in (numerals if len(numerals) >= at_least else found)]


def quotations(text: str) -> list[str]:
    """What is quoted in `text`, or else what follows a colon."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(text)]
    after = _AFTER_COLON.search(text)
    return quoted or ([after[1].strip()] if after else [])


def phrases(text: str, keywords: frozenset[str]) -> list[str]:
    """The parts of `text`, outside quotes, that may be meant as an argument.

    They hold none of `keywords` (stems that belong to the tool), and do not start with the verb of
    the request unless there is nothing else.
    """
    text = _QUOTED.sub(" , ", text)
    found = [phrase for run in _runs(text, keywords) for phrase in _phrases_of(run)]
    verb = bare(text.split(maxsplit=1)[0]) if text.strip() else ""
    arguments = [phrase for phrase in found if phrase.split()[0] != verb]
    return list(dict.fromkeys(arguments or found))[:_MOST_PHRASES]


def _value(text: str, match: re.Match[str]) -> Number:
    value: Number
    if digits := match["digits"]:
        value = float(digits.replace(",", "")) if "." in digits else int(digits.replace(",", ""))
    else:
        value = sum(_WORTH[(match[name] or "zero").lower()] for name in ("tens", "unit", "word"))
    subtracts = text[: match.start()].rstrip()[-1:].isdigit()
    return -value if match["sign"] and not subtracts else value


def _runs(text: str, keywords: frozenset[str]) -> list[list[str]]:
    """Words that stand together: runs end at punctuation and at words of the tool itself."""
    runs: list[list[str]] = [[]]
    for match in re.finditer(r"\S+", text):
        word = bare(match[0]).removesuffix("'s")
        is_name = word[:1].isupper() and match.start() > 0
        if not word or (word.isalpha() and not is_name and stem(word.lower()) in keywords):
            runs.append([])
            continue
        runs[-1].append(word)
        if match[0][-1] in ".,;:!?":
            runs.append([])
    return runs


def _phrases_of(run: list[str]) -> list[str]:
    edge = [word.lower() not in STOP_WORDS for word in run]
    return [
        " ".join(run[start:end])
        for start in range(len(run))
        for end in range(start + 1, min(start + _LONGEST_PHRASE, len(run)) + 1)
        if edge[start] and edge[end - 1]
    ]
