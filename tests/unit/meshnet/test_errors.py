import pytest

from meshnet import errors

SUBCLASSES = [
    errors.ProtocolError,
    errors.ArtifactError,
    errors.TransferError,
    errors.RouteError,
    errors.WorkerError,
    errors.LedgerError,
]


@pytest.mark.parametrize("subclass", SUBCLASSES)
def test_every_error_has_one_root_and_carries_its_three_parts(subclass):
    with pytest.raises(errors.MeshnetError) as caught:
        raise subclass("no_route", "No route", "Nobody serves this model.")

    assert caught.value.code == "no_route"
    assert caught.value.title == "No route"
    assert caught.value.message == "Nobody serves this model."
    assert str(caught.value) == "no_route: Nobody serves this model."


def test_subclasses_are_siblings_so_that_each_decides_one_action():
    for subclass in SUBCLASSES:
        assert subclass.__bases__ == (errors.MeshnetError,)
