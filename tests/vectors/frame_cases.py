"""Cases of frames.json: what each says once decoded, or why it is refused."""

from __future__ import annotations

from typing import Any

from meshnet.v1 import frame_pb2

SESSION = "000102030405060708090a0b0c0d0e0f"


def tensor(rows: int, elements: int, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"name": "hidden", "dtype": "F32", "shape": [rows, elements], "codec": "RAW"}
    base.update(changes)
    if "data" not in base:
        size_bytes = rows * elements * {"F32": 4, "I32": 4, "F16": 2, "BF16": 2}[base["dtype"]]
        if base["codec"] == "BF16":
            size_bytes = rows * elements * 2
        if base["codec"] == "Q8_0":
            size_bytes = rows * elements // 32 * 34
        base["data"] = bytes((7 * i + 1) % 256 for i in range(size_bytes)).hex()
    return base


def frame(**changes: Any) -> dict[str, Any]:
    """A decode frame on the seam 0 -> 1, changed field by field."""
    base: dict[str, Any] = {
        "session": SESSION,
        "epoch": 1,
        "from_stage": 0,
        "to_stage": 1,
        "seq": 0,
        "phase": "DECODE",
        "position": 10,
        "rows": 1,
        "rewind": False,
        "prompt_end": False,
        "token_ids": [],
        "tensors": [],
        "logits_rows": [],
        "budget_ms": 0,
        "residence": [],
        "fragment": None,
    }
    return base | changes


def residence(stage: int, queue_us: int, compute_us: int, codec_us: int) -> dict[str, int]:
    return {"stage": stage, "queue_us": queue_us, "compute_us": compute_us, "codec_us": codec_us}


def fragment(index: int, count: int, offset_bytes: int, total_bytes: int) -> dict[str, int]:
    return {"index": index, "count": count, "offset_bytes": offset_bytes, "total_bytes": total_bytes}


def encode(fields: dict[str, Any]) -> bytes:
    """Bytes of any fields, right or wrong; names of enums, or their numbers where no name exists."""
    tensors = [
        frame_pb2.Tensor(
            name=item["name"],
            dtype=_number(frame_pb2.DType, "DTYPE", item["dtype"]),
            shape=item["shape"],
            codec=_number(frame_pb2.Codec, "CODEC", item["codec"]),
            data=bytes.fromhex(item["data"]),
        )
        for item in fields["tensors"]
    ]
    plain = {name: value for name, value in fields.items() if name not in {"session", "phase", "tensors", "residence"}}
    message = frame_pb2.Frame(
        **plain,
        session=bytes.fromhex(fields["session"]),
        phase=_number(frame_pb2.Phase, "PHASE", fields["phase"]),
        tensors=tensors,
        residence=[frame_pb2.StageResidence(**item) for item in fields["residence"]],
    )
    return message.SerializeToString(deterministic=True)


def _number(enumeration: Any, prefix: str, value: str | int) -> Any:
    return value if isinstance(value, int) else int(enumeration.Value(f"{prefix}_{value}"))


