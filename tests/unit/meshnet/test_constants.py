from meshnet import constants


def test_stage_indices_and_the_gateway_do_not_collide_and_take_one_varint_byte():
    assert constants.MAX_STAGES <= constants.GATEWAY_STAGE < 128


def test_wire_versions_are_a_range():
    assert 1 <= constants.WIRE_VERSION_MIN <= constants.WIRE_VERSION
