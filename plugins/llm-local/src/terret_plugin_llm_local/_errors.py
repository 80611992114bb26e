from pathlib import Path

from terret_llm import LlmError, LlmFailure


def unusable_model(path: Path, reason: str) -> LlmError:
    """The error for a model file that was named in the configuration."""
    text = f"the local model {path} cannot be used: {reason}; set modelPath to a GGUF file"
    return LlmError(LlmFailure(text, "UNKNOWN_MODEL"))


def missing_part(what: str) -> LlmError:
    """The error for an installation without runtime or weights, with the ways out."""
    text = (
        f"the local model cannot answer, because {what}. Install it:\n"
        "  terret model install\n"
        "or use another model, with these lines under `plugins:` in harness.yml:\n"
        '  llm-openai: {baseUrl: "http://localhost:11434/v1", model: qwen3}\n'
        "  agent-loop: {agents: [{id: main, provider: openai}]}\n"
        "Without baseUrl it asks OpenAI, with the key in OPENAI_API_KEY."
    )
    return LlmError(LlmFailure(text, "UNKNOWN_MODEL"))
