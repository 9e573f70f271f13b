from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction

from meshnet.artifact.gguf import artifact_digest, read_header
from meshnet.errors import ArtifactError
from tests.simulators.fake_model import write_fake_model
from tracker_site.catalog.errors import CatalogError
from tracker_site.catalog.importing import import_model
from tracker_site.catalog.models import Model

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_vocabularies(settings: SettingsWrapper, tmp_path: Path) -> None:
    settings.VOCABULARY_DIRECTORY = tmp_path / "vocabularies"


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return write_fake_model(tmp_path / "fake.gguf", n_layers=6, context_length=2048, name="Fake One")


def vocabularies() -> list[Path]:
    folder = Path(settings.VOCABULARY_DIRECTORY)
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_model_is_taken_in(gguf: Path) -> None:
    imported = import_model(gguf, prompt_micros=3, completion_micros=5)
    assert imported.is_new
    model = Model.objects.get()
    assert (model.name, model.architecture, model.n_layers, model.context_length) == ("fake-one", "fake", 6, 2048)
    assert (model.vocab_size, model.end_tokens, model.size_bytes) == (260, [257], gguf.stat().st_size)
    assert (model.prompt_micros, model.completion_micros, model.is_listed) == (3, 5, True)
    assert model.legal_cuts == [1, 2, 3, 4, 5]
    assert model.digest == artifact_digest([gguf])
    assert "<|assistant|>" in model.chat_template


def test_the_vocabulary_copy_has_the_metadata_and_no_tensor(gguf: Path) -> None:
    model = import_model(gguf).model
    copy = read_header(model.vocabulary_path)
    assert vocabularies() == [model.vocabulary_path]
    assert (len(copy.tensors), copy.metadata) == (0, read_header(gguf).metadata)
    assert len(read_header(gguf).tensors) > 0


def test_again_it_is_the_same_model(gguf: Path) -> None:
    first = import_model(gguf, name="first")
    again = import_model(gguf, name="second", prompt_micros=9)
    assert (again.is_new, again.model.pk, again.model.name) == (False, first.model.pk, "first")
    assert Model.objects.get().prompt_micros == 0


@pytest.mark.parametrize("wrong", [{"legal_cuts": None}, {"legal_cuts": [2]}, {"n_layers": 7}])
def test_again_corrects_what_is_known_of_its_layers(gguf: Path, wrong: dict[str, object]) -> None:
    first = import_model(gguf).model
    Model.objects.update(**wrong, prompt_micros=7)
    again = import_model(gguf)
    assert not again.is_new
    stored = Model.objects.get()
    for model in (again.model, stored):
        assert (model.pk, model.n_layers, model.legal_cuts) == (first.pk, 6, [1, 2, 3, 4, 5])
    assert stored.prompt_micros == 7


def test_a_name_belongs_to_one_model(gguf: Path, tmp_path: Path) -> None:
    import_model(gguf, name="fake")
    other = write_fake_model(tmp_path / "other.gguf", n_layers=7)
    with pytest.raises(CatalogError, match="name_taken"):
        import_model(other, name="fake")
    assert len(vocabularies()) == 1


@pytest.mark.parametrize("name", ["with blank", "-dash", "a" * 101, 'quote"', "new\nline", "über"])
def test_names_that_are_refused(gguf: Path, name: str) -> None:
    with pytest.raises(CatalogError, match="bad_name"):
        import_model(gguf, name=name)
    assert not Model.objects.exists()


WRONG_FILES = [
    ("missing", "unreadable"), ("text", "not_gguf"), ("cut", "truncated"), ("sparse", "missing_range"),
    ("template_of_bytes", "bad_metadata"), ("template_with_nul", "bad_metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), WRONG_FILES)
def test_files_that_are_refused(gguf: Path, tmp_path: Path, kind: str, code: str) -> None:
    path = tmp_path / "bad.gguf"
    if kind == "text":
        path.write_text("not a model, but long enough to look at")
    elif kind == "cut":
        path.write_bytes(gguf.read_bytes()[:-100])
    elif kind.startswith("template"):
        whole, wrong = gguf.read_bytes(), b"\0" if kind == "template_with_nul" else b"\xff"
        assert whole.count(b"{% endfor %}") == 1
        path.write_bytes(whole.replace(b"{% endfor %}", b"{% endfor" + wrong + b"%}"))
    elif kind == "sparse":
        with path.open("wb") as file:
            file.write(gguf.read_bytes()[:8192])
            file.truncate(gguf.stat().st_size)
    with pytest.raises(ArtifactError) as caught:
        import_model(path)
    assert caught.value.code == code
    assert not Model.objects.exists()
    assert vocabularies() == []


def test_clients_find_listed_models_only(gguf: Path) -> None:
    model = import_model(gguf, name="fake").model
    assert Model.listed("fake") == model
    assert Model.listed("other") is None
    Model.objects.update(is_listed=False)
    assert Model.listed("fake") is None


@pytest.mark.parametrize("name", ["a\0b", "fake\n", "\ufffd", "", "x" * 300])
def test_what_cannot_be_a_name_is_not_even_looked_for(
    gguf: Path, django_assert_num_queries: DjangoAssertNumQueries, name: str
) -> None:
    import_model(gguf, name="fake")
    with django_assert_num_queries(0):
        assert Model.listed(name) is None


def test_prices_have_a_ceiling(gguf: Path) -> None:
    import_model(gguf)
    with pytest.raises(IntegrityError, match="catalog_model_prices"), transaction.atomic():
        Model.objects.update(prompt_micros=10**12 + 1)
