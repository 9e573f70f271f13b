from __future__ import annotations

from meshnet.ids import Address, Edge, SessionKey, is_stage, new_session_id


def test_a_session_id_is_drawn_from_the_given_source() -> None:
    assert new_session_id(lambda count: b"x" * count) == b"x" * 16


def test_stages_are_0_to_63_and_the_gateway() -> None:
    assert [stage for stage in range(-1, 200) if is_stage(stage)] == [*range(64), 127]


def test_names_for_logs_are_short() -> None:
    address = Address(SessionKey(bytes(range(16)), 2), Edge(127, 0))
    assert str(address) == "000102030405/2 gateway->0"
    assert address.edge.reversed() == Edge(0, 127)
