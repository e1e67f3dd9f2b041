"""The rights to take the log of calls away, and to see personal data in it.

Who may configure a tenant may export from the start; nobody sees personal data who is not given it.
"""

from typing import Any

from django.db import migrations


def give(apps: Any, schema_editor: Any) -> None:
    """Permissions are made after all migrations; these are needed before."""
    kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="tenancy", model="tenant"
    )
    permissions = apps.get_model("auth", "Permission").objects
    made = {}
    for codename, name in (
        ("export_calls", "Can export the log of tool calls"),
        ("view_personal_data", "Can see personal data in the log of tool calls"),
    ):
        made[codename], _ = permissions.get_or_create(
            codename=codename, content_type=kind, defaults={"name": name}
        )
    held = {"permission__content_type": kind, "permission__codename": "configure"}
    for table, holder in (("TenantUserPermission", "user"), ("TenantGroupPermission", "group")):
        rows = apps.get_model("tenancy", table).objects
        for row in rows.filter(**held):
            rows.get_or_create(
                permission=made["export_calls"],
                content_object_id=row.content_object_id,
                **{f"{holder}_id": getattr(row, f"{holder}_id")},
            )


class Migration(migrations.Migration):
    reviewed = {"sql": "It only adds rights, which the release before does not ask for."}
    dependencies = [
        ("tenancy", "0004_right_to_replay"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="tenant",
            options={
                "permissions": [
                    ("review_actions", "Can decide on the agent's requests"),
                    ("configure", "Can configure the agent"),
                    ("view_costs", "Can see what the agent costs"),
                    ("answer_fans", "Can answer fans in the chat"),
                    ("replay_runs", "Can replay and fork runs of the agent"),
                    ("export_calls", "Can export the log of tool calls"),
                    ("view_personal_data", "Can see personal data in the log of tool calls"),
                ],
                "verbose_name": "tenant",
                "verbose_name_plural": "tenants",
            },
        ),
        migrations.RunPython(give, migrations.RunPython.noop),
    ]