GOOD: dict[str, dict[str, Any]] = {
    "decode_one_row": frame(tensors=[tensor(1, 8)]),
    "decode_with_ids_budget_and_residence": frame(
        token_ids=[151643],
        tensors=[tensor(1, 4)],
        logits_rows=[0],
        budget_ms=950,
        residence=[residence(0, 12, 11034, 3)],
        position=2000,
        seq=1990,
    ),
    "prompt_chunk_from_gateway": frame(
        from_stage=127, to_stage=0, phase="PREFILL", position=0, rows=3, token_ids=[256, 72, 105]
    ),
    "last_prompt_chunk": frame(
        phase="PREFILL",
        position=128,
        rows=2,
        seq=1,
        prompt_end=True,
        token_ids=[1, 2],
        tensors=[tensor(2, 4)],
        logits_rows=[1],
    ),
    "ring_token": frame(from_stage=2, to_stage=0, token_ids=[65], position=11, seq=4),
    "verify_with_rewind": frame(
        phase="VERIFY", rows=3, position=40, rewind=True, token_ids=[7, 8, 9], tensors=[tensor(3, 4)]
    ),
    "two_tensors": frame(tensors=[tensor(1, 4), tensor(1, 2, name="ids", dtype="I32")]),
    "f16_rows": frame(tensors=[tensor(1, 6, dtype="F16")]),
    "bf16_codec": frame(tensors=[tensor(1, 6, codec="BF16")]),
    "q8_0_codec": frame(tensors=[tensor(1, 64, codec="Q8_0")]),
    "first_fragment": frame(tensors=[tensor(1, 8, data="11" * 20)], fragment=fragment(0, 2, 0, 32)),
    "last_fragment": frame(tensors=[tensor(1, 8, data="22" * 12)], fragment=fragment(1, 2, 20, 32)),
    "largest_numbers": frame(
        session="ff" * 16,
        epoch=2**32 - 1,
        from_stage=62,
        to_stage=63,
        seq=2**64 - 1,
        position=2**31 - 2,
        token_ids=[2**31 - 1],
        budget_ms=2**32 - 1,
        residence=[residence(stage, 2**32 - 1, 2**32 - 1, 2**32 - 1) for stage in range(64)],
    ),
}

