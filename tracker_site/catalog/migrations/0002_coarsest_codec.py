"""Adds the coarsest codec that may pack rows between stages; existing models allow raw rows only."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_first"),
    ]

    operations = [
        migrations.AddField(
            model_name="model",
            name="coarsest_codec",
            field=models.CharField(
                choices=[
                    ("raw", "raw only: no precision is lost"),
                    ("bf16", "up to bf16: half the bytes"),
                    ("q8_0", "up to q8_0: about a quarter of the bytes"),
                ],
                default="raw",
                help_text="The coarsest packing of rows between stages, used if a volunteer's line is too slow for raw rows.",
                max_length=8,
            ),
        ),
    ]
