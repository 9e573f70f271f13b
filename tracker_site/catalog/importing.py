"""Imports a GGUF file into the catalogue.

Invariants: the site reads the file and keeps no copy of its weights. Its bytes are untrusted; a model is imported only
if its vocabulary can be opened. The database row is written last, so that an interrupted import leaves no model behind.
If the file is imported again, the model keeps its name and prices, its layer count and legal cuts are computed anew,
and its golden probe is dropped if the probe lacks rows at the new cuts.
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
    """Result of an import.

    Attributes:
        model: the model.
        is_new: whether the import created it.
        lost_golden: whether the model's golden probe was dropped, because it lacks rows at the model's present cuts.
    """

    model: Model
    is_new: bool
    lost_golden: bool = False


def import_model(path: Path, *, name: str = "", prompt_micros: int = 0, completion_micros: int = 0) -> ImportedModel:
    """Import a model from its GGUF file and offer it. It hashes every byte, which takes minutes for large models.

    Args:
        path: the file; if the model is split into several, the first.
        name: the name for clients; if it is empty, the name in the file's metadata, or else the file's own name.
        prompt_micros: price of a million prompt tokens, in micro-credits.
        completion_micros: price of a million generated tokens, in micro-credits.

    Raises:
        ArtifactError: the file is no usable GGUF file.
        VocabularyError: its vocabulary cannot be opened.
        CatalogError: `bad_name`; `name_taken`.
    """
    header = read_header(path)
    # An incomplete file has another digest, and the site would then refuse every node that has the whole file.
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
    """Store a model's layer count and legal cuts, if an earlier version of the site stored others or no cuts.

    Returns:
        Whether the model's golden probe was dropped, because it lacks rows at these cuts.
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
        message = (
            f"{name!r} cannot name a model; with --name, give a letter or digit and then up to 99 letters, digits or "
            "._:/-"
        )
        raise CatalogError("bad_name", "Name not allowed", message)
    if Model.objects.filter(name=name).exists():
        raise CatalogError(
            "name_taken", "Name taken", f"another model is called {name}; choose another name with --name"
        )
    return name


def _own_name(header: GgufHeader) -> str:
    title = header.metadata.get("general.name")
    own = title if isinstance(title, str) and title.strip() else header.paths[0].stem
    return re.sub(r"[^a-z0-9._]+", "-", own.lower()).strip("-._")[:100]


def _own_template(header: GgufHeader) -> str:
    """Return the chat template of the file; "" if it has none.

    Raises:
        ArtifactError: `bad_metadata` if a database cannot store the template.
    """
    template = header.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return ""
    if "\0" in template or any("\ud800" <= character <= "\udfff" for character in template):
        raise ArtifactError("bad_metadata", "Bad metadata", "the chat template is not UTF-8 or contains a NUL")
    return template
