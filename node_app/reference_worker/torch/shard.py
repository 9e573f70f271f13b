"""A shard of TorchEngine with the interface that the stage machine uses (`StageShard`), and its boundary contract.

Invariant: for the same file the contract's digest equals LlamaEngine's, but the recipe differs. So a route of both
engines is refused unless the site allows mixed recipes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from meshnet.errors import WorkerError
from meshnet.v1 import session_pb2, worker_pb2
from node_app.reference_worker.sessions.contract import hidden_rows, spoken_codecs, with_digest
from node_app.reference_worker.sessions.shard import DEFAULT_SESSIONS, DEFAULT_UBATCH_ROWS
from node_app.reference_worker.torch.engine import TorchEngine
from node_app.reference_worker.torch.layer_range import ignore_progress

if TYPE_CHECKING:
    from node_app.reference_worker.sessions.program import Progress
    from node_app.reference_worker.torch.engine import TorchSequence

_DEFAULT_CONTEXT_LENGTH: Final = 2048
_RECIPE: Final = "torch f32"
# llama.cpp rounds the cells of a sequence up to whole blocks of this size. Source: llama-context.cpp, n_ctx_seq.
_CELL_BLOCK: Final = 256


@dataclass(frozen=True, slots=True)
class TorchShard:
    """A loaded shard that TorchEngine computes; implements `StageShard`."""

    engine: TorchEngine
    context_length: int
    kv_cells: int
    max_sessions: int
    max_step_rows: int
    contract: session_pb2.BoundaryContract

    @property
    def width(self) -> int:
        """The number of elements of a hidden row."""
        return self.engine.facts.width

    @property
    def owns_input(self) -> bool:
        """Whether this is the head."""
        return self.engine.owns_input

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail."""
        return self.engine.owns_output

    @property
    def weights_bytes(self) -> int:
        """Bytes of the float32 weights in memory."""
        return self.engine.weights_bytes

    @property
    def kv_bytes(self) -> int:
        """Bytes of all KV cells once they are used."""
        return self.kv_cells * self.engine.cell_bytes

    def open_sequence(self, kv_cells: int) -> TorchSequence:
        """Return an empty sequence for at most `kv_cells` rows."""
        return self.engine.open(kv_cells)


def load_shard(request: worker_pb2.LoadRequest, progress: Progress = ignore_progress) -> TorchShard:
    """Load the requested layers; a limit that the request lacks gets a default. Blocks until the weights are read.

    Raises:
        WorkerError: `unsupported_architecture`, `layers_out_of_range`, `missing_extra` or `invalid_argument`.
        ArtifactError: the file or folder is damaged or unusable.
    """
    # The agent asks for the engine of GGUF files; this program is another one.
    if request.engine != worker_pb2.ENGINE_KIND_LLAMA:
        raise WorkerError("unsupported_architecture", "No such engine", "the torch worker has no fake models")
    if bool(request.gguf_path) == bool(request.model_folder):
        raise WorkerError("invalid_argument", "Which model", "a GGUF file or a folder of safetensors is wanted")
    torch.set_num_threads(request.threads or os.cpu_count() or 1)
    model = Path(request.gguf_path or request.model_folder)
    engine = TorchEngine.load(model, request.layers.layer_begin, request.layers.layer_end or None, progress)
    context_length = request.context_length or min(_DEFAULT_CONTEXT_LENGTH, engine.facts.context_length)
    if context_length > engine.facts.context_length:
        message = f"a context longer than the model's {engine.facts.context_length}"
        raise WorkerError("invalid_argument", "Context too long", message)
    max_sessions = request.max_sessions or DEFAULT_SESSIONS
    ubatch = request.ubatch or DEFAULT_UBATCH_ROWS
    return TorchShard(
        engine=engine,
        context_length=context_length,
        kv_cells=request.kv_cells or max_sessions * context_length,
        max_sessions=max_sessions,
        max_step_rows=max(ubatch, DEFAULT_UBATCH_ROWS),
        contract=_contract(engine, request.artifact_digest, context_length, ubatch),
    )


def _exact_class(engine: TorchEngine, ubatch: int) -> session_pb2.ExactClass:
    """Return the properties that decide the exact bits of this engine's rows."""
    return session_pb2.ExactClass(
        pin=engine.range.libraries,
        backend="torch",
        kv_type_k="f32",
        kv_type_v="f32",
        ubatch=ubatch,
        cpu_features=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
    )


def _contract(
    engine: TorchEngine, artifact_digest: bytes, context_length: int, ubatch: int
) -> session_pb2.BoundaryContract:
    width, is_whole = engine.facts.width, engine.owns_input and engine.owns_output
    contract = session_pb2.BoundaryContract(
        layers=session_pb2.LayerRange(layer_begin=engine.layer_begin, layer_end=engine.layer_end),
        n_layers=engine.facts.n_layers,
        architecture=engine.facts.architecture,
        inputs=[] if engine.owns_input else [hidden_rows(width)],
        outputs=[] if engine.owns_output else [hidden_rows(width)],
        needs_token_ids=engine.owns_input,
        vocab_size=engine.vocab_size,
        context_length=context_length,
        recipe=_RECIPE,
        exact_class=_exact_class(engine, ubatch),
        codecs=[] if is_whole else spoken_codecs(width),
    )
    cells = -(-context_length // _CELL_BLOCK) * _CELL_BLOCK
    return with_digest(contract, artifact_digest, f"n_ctx_seq={cells}")
