"""Servers that speak chat completions, and what each of them wants otherwise."""

from collections.abc import Mapping
from typing import Final, Literal

Preset = Literal[
    "openai",
    "deepseek",
    "gemini",
    "groq",
    "llama-cpp",
    "lm-studio",
    "mistral",
    "moonshot",
    "ollama",
    "openrouter",
    "together",
    "vllm",
    "xai",
]

PRESETS: Final[Mapping[Preset, Mapping[str, object]]] = {
    "openai": {
        "base_url": "https://api.openai.com/v1",
        "api_key_env": "OPENAI_API_KEY",
        "max_tokens_field": "max_completion_tokens",
        "call_ids": "short",
    },
    "deepseek": {
        "base_url": "https://api.deepseek.com",
        "api_key_env": "DEEPSEEK_API_KEY",
        "reasoning_style": "thinking",
        "reasoning_efforts": ("off", "on", "low", "medium", "high", "max"),
        "replay_reasoning": "reasoning_content",
        # A busy server sends comments for up to ten minutes before it begins.
        "first_byte_timeout": 600.0,
    },
    "gemini": {
        "base_url": "https://generativelanguage.googleapis.com/v1beta/openai",
        "api_key_env": "GEMINI_API_KEY",
    },
    "groq": {
        "base_url": "https://api.groq.com/openai/v1",
        "api_key_env": "GROQ_API_KEY",
        "max_tokens_field": "max_completion_tokens",
        "replay_reasoning": "reasoning",
    },
    "llama-cpp": {
        "base_url": "http://127.0.0.1:8080/v1",
        "api_key_env": "LLAMA_API_KEY",
        "reasoning_style": "template",
        "replay_reasoning": "reasoning_content",
    },
    "lm-studio": {
        "base_url": "http://127.0.0.1:1234/v1",
        "api_key_env": "",
    },
    "mistral": {
        "base_url": "https://api.mistral.ai/v1",
        "api_key_env": "MISTRAL_API_KEY",
        "stream_usage": False,
        "call_ids": "nine",
    },
    "moonshot": {
        "base_url": "https://api.moonshot.ai/v1",
        "api_key_env": "MOONSHOT_API_KEY",
        "reasoning_style": "thinking",
        "replay_reasoning": "reasoning_content",
    },
    "ollama": {
        "base_url": "http://127.0.0.1:11434/v1",
        "api_key_env": "OLLAMA_API_KEY",
        "replay_reasoning": "reasoning",
    },
    "openrouter": {
        "base_url": "https://openrouter.ai/api/v1",
        "api_key_env": "OPENROUTER_API_KEY",
        "reasoning_style": "reasoning",
        "replay_reasoning": "reasoning_details",
    },
    "together": {
        "base_url": "https://api.together.xyz/v1",
        "api_key_env": "TOGETHER_API_KEY",
        "inline_think": True,
    },
    "vllm": {
        "base_url": "http://127.0.0.1:8000/v1",
        "api_key_env": "VLLM_API_KEY",
        "reasoning_style": "template",
        "replay_reasoning": "reasoning",
    },
    "xai": {
        "base_url": "https://api.x.ai/v1",
        "api_key_env": "XAI_API_KEY",
        "replay_reasoning": "reasoning_content",
    },
}
