"""Reads a model's hyperparameters by their keys without the architecture's prefix.

Invariant: a value of a wrong type, sign or length is refused. If a value is absent, the caller's default is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader

LARGEST: Final = 2**31 - 1


class Hparams:
    """The hyperparameters of one model, for the whole model or for each layer.

    Attributes:
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

    def number(self, key: str, default: int) -> int:
        """Return a whole number from 0, or `default` if it is absent.

        Raises:
            ArtifactError: `bad_metadata` if the value is not such a number.
        """
        value = self._metadata.get(self._prefix + key, default)
        return self._checked(key, value)

    def required(self, key: str) -> int:
        """Return a whole number from 1.

        Raises:
            ArtifactError: `bad_metadata` if the value is absent or not such a number.
        """
        value = self.number(key, 0)
        if value == 0:
            raise refused("bad_metadata", f"{self._prefix}{key} is not given as a number from 1 to {LARGEST}")
        return value

    def per_layer(self, key: str, default: int) -> tuple[int, ...]:
        """Return one number for each layer; the file gives one for all layers, or a list.

        A list may have more entries than there are layers, because it may count nextn blocks. `default` is taken for
        every layer if the value is absent.

        Raises:
            ArtifactError: `bad_metadata` if a value is not a whole number from 0, or the list is shorter than the
                layers.
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
