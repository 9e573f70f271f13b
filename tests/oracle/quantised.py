"""The types that weights of served files have: one float32 model, packed by llama.cpp's own quantiser into each."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import llama_cpp

# By the name that the tensors' type has. What needs an importance matrix is left out.
FILE_TYPES: Final = {
    "f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "bf16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16,
    "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "q4_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1,
    "q5_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0,
    "q5_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_1,
    "iq4_nl": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_NL,
    "mxfp4": llama_cpp.LLAMA_FTYPE_MOSTLY_MXFP4_MOE,
    "q2_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K,
    "q3_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_M,
    "q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "q5_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "iq3_s": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ3_S,
    "iq4_xs": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}


def write_quantised(source: Path, target: Path, file_type: int) -> Path:
    """Write `source` to `target` with every matrix of that file's main type, and return it.

    Raises:
        RuntimeError: the quantiser refused.
    """
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.pure, options.nthread = file_type, True, 1
    status = llama_cpp.llama_model_quantize(bytes(source), bytes(target), ctypes.byref(options))
    if status != 0:
        raise RuntimeError(f"{source.name} was not quantised to the file type {file_type}")
    return target


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator] # llama_cpp has no annotation for it
def _silent(_level: int, _text: bytes, _user_data: object) -> None:
    return
