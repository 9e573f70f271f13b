"""What the choice of a codec goes by: what workers speak."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0003_node_line"),
    ]

    operations = [
        migrations.AddField(
            model_name="loadedshard",
            name="codecs",
            field=models.CharField(
                blank=True, help_text="Beside raw, how it packs rows between stages; comma separated.", max_length=64
            ),
        ),
    ]
