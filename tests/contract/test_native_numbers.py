"""The numbers and codes that C++ and Python both write down are the same."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from meshnet import constants
from meshnet.artifact.model import memory
from meshnet.failure_codes import FailureCode
from meshnet.frame import edge_messages, fragments, frames

SOURCE = Path(__file__).resolve().parents[2] / "native" / "src"
DEFINITION = re.compile(r"^inline constexpr [\w:]+ (k\w+) = ([^;]+);", re.MULTILINE)

SHARED: dict[str, float] = {
    "kWireVersionMin": constants.WIRE_VERSION_MIN,
    "kWireVersionMax": constants.WIRE_VERSION,
    "kGraphSemanticsVersion": constants.GRAPH_SEMANTICS_VERSION,
    "kSessionIdBytes": constants.SESSION_ID_BYTES,
    "kMaxStages": constants.MAX_STAGES,
    "kGatewayStage": constants.GATEWAY_STAGE,
    "kMaxMessageBytes": constants.MAX_MESSAGE_BYTES,
    "kEnvelopeReserveBytes": fragments.ENVELOPE_RESERVE_BYTES,
    "kMaxPosition": frames.MAX_POSITION,
    "kMaxRows": frames.MAX_ROWS,
    "kMaxTokenId": frames.MAX_TOKEN_ID,
    "kMaxTensors": frames.MAX_TENSORS,
    "kMaxTensorNameBytes": frames.MAX_TENSOR_NAME_BYTES,
    "kMaxElementsPerRow": frames.MAX_ELEMENTS_PER_ROW,
    "kMaxTensorBytes": frames.MAX_TENSOR_BYTES,
    "kMaxFragments": frames.MAX_FRAGMENTS,
    "kQ80BlockElements": frames.Q8_0_BLOCK_ELEMENTS,
    "kQ80BlockBytes": frames.Q8_0_BLOCK_BYTES,
    "kMaxTextBytes": edge_messages.MAX_TEXT_BYTES,
    "kMaxTopLogprobs": edge_messages.MAX_TOP_LOGPROBS,
    "kDefaultTokenWindow": constants.TOKEN_ACK_WINDOW,
    "kDefaultGatewayGraceMs": constants.GATEWAY_GRACE_S * 1000,
    "kClosedMemoryMs": constants.CLOSED_MEMORY_S * 1000,
}
# What the worker alone decides.
NATIVE = {"kDefaultIdleMs", "kDefaultStepDeadlineMs", "kMaxLinkItems"}


def value_of(expression: str) -> int:
    """A product or a shift of literals."""
    product, _, shift = expression.replace("'", "").partition("<<")
    return math.prod(int(factor.strip().rstrip("ul"), 0) for factor in product.split("*")) << int(shift or "0", 0)


@pytest.mark.parametrize(
    ("expression", "value"), [("512 * 1024", 524288), ("0x7f", 127), ("1u << 20", 1 << 20), ("60'000", 60000)]
)
def test_expressions_are_read(expression: str, value: int) -> None:
    assert value_of(expression) == value


def test_numbers_are_equal_and_none_is_forgotten() -> None:
    text = (SOURCE / "wire/protocol_limits.h").read_text()
    found = {name: value_of(expression) for name, expression in DEFINITION.findall(text)}
    assert text.count("constexpr") == len(found)
    assert {name: value for name, value in found.items() if name not in NATIVE} == SHARED


def test_the_worker_writes_every_failure_code_and_in_the_order_of_the_page() -> None:
    names = re.findall(r'return "([a-z_]+)";', (SOURCE / "wire/status.cpp").read_text())
    assert [name for name in names if name in set(FailureCode)] == list(FailureCode)


def test_states_to_go_back_to_are_as_many_and_as_large_as_memory_is_counted_for() -> None:
    history = (SOURCE / "engine/sequence_history.h").read_text()
    engine = (SOURCE / "engine/rewinding_engine.h").read_text()
    assert f"kStates = {memory.KEPT_STATES};" in history
    shift = re.search(r"kMaxStateBytes = std::uint64_t\{1\} << (\d+);", engine)
    assert shift is not None
    assert 1 << int(shift[1]) == memory.KEPT_STATE_BYTES_MAX
