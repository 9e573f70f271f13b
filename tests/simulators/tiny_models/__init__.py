"""Tiny seeded GGUF models, one for each architecture that is served as layer ranges: what they say is noise.

Equal seeds give equal bytes, and each file's digest is checked. They load as any GGUF does, whole and in ranges.
"""

from tests.simulators.tiny_models.catalogue import (
    NEXTN_MODELS,
    TINY_MODELS,
    WIDE_LLAMA,
    TinyModel,
    tiny_model,
    write_tiny_model,
)

__all__ = ["NEXTN_MODELS", "TINY_MODELS", "WIDE_LLAMA", "TinyModel", "tiny_model", "write_tiny_model"]
