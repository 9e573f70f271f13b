"""The JSON object of `GET /v1/generations/{id}`; it has the same fields while the generation runs and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from meshnet.openai.events import Usage
from meshnet.openai.objects import ResponsePart, UsageObject
from meshnet.openai.response_writer import usage_object
from meshnet.openai.telemetry import Failure, Phase, StageTelemetry

if TYPE_CHECKING:
    from tracker_site.gateway.generation import Generation
    from tracker_site.gateway.models import GenerationRecord


class GenerationObject(ResponsePart):
    """A generation as the API shows it. `charge_micros`, in micro-credits, is null until the generation is settled."""

    id: str
    object: Literal["generation"]
    model: str
    status: Literal["running", "finished", "cancelled", "failed"]
    phase: Phase
    finish_reason: str | None
    usage: UsageObject
    charge_micros: int | None
    first_token_ms: int | None
    elapsed_ms: int
    tokens_per_s: float
    stages: list[StageTelemetry]
    failure: Failure | None


def live_object(generation: Generation) -> GenerationObject:
    """Return the object of a generation that is running or being settled."""
    shown = generation.snapshot()
    return GenerationObject(
        id=generation.id,
        object="generation",
        model=generation.spec.model,
        status="running",
        phase=shown.phase,
        finish_reason=None,
        usage=usage_object(generation.usage),
        charge_micros=None,
        first_token_ms=generation.first_token_ms,
        elapsed_ms=shown.elapsed_ms,
        tokens_per_s=shown.tokens_per_s,
        stages=list(shown.stages),
        failure=shown.failure,
    )


def stored_object(record: GenerationRecord) -> GenerationObject:
    """Return the object of a generation that has ended. The record's stages must be loaded already."""
    is_finished = record.ending == record.Ending.FINISHED
    failure = Failure(code=record.failure_code, stage=record.failure_stage, message=record.failure_message)
    return GenerationObject.model_validate(
        {
            "id": record.pk,
            "object": "generation",
            "model": record.model_name,
            "status": record.ending,
            "phase": Phase.DONE if is_finished else Phase.FAILED,
            "finish_reason": record.finish_reason or None,
            "usage": usage_object(Usage(record.prompt_tokens, record.completion_tokens)),
            "charge_micros": record.charge_micros,
            "first_token_ms": record.first_token_ms,
            "elapsed_ms": record.elapsed_ms,
            "tokens_per_s": record.tokens_per_s,
            "stages": [
                StageTelemetry(
                    stage=stage.stage,
                    node=stage.node_name,
                    layer_begin=stage.layer_begin,
                    layer_end=stage.layer_end,
                    carrier=stage.carrier,
                    seam_codec=stage.seam_codec,
                    recipe=stage.recipe,
                )
                for stage in record.stages.all()
            ],
            "failure": failure if record.failure_code else None,
        }
    )
