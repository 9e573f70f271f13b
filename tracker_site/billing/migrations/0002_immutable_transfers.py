from django.db import migrations

from tracker_site.billing.immutability import install, remove


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_first")]

    operations = [migrations.RunPython(install, remove)]
