"""A GGUF file with every tensor dequantised to float32, so that two engines differ by their arithmetic alone."""

from __future__ import annotations

from pathlib import Path

import gguf

from tests.parity.gguf_parts import copy_metadata


def write_full_precision(source: Path, target: Path) -> Path:
    """Write `source` with float32 tensors to `target` and return it. Its tensors are held in memory for the time."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, arch=reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
