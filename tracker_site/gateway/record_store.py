"""Stores and finds records of generations in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from meshnet.printable import one_line
from tracker_site import database
from tracker_site.gateway.models import (
    CODE_CHARACTERS,
    ID_CHARACTERS,
    MESSAGE_CHARACTERS,
    NAME_CHARACTERS,
    GenerationRecord,
    GenerationStage,
)

if TYPE_CHECKING:
    from tracker_site.gateway.records import Record


class DatabaseRecords:
    """Stores each record in one transaction, on a writer thread of `tracker_site.database`."""

    async def store(self, record: Record) -> None:
        """Store a record; the database refuses a second record with the same id."""
        await database.write(_store, record)


async def find_record(generation_id: str, user_id: int) -> GenerationRecord | None:
    """Return a user's record with its stages; None if it does not exist or belongs to another user."""
    return await database.read(_find, generation_id, user_id)


@transaction.atomic
def _store(record: Record) -> None:
    failure = record.failure
    row = GenerationRecord.objects.create(
        id=record.generation_id,
        user_id=record.user_id,
        model_name=record.model_name[:NAME_CHARACTERS],
        face=record.face,
        ending=record.ending,
        finish_reason=record.finish_reason,
        prompt_tokens=record.prompt_tokens,
        max_tokens=record.max_tokens,
        completion_tokens=record.completion_tokens,
        charge_micros=record.charge_micros,
        first_token_ms=record.first_token_ms,
        elapsed_ms=record.elapsed_ms,
        tokens_per_s=record.tokens_per_s,
        failure_code=failure.code[:CODE_CHARACTERS] if failure else "",
        failure_stage=failure.stage if failure else None,
        failure_message=one_line(failure.message, MESSAGE_CHARACTERS) if failure else "",
    )
    GenerationStage.objects.bulk_create(
        GenerationStage(
            generation=row,
            stage=index,
            node_id=stage.node_id[:ID_CHARACTERS],
            node_name=stage.node_name[:NAME_CHARACTERS],
            owner_id=stage.owner_id,
            layer_begin=stage.layer_begin,
            layer_end=stage.layer_end,
            carrier=stage.carrier,
            seam_codec=stage.seam_codec,
            recipe=stage.recipe,
        )
        for index, stage in enumerate(record.stages)
    )


def _find(generation_id: str, user_id: int) -> GenerationRecord | None:
    # PostgreSQL refuses a zero byte even in a comparison, so an id that cannot exist is not looked up.
    if not generation_id.isprintable():
        return None
    records = GenerationRecord.objects.prefetch_related("stages")
    return records.filter(pk=generation_id, user_id=user_id).first()
