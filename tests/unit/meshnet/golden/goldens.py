"""A golden probe of a fake model, as `meshnet probe` would make it."""

from __future__ import annotations

import struct

from meshnet.golden.probe import GoldenProbe, GoldenRows, draw_token_ids
from tests.simulators.fake_engine import VOCAB_SIZE, FakeSequence, FakeShard, logits_of, pack_rows

DIGEST = bytes(range(32))


def fake_golden(n_layers: int = 4, width: int = 16, digest: bytes = DIGEST) -> GoldenProbe:
    ids = draw_token_ids(digest, VOCAB_SIZE)
    hidden = {}
    for cut in range(1, n_layers):
        rows = FakeSequence(FakeShard(n_layers, width, 0, cut)).step_tokens(ids)
        hidden[cut] = GoldenRows(len(ids), width, pack_rows(rows))
    last = FakeSequence(FakeShard(n_layers, width, 0, n_layers)).step_tokens(ids)
    logits = b"".join(struct.pack(f"<{VOCAB_SIZE}f", *logits_of(row)) for row in last)
    return GoldenProbe(digest, n_layers, "fake", "", ids, hidden, GoldenRows(len(ids), VOCAB_SIZE, logits))
