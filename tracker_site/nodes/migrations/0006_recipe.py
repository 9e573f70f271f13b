"""How the engine of a shard computes, apart from its contract."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0005_self_test_failed"),
    ]

    operations = [
        migrations.AddField(
            model_name="loadedshard",
            name="recipe",
            field=models.CharField(
                blank=True, help_text="Engine and arithmetic; empty where it does not say.", max_length=64
            ),
        ),
    ]
