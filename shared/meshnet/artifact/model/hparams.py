"""Reads a model's hyperparameters. Keys are given without the architecture's prefix, which this module adds.

Invariant: a value of a wrong type, sign or length is refused. If a value is absent, the caller's default is taken, or
the file is refused if the value is required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader

LARGEST: Final = 2**31 - 1


class Hparams:
    """Reads a model's hyperparameters from its header, as one value for the whole model or one for each layer.

    Attributes:
        n_layers: number of layers, without nextn (MTP) blocks.
        width: number of elements in a hidden row.
    """

    def __init__(self, header: GgufHeader) -> None:
        self._metadata = header.metadata
        self._prefix = f"{header.architecture}."
        self.n_layers: Final = header.n_layers
        self.width: Final = header.embedding_length

    def has(self, key: str) -> bool:
        """Tell if the metadata has a value for `key`."""
        return self._prefix + key in self._metadata

    def is_list(self, key: str) -> bool:
        """Tell if the metadata has a list of values for `key`, such as one per layer."""
        return isinstance(self._metadata.get(self._prefix + key), tuple)

    def number(self, key: str, default: int) -> int:
        """Return the whole number under `key`, or `default` if the key is absent.

        Raises:
            ArtifactError: `bad_metadata` if the value is not a whole number from 0 to `LARGEST`.
        """
        value = self._metadata.get(self._prefix + key, default)
        return self._checked(key, value)

    def required(self, key: str) -> int:
        """Return the whole number under `key`, which must be present.

        Raises:
            ArtifactError: `bad_metadata` if it is absent or not a whole number from 1 to `LARGEST`.
        """
        value = self.number(key, 0)
        if value == 0:
            raise refused("bad_metadata", f"{self._prefix}{key} is not given as a number from 1 to {LARGEST}")
        return value

    def per_layer(self, key: str, default: int) -> tuple[int, ...]:
        """Return one number for each layer. The file gives a list, or one number for all layers.

        A list may be longer than the layers, because it may count nextn (MTP) blocks too; the rest is ignored. If the
        key is absent, every layer gets `default`.

        Raises:
            ArtifactError: `bad_metadata` if a value is not a whole number from 0 to `LARGEST`, or if a list has fewer
                values than there are layers.
        """
        value = self._metadata.get(self._prefix + key, default)
        if not isinstance(value, tuple):
            return (self._checked(key, value),) * self.n_layers
        if len(value) < self.n_layers:
            raise refused("bad_metadata", f"{self._prefix}{key} has {len(value)} values for {self.n_layers} layers")
        return tuple(self._checked(key, one) for one in value[: self.n_layers])

    def _checked(self, key: str, value: object) -> int:
        if not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise refused("bad_metadata", f"{self._prefix}{key} is not given as a number from 0 to {LARGEST}")
        return int(value)
