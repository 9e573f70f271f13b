"""Sizes of the caches that each layer keeps for a sequence: keys and values, compressed or windowed rows, and states.

Invariants: sizes equal those that the pinned llama.cpp allocates with the worker's settings (K and V as f16, separate
cells for each sequence); `tests/integration/inspect` compares them with the sizes that llama.cpp logs. A sliding-window
layer has cells for its window and one ubatch. Source: llama.cpp's llama-kv-cache*.cpp, llama-memory-recurrent.cpp and
llama-hparams.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.artifact.model.architectures import ARCHITECTURES, CacheLayout
from meshnet.artifact.model.hparams import Hparams
from meshnet.artifact.model.indexer import latent_uses

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader

F16_BYTES: Final = 2
F32_BYTES: Final = 4
# The number of cells of a sequence is rounded up to a multiple of this. Source: llama-context.cpp, n_ctx_seq.
CELL_PADDING: Final = 256
# Largest number of rows of a graph. It is llama.cpp's default and part of a route's exact class.
UBATCH_ROWS: Final = 512
# Architecture deepseek4: tokens per compressed row, for its two kinds of layers. Source: llama-kv-cache-dsv4.cpp.
CSA_RATIO: Final = 4
HCA_RATIO: Final = 128


@dataclass(frozen=True, slots=True)
class Rows:
    """One of a layer's caches: rows of equal size, each of which stands for one token or for several.

    Attributes:
        row_bytes: bytes of one row.
        tokens_per_row: tokens that one row stands for; more than 1 if rows are compressed.
        window: number of latest tokens whose rows are needed; 0 if all rows are needed.
    """

    row_bytes: int
    tokens_per_row: int = 1
    window: int = 0

    def cells(self, context_length: int) -> int:
        """Return the number of rows that are allocated for a sequence of `context_length` positions."""
        cells = _padded(context_length)
        if self.window:
            return min(cells, _padded(self.window + UBATCH_ROWS))
        return cells if self.tokens_per_row == 1 else _padded(max(1, -(-cells // self.tokens_per_row)))


def _padded(cells: int) -> int:
    return -(-cells // CELL_PADDING) * CELL_PADDING


@dataclass(frozen=True, slots=True)
class LayerCache:
    """All caches that one layer keeps for a sequence.

    Attributes:
        rows: one entry for each kind of rows that the layer caches.
        state_bytes: bytes of states, which do not grow with the sequence (recurrent ones, for example).
    """

    rows: tuple[Rows, ...] = ()
    state_bytes: int = 0

    def allocated_bytes(self, context_length: int, sequences: int) -> int:
        """Return the bytes that the worker allocates for `sequences` sequences of `context_length` positions."""
        cells_bytes = sum(rows.row_bytes * rows.cells(context_length) for rows in self.rows)
        return sequences * (cells_bytes + self.state_bytes)

    @property
    def bytes_per_token(self) -> float:
        """Bytes by which each token makes the caches grow. Windows and states do not grow, so they are left out."""
        return sum(rows.row_bytes / rows.tokens_per_row for rows in self.rows if not rows.window)

    @property
    def kept_state_bytes(self) -> int:
        """Bytes that a worker saves of one sequence's states and windows, to rewind it. Source: llama_state.h."""
        return self.state_bytes + sum(rows.row_bytes * rows.window for rows in self.rows)

    @property
    def window_bytes(self) -> int:
        """Bytes allocated for windows, if the context is longer than a window and a ubatch together."""
        windows = [rows for rows in self.rows if rows.window]
        return sum(rows.row_bytes * _padded(rows.window + UBATCH_ROWS) for rows in windows)


@dataclass(frozen=True, slots=True)
class ModelCaches:
    """The caches of all layers of a model.

    Attributes:
        layers: one entry for each layer.
        is_known: whether the architecture's cache layout is known; if not, plain attention is assumed.
    """

    layers: tuple[LayerCache, ...]
    is_known: bool = field(default=True)

    @property
    def bytes_per_token(self) -> float:
        """Bytes by which each token makes the caches of all layers grow together."""
        return sum(layer.bytes_per_token for layer in self.layers)

    @property
    def window_bytes(self) -> int:
        """Bytes allocated for one sequence's windows in all layers, if the context is longer than window and ubatch."""
        return sum(layer.window_bytes for layer in self.layers)

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's states over all layers. They do not depend on the sequence's length."""
        return sum(layer.state_bytes for layer in self.layers)


def read_caches(header: GgufHeader) -> ModelCaches:
    """Return the caches of each layer of a model.

    Raises:
        ArtifactError: `bad_metadata` if a value that decides the sizes is missing or wrong.
    """
    known = ARCHITECTURES.get(header.architecture)
    read = _READERS[CacheLayout.KEYS_AND_VALUES if known is None else known.cache_layout]
    return ModelCaches(tuple(read(Hparams(header))), is_known=known is not None)


_Reader: TypeAlias = "Callable[[Hparams], list[LayerCache]]"


def _attention(hparams: Hparams) -> list[LayerCache]:
    """Return the caches of plain attention: each layer keeps K and V of every KV head."""
    return [LayerCache((Rows(row_bytes),)) if row_bytes else LayerCache() for row_bytes in _kv_bytes(hparams)]


def _kv_bytes(hparams: Hparams) -> list[int]:
    """Return the bytes of one position's K and V, for each layer."""
    heads = hparams.per_layer("attention.head_count", 0)
    kv_heads = hparams.per_layer("attention.head_count_kv", 0) if hparams.has("attention.head_count_kv") else heads
    head_width = hparams.width // max(1, heads[0])
    widths = hparams.number("attention.key_length", head_width) + hparams.number("attention.value_length", head_width)
    return [count * widths * F16_BYTES for count in kv_heads]


