"""Adds to each stage of a record the codec that packed its rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("gateway", "0001_first"),
    ]

    operations = [
        migrations.AddField(
            model_name="generationstage",
            name="seam_codec",
            field=models.CharField(
                blank=True,
                help_text="Packing of the rows that it handed on; empty for the last stage.",
                max_length=16,
            ),
        ),
    ]
