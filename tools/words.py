"""The built-in tools, their risks and what their previews speak of, in words.

Nothing reads this list: the inbox makes words of identifiers (`approvals.wording`), and here they
are marked, so that the catalogues of translations have them.
"""

from django.utils.translation import gettext_noop as _

TOOLS = (
    _("Search events"),
    _("Search seats"),
    _("Hold seats"),
    _("Release hold"),
    _("Place order"),
    _("Get order status"),
    _("Refund order"),
    _("Send email"),
    _("Create ticket"),
    _("Read output"),
)
RISKS = (_("read"), _("write reversible"), _("destructive"))
FIELDS = (
    _("event"),
    _("hold"),
    _("order"),
    _("seats"),
    _("status"),
    _("paid"),
    _("refunded"),
    _("starts at"),
    _("section"),
    _("row"),
    _("number"),
    _("price"),
    _("to"),
    _("subject"),
    _("body"),
)
VALUES = (_("active"), _("bought"), _("expired"), _("released"))
SEATS = (_("free"), _("held"), _("sold"))
