"""Whether engines that compute differently may share a route; of models of before they may not."""

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
                default=False,
                help_text=(
                    "Nodes whose engines compute differently (recipes) may answer together; never on exact routes."
                ),
            ),
        ),
    ]
