"""Rows between stages may be packed."""

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
                    ("raw", "raw only: nothing is lost"),
                    ("bf16", "up to bf16: half the bytes"),
                    ("q8_0", "up to q8_0: about a quarter of the bytes"),
                ],
                default="raw",
                help_text="What rows between stages may be packed by where a volunteer's line would hold the answer up.",
                max_length=8,
            ),
        ),
    ]
