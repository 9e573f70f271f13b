"""What others reach a node by: its way to the relay, and what its line takes in."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0002_shard_problems"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="latency_ms",
            field=models.FloatField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="node",
            name="upload_bytes_per_s",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
    ]
