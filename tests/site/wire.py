"""What a node says, as tests need it."""

from __future__ import annotations

from meshnet.constants import WIRE_VERSION
from meshnet.keys import SignatureContext, SigningKey
from meshnet.v1 import control_pb2, frame_pb2, session_pb2

ARTIFACT = bytes(range(32))
CONTRACT = b"c" * 32
SESSION = b"s" * 16


def contract(layer_begin: int = 0, layer_end: int = 8, digest: bytes = CONTRACT) -> session_pb2.BoundaryContract:
    outputs = [session_pb2.TensorSpec(name="hidden", dtype=frame_pb2.DTYPE_F32, elements_per_row=16)]
    return session_pb2.BoundaryContract(
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        n_layers=8,
        architecture="fake",
        outputs=outputs if layer_end < 8 else [],
        needs_token_ids=layer_begin == 0,
        vocab_size=260,
        context_length=4096,
        contract_digest=digest,
        exact_class=session_pb2.ExactClass(pin="1", backend="fake"),
    )


def shard(layer_begin: int = 0, layer_end: int = 8, digest: bytes = CONTRACT) -> control_pb2.ShardReport:
    return control_pb2.ShardReport(
        artifact_digest=ARTIFACT,
        contract=contract(layer_begin, layer_end, digest),
        decode_ms_per_layer=0.5,
        prefill_ms_per_layer=0.25,
        tail_ms=1.5,
        kv_cells_total=8192,
        kv_cells_free=8000,
        max_sessions=8,
        sessions=1,
    )


def report(*shards: control_pb2.ShardReport, data_connected: bool = True) -> control_pb2.NodeReport:
    return control_pb2.NodeReport(
        state=control_pb2.NodeReport.STATE_SERVING,
        shards=shards,
        carrier="auto",
        link_address="127.0.0.1:4711",
        link_fingerprint=b"f" * 32,
        data_connected=data_connected,
        latency_ms=12.5,
        upload_bytes_per_s=2_500_000,
    )


def hello(key: SigningKey, nonce: bytes, *open_sessions: tuple[bytes, int]) -> control_pb2.NodeMessage:
    return control_pb2.NodeMessage(
        hello=control_pb2.ControlHello(
            public_key=key.public_key,
            signature=key.sign(SignatureContext.CONTROL, nonce),
            wire_version_min=WIRE_VERSION,
            wire_version_max=WIRE_VERSION,
            software_version="1.2",
            open_sessions=[control_pb2.SessionRef(session=session, epoch=epoch) for session, epoch in open_sessions],
        )
    )


def open_stage(session: bytes = SESSION, epoch: int = 1, stage: int = 0) -> control_pb2.OpenStage:
    spec = session_pb2.SessionSpec(session=session, epoch=epoch, stage=stage, n_stages=1)
    return control_pb2.OpenStage(spec=spec, artifact_digest=ARTIFACT)
