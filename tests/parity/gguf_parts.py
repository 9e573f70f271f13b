"""Other files of one model: of two parts, as llama.cpp's own splitter names and marks them; metadata to copy."""

from __future__ import annotations

from pathlib import Path

import gguf


def split_in_two(source: Path, folder: Path) -> Path:
    """Write `source` as two parts of about as many tensors each; the cut lies inside a layer. Returns the first part.

    The tensor data is held in memory for the time of the call.
    """
    reader = gguf.GGUFReader(source)
    target = folder / f"{source.stem}.gguf"
    writer = gguf.GGUFWriter(
        target, arch=reader.fields["general.architecture"].contents(), split_max_tensors=(len(reader.tensors) + 1) // 2
    )
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file(target)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (first, _second) = sorted(folder.glob(f"{source.stem}-*-of-00002.gguf"))
    return first


def copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    """Give the writer everything that the file says of itself."""
    for field in reader.fields.values():
        # The writer has these of its own.
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        is_array = field.types[0] is gguf.GGUFValueType.ARRAY
        element_type = field.types[-1] if is_array else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=element_type)
