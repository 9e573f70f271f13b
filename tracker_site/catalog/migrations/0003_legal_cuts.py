"""Adds the legal cuts of a model; existing models may be cut at any layer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0002_coarsest_codec"),
    ]

    operations = [
        migrations.AddField(
            model_name="model",
            name="legal_cuts",
            field=models.JSONField(
                editable=False,
                help_text="Layers other than 0 that a stage may begin with; if this is null, any layer may.",
                null=True,
            ),
        ),
    ]
