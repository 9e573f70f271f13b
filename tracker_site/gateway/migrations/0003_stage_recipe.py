"""Adds to each stage of a record the recipe (engine and arithmetic) that computed it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("gateway", "0002_stage_codec"),
    ]

    operations = [
        migrations.AddField(
            model_name="generationstage",
            name="recipe",
            field=models.CharField(blank=True, help_text="Engine and arithmetic; empty if unknown.", max_length=64),
        ),
    ]
