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
        "or let another provider answer, where the agent or harness.yml says `provider: local`:\n"
        "  anthropic, with the plugin `llm-anthropic: {}` and the key in ANTHROPIC_API_KEY\n"
        "  openai, with `llm-openai: {}` and the key in OPENAI_API_KEY\n"
        '  a server of your own, with `llm-openai: {baseUrl: "http://localhost:11434/v1"}`'
    )
    return LlmError(LlmFailure(text, "UNKNOWN_MODEL"))
