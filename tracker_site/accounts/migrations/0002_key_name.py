"""Names the model "API key" in the admin."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_first"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="apikey",
            options={"ordering": ["-created_at", "-pk"], "verbose_name": "API key"},
        ),
    ]
