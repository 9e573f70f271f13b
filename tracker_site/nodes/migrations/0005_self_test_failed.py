"""A node may say that its shard computes wrong rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0004_codecs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="node",
            name="state",
            field=models.CharField(
                choices=[
                    ("offline", "offline"),
                    ("loading", "loading"),
                    ("serving", "serving"),
                    ("paused", "paused"),
                    ("degraded", "degraded"),
                    ("self_test_failed", "self test failed"),
                ],
                default="offline",
                editable=False,
                max_length=16,
            ),
        ),
    ]
