"""What is wrong with a shard has a code, and is not always its contract."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0001_first"),
    ]

    operations = [
        migrations.RenameField(model_name="loadedshard", old_name="mismatch_reason", new_name="problem"),
        migrations.AddField(
            model_name="loadedshard",
            name="problem_code",
            field=models.CharField(blank=True, max_length=64),
        ),
    ]
