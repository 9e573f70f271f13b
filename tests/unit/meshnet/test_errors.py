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


def _quote(texts: dict[str, str], secret: str) -> str:
    try:
        return texts[secret]
    except KeyError as error:
        raise ValueError(f"what is {secret}?") from error


def test_an_unforeseen_error_is_told_by_types_and_places_and_never_by_its_words() -> None:
    secret = "pmorp a"[::-1]  # as it stands nowhere in the source, whose lines are told
    with pytest.raises(ValueError, match=secret) as caught:
        _quote({}, secret)

    told = errors.describe_unforeseen(caught.value)

    assert told.startswith("ValueError\n")
    assert "\nKeyError\n" in told
    assert told.count("in _quote") == 2
    assert secret not in told


def test_errors_that_cause_each_other_are_told_once() -> None:
    first, second = ValueError("1"), KeyError("2")
    first.__cause__, second.__cause__ = second, first

    assert errors.describe_unforeseen(first) == "ValueError\nKeyError"
