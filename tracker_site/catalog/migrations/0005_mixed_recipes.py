"""Adds the permission to mix recipes on a route; existing models do not allow it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0004_golden_probe"),
    ]

    operations = [
        migrations.AddField(
            model_name="model",
            name="allows_mixed_recipes",
            field=models.BooleanField(
                verbose_name="mixed recipes allowed",
                default=False,
                help_text="Nodes of different recipes (engine and arithmetic) may share a route, unless the route is exact.",
            ),
        ),
    ]
