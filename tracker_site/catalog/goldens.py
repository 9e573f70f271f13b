"""Golden probes of the catalogue's models: imported whole, served in excerpts.

Invariants: a probe belongs to exactly one artifact and has rows at every layer at which the artifact may be cut. Its
file is named by the SHA-256 of its bytes. If a probe replaces another, its file is written first, then the database
row, and the old file is deleted last. So a reader finds a whole probe, old or new; if it finds no file, it reads the
row again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from meshnet.errors import ArtifactError
from meshnet.golden.probe import GOLDEN_BYTES_MAX, excerpt_names, parse_golden, require_complete
from meshnet.golden.tensor_file import LENGTH_BYTES, Matrix, header_bytes, parse_header, write_tensors
from meshnet.printable import printable_path
from meshnet.whole_file import write_whole
from tracker_site.catalog.errors import CatalogError
from tracker_site.catalog.models import Model, golden_path

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.golden.probe import GoldenProbe


def import_golden(model: Model, path: Path) -> GoldenProbe:
    """Store a golden probe for a model; if the model has one, replace it.

    Raises:
        ArtifactError: `unreadable`; `not_golden`; `golden_incomplete`.
        CatalogError: `golden_of_another` if the probe was made from another artifact.
    """
    data = _read(path)
    golden = parse_golden(data)
    if golden.artifact_digest != model.digest:
        message = (
            f"{printable_path(path)} was made from artifact {golden.artifact_digest.hex()[:16]}, but {model.name} is "
            f"artifact {model.artifact_digest[:16]}; make a probe of this model with `meshnet probe`"
        )
        raise CatalogError("golden_of_another", "Golden probe of another model", message)
    _require_fit(golden, model)
    _keep(model, data)
    return golden


def drop_golden(model: Model) -> bool:
    """Delete a model's golden probe; return whether there was one."""
    path = model.golden_path
    if path is None:
        return False
    model.golden_digest = ""
    model.save(update_fields=["golden_digest"])
    path.unlink(missing_ok=True)
    return True


def is_golden_outdated(model: Model) -> bool:
    """Return whether the model's stored probe has another layer count, or lacks rows at a present legal cut.

    If the model has no probe, or its file cannot be read, the result is False.
    """
    path = model.golden_path
    if path is None:
        return False
    try:
        golden = parse_golden(_read(path))
    except ArtifactError:
        return False
    try:
        _require_fit(golden, model)
    except ArtifactError:
        return True
    return False


def _require_fit(golden: GoldenProbe, model: Model) -> None:
    if golden.n_layers != model.n_layers:
        message = f"the probe was made for {golden.n_layers} layers, but {model.name} has {model.n_layers}"
        raise ArtifactError("golden_incomplete", "Golden probe lacks rows", message)
    every = range(1, model.n_layers)
    require_complete(golden, every if model.legal_cuts is None else model.legal_cuts, model.vocab_size)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(GOLDEN_BYTES_MAX + 1)
    except OSError as error:
        raise ArtifactError("unreadable", "File cannot be read", f"{printable_path(path)}: {error.strerror}") from error
    return data


def _keep(model: Model, data: bytes) -> None:
    before = model.golden_path
    model.golden_digest = hashlib.sha256(data).hexdigest()
    target = golden_path(model.golden_digest)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(target, data)
    model.save(update_fields=["golden_digest"])
    if before is not None and before != target:
        before.unlink(missing_ok=True)


def read_excerpt(path: Path, n_layers: int, layer_begin: int, layer_end: int) -> bytes | None:
    """Return a golden probe with only the rows at both ends of one shard, by which a node proves that shard.

    None if the file lacks some of these rows, or the layers [layer_begin, layer_end) lie outside the model.

    Raises:
        OSError: the file cannot be read.
        ArtifactError: the file is damaged.
    """
    if not 0 <= layer_begin < layer_end <= n_layers:
        return None
    with path.open("rb") as file:
        begin = file.read(LENGTH_BYTES)
        header = parse_header(begin + file.read(header_bytes(begin) - LENGTH_BYTES))
        matrices = []
        for name in excerpt_names(n_layers, layer_begin, layer_end):
            place = header.places.get(name)
            if place is None:
                return None
            file.seek(header.data_at + place.begin)
            data = file.read(place.end - place.begin)
            if len(data) != place.end - place.begin:
                raise ArtifactError("not_golden", "No golden probe", f"{path.name} is cut off")
            matrices.append(Matrix(name, place.dtype, place.shape, data))
    return write_tensors(header.words, matrices)
