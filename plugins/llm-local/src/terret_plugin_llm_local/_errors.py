from pathlib import Path

from terret_llm import LlmError, LlmFailure


def unusable_model(path: Path, reason: str) -> LlmError:
    """The error for a model file that was named in the configuration."""
    text = f"the local model {path} cannot be used: {reason}; set modelPath to a GGUF file"
    return LlmError(LlmFailure(text, "UNKNOWN_MODEL"))


def missing_part(part: str) -> LlmError:
    """The error for an installation without runtime or weights, with every way out."""
    text = (
        f"the local model cannot answer: {part} is not installed. Install it:\n"
        "  terret model install\n"
        "or use another model, with one of these in the environment or in .env:\n"
        "  OPENAI_BASE_URL=http://localhost:11434/v1   (a server of your own)\n"
        "  OPENAI_API_KEY=...                          (an account)"
    )
    return LlmError(LlmFailure(text, "UNKNOWN_MODEL"))
