"""Adds the golden probe by which nodes prove their shards; existing models have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0003_legal_cuts"),
    ]

    operations = [
        migrations.AddField(
            model_name="model",
            name="golden_digest",
            field=models.CharField(
                verbose_name="golden probe",
                blank=True,
                default="",
                editable=False,
                help_text="SHA-256 of its golden probe; if this is empty, nodes serve the model untested.",
                max_length=64,
            ),
            preserve_default=False,
        ),
    ]
