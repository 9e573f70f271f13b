"""Taking a GGUF file into the catalogue.

Invariants: the file is read, never kept; its bytes are untrusted, and only a vocabulary that opens is taken in; the
row is written last, so that an interrupted import leaves no model behind. Importing again gives the model that is
there; what is known of its layers becomes what is known of them now, and a golden probe that lacks rows for that is
dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from meshnet.artifact.gguf import artifact_digest, read_header, refuse_missing, write_vocab_only
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.errors import ArtifactError
from meshnet.vocab import open_vocabulary
from tracker_site.catalog.errors import CatalogError
from tracker_site.catalog.goldens import is_golden_outdated
from tracker_site.catalog.models import NAME_PATTERN, Model

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader
    from meshnet.vocab import Vocabulary


@dataclass(frozen=True)
class ImportedModel:
    """What importing gave.

    Attributes:
        model: the model.
        is_new: it was not there before.
        lost_golden: its golden probe does not fit its layers as they are known now, and was dropped.
    """

    model: Model
    is_new: bool
    lost_golden: bool = False


def import_model(path: Path, *, name: str = "", prompt_micros: int = 0, completion_micros: int = 0) -> ImportedModel:
    """Read a model's (first) GGUF file and offer it. Hashes every byte: minutes for large models.

    Args:
        path: the file, or the first of several.
        name: for clients; from the file's own name where empty.
        prompt_micros: price of a million prompt tokens, in micro-credits.
        completion_micros: price of a million generated tokens, in micro-credits.

    Raises:
        ArtifactError: the file is not a GGUF file that can be used.
        VocabularyError: its vocabulary cannot be opened.
        CatalogError: bad_name; name_taken.
    """
    header = read_header(path)
    # The digest of a file with holes would turn away every node that has the whole one.
    refuse_missing(header, {tensor.name for tensor in header.tensors})
    template = _own_template(header)
    cuts = list(legal_cuts(header).cuts)
    digest = artifact_digest(header.paths).hex()
    existing = Model.objects.filter(artifact_digest=digest).first()
    if existing is not None:
        lost_golden = _correct_layers(existing, header.n_layers, cuts)
        return ImportedModel(existing, is_new=False, lost_golden=lost_golden)
    chosen = _free_name(name or _own_name(header))
    vocabulary_file = f"{digest}.gguf"
    vocabulary = _copy_vocabulary(header, vocabulary_file, template)
    model = Model.objects.create(
        name=chosen,
        artifact_digest=digest,
        architecture=header.architecture,
        n_layers=header.n_layers,
        context_length=header.context_length,
        vocab_size=vocabulary.size,
        legal_cuts=cuts,
        size_bytes=sum(part.stat().st_size for part in header.paths),
        vocabulary_file=vocabulary_file,
        chat_template=template,
        end_tokens=sorted(vocabulary.end_tokens),
        prompt_micros=prompt_micros,
        completion_micros=completion_micros,
    )
    return ImportedModel(model, is_new=True)


def _correct_layers(model: Model, n_layers: int, cuts: list[int]) -> bool:
    """An earlier version may have counted layers otherwise, or not have known where the model may be cut.

    Returns:
        Whether the golden probe was dropped for it: shards that it has no rows for would never be offered.
    """
    if (model.n_layers, model.legal_cuts) == (n_layers, cuts):
        return False
    model.n_layers, model.legal_cuts = n_layers, cuts
    outdated = model.golden_path if is_golden_outdated(model) else None
    if outdated is not None:
        model.golden_digest = ""
    model.save(update_fields=["n_layers", "legal_cuts", "golden_digest"])
    if outdated is not None:
        outdated.unlink(missing_ok=True)
    return outdated is not None


def _copy_vocabulary(header: GgufHeader, file_name: str, template: str) -> Vocabulary:
    folder = Path(settings.VOCABULARY_DIRECTORY)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder / file_name
    write_vocab_only(header, header.paths[0], target)
    return open_vocabulary(
        target,
        architecture=header.architecture,
        context_length=header.context_length,
        chat_template=template or None,
    )


def _free_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        message = f"{name!r} cannot name a model: up to 100 letters, digits and ._:/- are allowed"
        raise CatalogError("bad_name", "Name not allowed", message)
    if Model.objects.filter(name=name).exists():
        raise CatalogError("name_taken", "Name taken", f"another model is called {name}; choose with --name")
    return name


def _own_name(header: GgufHeader) -> str:
    words = header.metadata.get("general.name")
    own = words if isinstance(words, str) and words.strip() else header.paths[0].stem
    return re.sub(r"[^a-z0-9._]+", "-", own.lower()).strip("-._")[:100]


def _own_template(header: GgufHeader) -> str:
    """The file's template, empty where it has none, as a database can keep it."""
    template = header.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return ""
    if "\0" in template or any("\ud800" <= character <= "\udfff" for character in template):
        raise ArtifactError("bad_metadata", "Bad metadata", "the chat template is no UTF-8 or holds a NUL")
    return template
