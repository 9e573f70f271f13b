"""Everything that a node reports of a shard moves into one JSON column; columns that queries filter by stay."""

from django.db import migrations, models

IDENTITY = (
    "artifact_digest",
    "architecture",
    "layer_begin",
    "layer_end",
    "n_layers",
    "contract_digest",
    "context_length",
    "vocab_size",
    "needs_token_ids",
    "seam_bytes_per_row",
    "recipe",
)
FIGURES = (
    "decode_ms_per_layer",
    "prefill_ms_per_layer",
    "tail_ms",
    "kv_cells_total",
    "kv_cells_free",
    "max_sessions",
    "sessions",
)


def gather(apps, schema_editor):
    shards = apps.get_model("nodes", "LoadedShard").objects.using(schema_editor.connection.alias)
    for shard in shards.all():
        facts = {name: getattr(shard, name) for name in (*IDENTITY, *FIGURES)}
        facts["exact_class"] = bytes(shard.exact_class).hex()
        facts["codecs"] = [label for label in shard.codecs.split(",") if label]
        shards.filter(pk=shard.pk).update(facts=facts)


class Migration(migrations.Migration):
    dependencies = [("nodes", "0006_recipe")]

    operations = [
        migrations.AddField("loadedshard", "facts", models.JSONField(default=dict, editable=False)),
        migrations.RunPython(gather),
        migrations.AlterField("loadedshard", "facts", models.JSONField(editable=False)),
        migrations.RemoveConstraint("loadedshard", "nodes_loadedshard_layers"),
        migrations.AddConstraint(
            "loadedshard",
            models.CheckConstraint(
                condition=models.Q(layer_begin__lt=models.F("layer_end")), name="nodes_loadedshard_layers"
            ),
        ),
        *(
            migrations.RemoveField("loadedshard", name)
            for name in (
                "n_layers",
                "exact_class",
                "context_length",
                "vocab_size",
                "needs_token_ids",
                "seam_bytes_per_row",
                "codecs",
                "recipe",
                *FIGURES,
            )
        ),
    ]
