"""A model's figures by their names without the architecture's prefix, whole-model or layer by layer.

Invariant: what is given with a wrong type, sign or length is refused; what is absent is the caller's default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader

LARGEST: Final = 2**31 - 1


class Hparams:
    """Figures of one model.

    Attributes:
        width: elements of a hidden row.
    """

    def __init__(self, header: GgufHeader) -> None:
        self._metadata = header.metadata
        self._prefix = f"{header.architecture}."
        self.n_layers: Final = header.n_layers
        self.width: Final = header.embedding_length

    def has(self, key: str) -> bool:
        """Whether the figure is given."""
        return self._prefix + key in self._metadata

    def number(self, key: str, default: int) -> int:
        """One whole number from 0.

        Raises:
            ArtifactError: `bad_metadata`.
        """
        value = self._metadata.get(self._prefix + key, default)
        return self._checked(key, value)

    def required(self, key: str) -> int:
        """One whole number from 1.

        Raises:
            ArtifactError: `bad_metadata`: absent, or not such a number.
        """
        value = self.number(key, 0)
        if value == 0:
            raise refused("bad_metadata", f"{self._prefix}{key} is not given as a number from 1 to {LARGEST}")
        return value

    def per_layer(self, key: str, default: int) -> tuple[int, ...]:
        """A figure of every layer, given once for all or one by one; blocks behind the last layer may be left out.

        Raises:
            ArtifactError: `bad_metadata`: not a number, or fewer than there are layers.
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
