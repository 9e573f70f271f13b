"""Golden probes of the catalogue: taken in only for their own model, given out to whoever has a shard to prove."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import Client

from meshnet.errors import ArtifactError, MeshnetError
from meshnet.golden.probe import parse_golden, write_golden
from tests.simulators.fake_model import write_fake_model
from tests.unit.meshnet.golden.goldens import fake_golden
from tracker_site.catalog import views
from tracker_site.catalog.errors import CatalogError
from tracker_site.catalog.goldens import drop_golden, import_golden, read_excerpt
from tracker_site.catalog.importing import import_model
from tracker_site.catalog.models import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import SettingsWrapper

    from meshnet.golden.probe import GoldenProbe

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_cache")]

N_LAYERS, WIDTH = 4, 16


@pytest.fixture(autouse=True)
def _own_folders(settings: SettingsWrapper, tmp_path: Path) -> None:
    settings.VOCABULARY_DIRECTORY = tmp_path / "vocabularies"
    settings.GOLDEN_DIRECTORY = tmp_path / "goldens"


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return import_model(write_fake_model(tmp_path / "fake.gguf", n_layers=N_LAYERS, width=WIDTH)).model


@pytest.fixture
def golden(model: Model) -> GoldenProbe:
    return fake_golden(N_LAYERS, WIDTH, model.digest)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write_file(data: bytes) -> Path:
        path = tmp_path / "golden.safetensors"
        path.write_bytes(data)
        return path

    return write_file


def kept() -> list[str]:
    folder = Path(settings.GOLDEN_DIRECTORY)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def address(model: Model, layer_begin: int, layer_end: int) -> str:
    return f"/api/models/{model.artifact_digest}/golden/{layer_begin}/{layer_end}"


def test_a_golden_probe_is_taken_in_and_replaced(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    assert (model.golden_digest, model.golden_path) == ("", None)
    data = write_golden(golden)
    assert import_golden(model, write(data)) == golden
    stored = Model.objects.get()
    assert stored.golden_digest == hashlib.sha256(data).hexdigest()
    assert stored.golden_path is not None
    assert stored.golden_path.read_bytes() == data
    assert (stored.golden_path.parent.stat().st_mode & 0o077) == 0
    again = write_golden(replace(golden, pin="another build"))
    import_golden(stored, write(again))
    assert kept() == [f"{hashlib.sha256(again).hexdigest()}.safetensors"]
    import_golden(stored, write(again))
    assert len(kept()) == 1


def test_a_probe_of_a_wrong_file_or_of_less_is_refused(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    lacking = {cut: rows for cut, rows in golden.hidden.items() if cut != 2}
    wrong: list[tuple[bytes, type[MeshnetError], str]] = [
        (write_golden(fake_golden(N_LAYERS, WIDTH)), CatalogError, "golden_of_another"),
        (write_golden(replace(golden, hidden=lacking)), ArtifactError, "golden_incomplete"),
        (write_golden(replace(golden, logits=None)), ArtifactError, "golden_incomplete"),
        (write_golden(fake_golden(5, WIDTH, model.digest)), ArtifactError, "golden_incomplete"),
        (write_golden(golden)[:-1], ArtifactError, "not_golden"),
        (b"GGUF", ArtifactError, "not_golden"),
    ]
    for data, kind, code in wrong:
        with pytest.raises(kind, match=code):
            import_golden(model, write(data))
    assert (kept(), Model.objects.get().golden_digest) == ([], "")
    import_golden(model, write(write_golden(golden)))
    for data, kind, _ in wrong:
        with pytest.raises(kind):
            import_golden(model, write(data))
    assert Model.objects.get().golden_digest == hashlib.sha256(write_golden(golden)).hexdigest()
    print(f"golden probes refused: {len(wrong)}")


def test_a_probe_that_is_dropped_is_not_given_out(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    assert not drop_golden(model)
    import_golden(model, write(write_golden(golden)))
    assert drop_golden(Model.objects.get())
    assert (kept(), Client().get(address(model, 0, 4)).status_code) == ([], 404)
    import_golden(Model.objects.get(), write(write_golden(golden)))
    assert Client().get(address(model, 0, 4)).status_code == 200


def test_an_absent_file_is_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="unreadable"):
        import_golden(model, tmp_path / "absent")


def test_each_shard_is_given_the_rows_of_its_ends(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    import_golden(model, write(write_golden(golden)))
    compared = 0
    for begin in range(N_LAYERS):
        for end in range(begin + 1, N_LAYERS + 1):
            answer = Client().get(address(model, begin, end))
            assert answer.status_code == 200
            excerpt = parse_golden(answer.content)
            assert (excerpt.artifact_digest, excerpt.token_ids) == (model.digest, golden.token_ids)
            assert (excerpt.before(begin), excerpt.after(end)) == (golden.before(begin), golden.after(end))
            assert len(excerpt.hidden) == (begin > 0) + (end < N_LAYERS)
            compared += 1
    assert compared == 10


def test_where_there_is_nothing_the_answer_is_404(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    def code(path: str) -> str:
        answer = Client().get(path)
        assert answer.status_code == 404
        words: str = answer.json()["error"]["code"]
        return words

    assert code(address(model, 0, 4)) == "no_golden_probe"
    import_golden(model, write(write_golden(golden)))
    assert code(address(model, 0, 4).replace(model.artifact_digest, "0" * 64)) == "no_golden_probe"
    for begin, end in ((0, 5), (2, 2), (3, 1), (9, 10), (0, 0), (10**30, 10**31)):
        assert code(address(model, begin, end)) == "no_golden_rows"
    assert Client().get("/api/models/short/golden/0/4").status_code == 404
    posted = Client().post(address(model, 0, 4))
    assert (posted.status_code, posted.json()["error"]["code"]) == (405, "method_not_allowed")
    assert posted["Allow"] == "GET, HEAD"


def test_a_lost_or_damaged_file_is_no_404_for_nodes_would_serve_untested(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    import_golden(model, write(write_golden(golden)))
    path = Model.objects.get().golden_path
    assert path is not None
    path.write_bytes(b"damaged")
    damaged = Client().get(address(model, 0, 4))
    path.write_bytes(write_golden(golden)[:-1])
    cut_off = Client().get(address(model, 0, 4))
    path.unlink()
    lost = Client().get(address(model, 0, 4))
    for answer in (damaged, cut_off, lost):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "golden_unreadable")


def test_whoever_has_the_rows_is_not_sent_them_again(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path]
) -> None:
    import_golden(model, write(write_golden(golden)))
    first = Client().get(address(model, 0, 4))
    asked = Client().head(address(model, 0, 4))
    assert (asked.status_code, asked["ETag"], asked["Content-Length"]) == (200, first["ETag"], str(len(first.content)))
    again = Client().get(address(model, 0, 4), headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    # What was never there is not called unchanged.
    assert Client().get(address(model, 0, 9), headers={"If-None-Match": first["ETag"]}).status_code == 404
    import_golden(Model.objects.get(), write(write_golden(replace(golden, pin="another build"))))
    replaced = Client().get(address(model, 0, 4), headers={"If-None-Match": first["ETag"]})
    assert (replaced.status_code, parse_golden(replaced.content).pin) == (200, "another build")


def test_a_probe_that_is_replaced_while_it_is_asked_for_is_answered_by_the_new_one(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_golden(model, write(write_golden(golden)))
    paths = []

    def replace_and_read(path: Path, *place: int) -> bytes | None:
        if not paths:
            import_golden(Model.objects.get(), write(write_golden(replace(golden, pin="another build"))))
        paths.append(path)
        return read_excerpt(path, *place)

    monkeypatch.setattr(views, "read_excerpt", replace_and_read)
    answer = Client().get(address(model, 0, 4))
    assert (answer.status_code, len(set(paths)), len(paths)) == (200, 2, 2)
    assert parse_golden(answer.content).pin == "another build"


def test_one_address_may_ask_so_often(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path], settings: SettingsWrapper
) -> None:
    settings.GOLDENS_PER_MINUTE = 2
    import_golden(model, write(write_golden(golden)))
    statuses = [Client().get(address(model, 0, 4)).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_importing_the_model_again_keeps_its_probe(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path], tmp_path: Path
) -> None:
    import_golden(model, write(write_golden(golden)))
    Model.objects.update(legal_cuts=None)
    imported = import_model(tmp_path / "fake.gguf")
    again = imported.model
    assert not imported.lost_golden
    assert again.golden_path is not None
    assert again.golden_path.exists()


@pytest.mark.parametrize("n_layers", [N_LAYERS, N_LAYERS - 1])
def test_importing_the_model_again_drops_a_probe_that_lacks_rows_for_what_is_known_now(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path], tmp_path: Path, n_layers: int
) -> None:
    Model.objects.update(n_layers=n_layers, legal_cuts=[1])
    early = replace(golden, n_layers=n_layers, hidden={1: golden.hidden[1]})
    import_golden(Model.objects.get(), write(write_golden(early)))
    assert len(kept()) == 1
    imported = import_model(tmp_path / "fake.gguf")
    stored = Model.objects.get()
    assert (imported.lost_golden, imported.model.golden_digest, stored.golden_digest, kept()) == (True, "", "", [])
    assert (stored.n_layers, stored.legal_cuts) == (N_LAYERS, [1, 2, 3])
    import_golden(stored, write(write_golden(golden)))
    assert Client().get(address(model, 1, 2)).status_code == 200


def test_importing_the_model_again_keeps_a_probe_that_cannot_be_read_for_nodes_would_serve_untested(
    model: Model, golden: GoldenProbe, write: Callable[[bytes], Path], tmp_path: Path
) -> None:
    import_golden(model, write(write_golden(golden)))
    path = Model.objects.get().golden_path
    assert path is not None
    path.write_bytes(b"damaged")
    Model.objects.update(legal_cuts=None)
    assert not import_model(tmp_path / "fake.gguf").lost_golden
    assert Client().get(address(model, 0, 4)).status_code == 503