# name -> (fields, code, whether only the session fails)
BAD_FIELDS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "short_session": (frame(session="00" * 15), "malformed", False),
    "no_session": (frame(session=""), "malformed", False),
    "epoch_zero": (frame(epoch=0), "malformed", False),
    "stage_out_of_range": (frame(from_stage=64), "malformed", False),
    "stage_to_itself": (frame(from_stage=0, to_stage=0), "malformed", False),
    "frame_to_gateway": (frame(from_stage=1, to_stage=127), "malformed", True),
    "no_rows": (frame(rows=0), "malformed", True),
    "too_many_rows": (frame(phase="PREFILL", rows=8193), "malformed", True),
    "no_phase": (frame(phase=0), "malformed", True),
    "unknown_phase": (frame(phase=9), "malformed", True),
    "position_beyond_31_bits": (frame(position=2**31 - 1), "malformed", True),
    "decode_of_two_rows": (frame(rows=2), "malformed", True),
    "prompt_end_in_decode": (frame(prompt_end=True), "malformed", True),
    "ids_do_not_match_rows": (frame(phase="PREFILL", rows=3, token_ids=[1, 2]), "malformed", True),
    "token_id_beyond_31_bits": (frame(token_ids=[2**31]), "bad_token_id", True),
    "logits_row_out_of_range": (frame(logits_rows=[1]), "malformed", True),
    "logits_row_twice": (frame(phase="PREFILL", rows=2, logits_rows=[1, 1]), "malformed", True),
    "nine_tensors": (frame(tensors=[tensor(1, 4, name=f"t{i}") for i in range(9)]), "malformed", True),
    "tensor_without_name": (frame(tensors=[tensor(1, 4, name="")]), "malformed", True),
    "tensor_name_of_65_bytes": (frame(tensors=[tensor(1, 4, name="n" * 65)]), "malformed", True),
    "two_tensors_of_one_name": (frame(tensors=[tensor(1, 4), tensor(1, 4)]), "malformed", True),
    "unknown_dtype": (frame(tensors=[tensor(1, 4) | {"dtype": 17}]), "wrong_dtype", True),
    "unknown_codec": (frame(tensors=[tensor(1, 4) | {"codec": 17}]), "wrong_dtype", True),
    "codec_on_f16": (frame(tensors=[tensor(1, 4, dtype="F16", codec="BF16")]), "wrong_dtype", True),
    "shape_of_one_dimension": (frame(tensors=[tensor(1, 4) | {"shape": [4]}]), "wrong_shape", True),
    "shape_of_three_dimensions": (frame(tensors=[tensor(1, 4) | {"shape": [1, 2, 2]}]), "wrong_shape", True),
    "shape_with_other_rows": (frame(tensors=[tensor(2, 4)]), "wrong_shape", True),
    "row_of_no_elements": (frame(tensors=[tensor(1, 0)]), "wrong_shape", True),
    "row_of_too_many_elements": (frame(tensors=[tensor(1, 4) | {"shape": [1, 2**20 + 1]}]), "wrong_shape", True),
    "q8_0_of_half_a_block": (frame(tensors=[tensor(1, 48, codec="Q8_0", data="00" * 51)]), "wrong_shape", True),
    "rows_beyond_any_window": (
        frame(phase="PREFILL", rows=4096, tensors=[tensor(1, 4) | {"shape": [4096, 2**20]}]),
        "message_too_large",
        True,
    ),
    "data_one_byte_short": (frame(tensors=[tensor(1, 4, data="00" * 15)]), "wrong_size", True),
    "data_one_byte_long": (frame(tensors=[tensor(1, 4, data="00" * 17)]), "wrong_size", True),
    "bf16_with_f32_bytes": (frame(tensors=[tensor(1, 4, codec="BF16", data="00" * 16)]), "wrong_size", True),
    "fragment_of_one": (
        frame(tensors=[tensor(1, 8, data="11" * 32)], fragment=fragment(0, 1, 0, 32)),
        "malformed",
        True,
    ),
    "fragment_index_out_of_range": (
        frame(tensors=[tensor(1, 8, data="11" * 12)], fragment=fragment(2, 2, 20, 32)),
        "malformed",
        True,
    ),
    "fragment_without_tensor": (frame(fragment=fragment(0, 2, 0, 32)), "malformed", True),
    "fragment_total_differs_from_rows": (
        frame(tensors=[tensor(1, 8, data="11" * 20)], fragment=fragment(0, 2, 0, 33)),
        "wrong_size",
        True,
    ),
    "fragment_beyond_its_rows": (
        frame(tensors=[tensor(1, 8, data="11" * 20)], fragment=fragment(1, 2, 20, 32)),
        "wrong_size",
        True,
    ),
    "fragment_offset_overflows": (
        frame(tensors=[tensor(1, 8, data="11" * 20)], fragment=fragment(1, 2, 2**64 - 1, 32)),
        "wrong_size",
        True,
    ),
    "fragment_without_data": (
        frame(tensors=[tensor(1, 8, data="")], fragment=fragment(1, 3, 20, 32)),
        "wrong_size",
        True,
    ),
    "first_fragment_with_an_offset": (
        frame(tensors=[tensor(1, 8, data="11" * 8)], fragment=fragment(0, 2, 8, 32)),
        "malformed",
        True,
    ),
    "last_fragment_that_stops_early": (
        frame(tensors=[tensor(1, 8, data="11" * 8)], fragment=fragment(1, 2, 20, 32)),
        "malformed",
        True,
    ),
    "residence_of_a_stage_twice": (
        frame(residence=[residence(1, 1, 1, 1), residence(1, 2, 2, 2)]),
        "malformed",
        True,
    ),
    "residence_of_the_gateway": (frame(residence=[residence(127, 1, 1, 1)]), "malformed", True),
}

# name -> (hex, code, limit in bytes or None)
BAD_BYTES: dict[str, tuple[str, str, int | None]] = {
    "empty": ("", "malformed", None),
    "garbage": ("ff" * 24, "malformed", None),
    "truncated": (encode(GOOD["decode_one_row"])[:-1].hex(), "malformed", None),
    "over_the_limit": (encode(GOOD["decode_one_row"]).hex(), "message_too_large", 32),
    "invalid_utf8_name": (
        encode(frame(tensors=[tensor(1, 4)])).hex().replace(b"hidden".hex(), "ff" * 6),
        "malformed",
        None,
    ),
}
