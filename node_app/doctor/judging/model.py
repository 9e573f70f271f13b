"""Judges this machine's cores and memory, the model file, and whether the model fits into the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.artifact.model.architectures import SERVED_ARCHITECTURES
from meshnet.errors import ArtifactError, WorkerError
from node_app.doctor.findings import GIB, MIB, Finding, failed, ok, warning
from node_app.worker.limits import AskedLimits, ShardNeed, plan_limits

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from node_app.artifacts.model_file import ModelFile
    from node_app.hardware.base import MachineFigures


def judge_hardware(figures: MachineFigures) -> Finding:
    """Judge the cores and the memory that this process may use."""
    if figures.memory_total_bytes is None or figures.memory_available_bytes is None:
        return warning(
            "hardware",
            f"{figures.cores} cores, memory unknown",
            "choose a model that fits: the node cannot refuse one that is too large",
        )
    total, free = figures.memory_total_bytes / GIB, figures.memory_available_bytes / GIB
    return ok("hardware", f"{figures.cores} cores, {free:.1f} of {total:.1f} GiB of memory available")


def judge_model(model: ModelFile) -> Finding:
    """Judge whether nodes serve the architecture of a model that `open_model` has accepted."""
    name, architecture = model.paths[0].name, model.architecture
    if architecture not in SERVED_ARCHITECTURES and not model.is_fake:
        served = ", ".join(SERVED_ARCHITECTURES)
        return failed("model", f"{name}: architecture {architecture} is not served", f"choose a model of {served}")
    parts = f" in {len(model.paths)} parts" if len(model.paths) > 1 else ""
    weights = f"{model.weights_bytes / MIB:.0f} MiB of weights"
    return ok("model", f"{name}{parts}: {architecture}, layers {model.layers} of {model.n_layers}, {weights}, complete")


def judge_refusal(error: MeshnetError, *, is_file: bool) -> Finding:
    """Return the finding for a model that `open_model` refused with `error`; `is_file`: there is a file at its path."""
    if not is_file:
        return failed("model", error.message, "there is no such file: name the model's file with --gguf")
    if isinstance(error, ArtifactError):
        return failed("model", error.message, "download the file again, or name another with --gguf")
    return failed("model", error.message, "name other layers with --layers")


def judge_memory(model: ModelFile, asked: AskedLimits, figures: MachineFigures) -> Finding:
    """Judge whether the shard's weights, caches and buffers fit into the memory, by the node's own rule."""
    need = ShardNeed(model.weights_bytes, model.caches, model.width, model.context_length)
    try:
        limits = plan_limits(need, asked, figures.cores, figures.memory_available_bytes)
    except WorkerError as error:
        return failed("memory", error.message, "serve fewer --layers, a shorter --context, or free some memory")
    summary = f"{limits.max_sessions} sessions of {limits.context_length} positions fit"
    if limits.max_sessions < asked.max_sessions:
        return warning(
            "memory",
            f"only {summary}, {asked.max_sessions} were asked for",
            "serve fewer --layers, or ask for fewer --max-sessions",
        )
    return ok("memory", summary)