def _windowed(default_period: int) -> _Reader:
    """Return a function that gives the caches of a model in which all layers except every n-th have a sliding window.

    The file gives n, or a flag for each layer. If it gives neither, n is `default_period`; 0 means that every layer has
    a window.
    """

    def read(hparams: Hparams) -> list[LayerCache]:
        window, key = hparams.number("attention.sliding_window", 0), "attention.sliding_window_pattern"
        if hparams.is_list(key):
            is_windowed = [bool(flag) for flag in hparams.per_layer(key, 0)]
        else:
            period = hparams.number(key, default_period)
            is_windowed = [period == 0 or layer % period < period - 1 for layer in range(hparams.n_layers)]
        return [
            LayerCache((Rows(row_bytes, window=window if has_window else 0),))
            for row_bytes, has_window in zip(_kv_bytes(hparams), is_windowed, strict=True)
        ]

    return read


def _latent_row_bytes(hparams: Hparams) -> int:
    """Return the bytes of the single row per token that multi-head latent attention keeps instead of K and V."""
    return hparams.required("attention.key_length") * F16_BYTES


def _latent(hparams: Hparams) -> list[LayerCache]:
    """Return the caches of multi-head latent attention. Layers of older files keep K and V instead."""
    if not hparams.has("attention.key_length_mla"):
        return _attention(hparams)
    return [LayerCache((Rows(_latent_row_bytes(hparams)),))] * hparams.n_layers


def _latent_with_indexer(hparams: Hparams) -> list[LayerCache]:
    """Return the caches of multi-head latent attention; layers with an indexer of their own also keep its keys."""
    latent, key = Rows(_latent_row_bytes(hparams)), Rows(hparams.required("attention.indexer.key_length") * F16_BYTES)
    return [LayerCache((latent, key) if selects else (latent,)) for selects in latent_uses(hparams)]


def _compressed(hparams: Hparams) -> list[LayerCache]:
    """Return the caches of the architecture deepseek4.

    Every layer has a window. Some layers also have compressed rows and a block of rows that waits for compression, and
    some of these have compressed indexer keys.
    """
    head_width, indexer_width = (
        hparams.required("attention.key_length"),
        hparams.number("attention.indexer.key_length", 0),
    )
    window = Rows(head_width * F16_BYTES, window=hparams.required("attention.sliding_window"))

    def layer(ratio: int) -> LayerCache:
        if ratio == CSA_RATIO:
            compressed = Rows(head_width * F16_BYTES, CSA_RATIO), Rows(indexer_width * F16_BYTES, CSA_RATIO)
            return LayerCache((window, *compressed), _open_block(2 * CSA_RATIO, 2 * (head_width + indexer_width)))
        if ratio == HCA_RATIO:
            return LayerCache((window, Rows(head_width * F16_BYTES, HCA_RATIO)), _open_block(HCA_RATIO, head_width))
        return LayerCache((window,))

    return [layer(ratio) for ratio in hparams.per_layer("attention.compress_ratios", 0)]


def _open_block(rows: int, width: int) -> int:
    """Return the bytes of a block that is not compressed yet: `rows` f32 rows of `width`, and as many scores."""
    return 2 * rows * width * F32_BYTES


def _with_recurrent_layers(hparams: Hparams) -> list[LayerCache]:
    """Return the caches of models with attention in some layers, and a convolution and a delta net in the others."""
    period = hparams.number("full_attention_interval", 4)
    if hparams.has("attention.recurrent_layers"):
        is_recurrent = [bool(one) for one in hparams.per_layer("attention.recurrent_layers", 0)]
    else:
        is_recurrent = [(layer + 1) % max(1, period) != 0 for layer in range(hparams.n_layers)]
    inner, state = hparams.required("ssm.inner_size"), hparams.required("ssm.state_size")
    convolved = inner + 2 * hparams.required("ssm.group_count") * state
    rows = (hparams.required("ssm.conv_kernel") - 1) * convolved + state * inner
    recurrent = LayerCache(state_bytes=rows * F32_BYTES)
    return [
        recurrent if is_one else LayerCache((Rows(row_bytes),))
        for row_bytes, is_one in zip(_kv_bytes(hparams), is_recurrent, strict=True)
    ]


_READERS: Final[dict[CacheLayout, _Reader]] = {
    CacheLayout.KEYS_AND_VALUES: _attention,
    CacheLayout.WINDOWED_OF_TWO: _windowed(2),
    CacheLayout.WINDOWED_OF_SIX: _windowed(6),
    CacheLayout.LATENT: _latent,
    CacheLayout.LATENT_WITH_INDEXER: _latent_with_indexer,
    CacheLayout.COMPRESSED: _compressed,
    CacheLayout.WITH_RECURRENT_LAYERS: _with_recurrent_layers,
}
