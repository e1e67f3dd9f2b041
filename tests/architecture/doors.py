"""Who gets what at every door of a tenant, one line per method and address.

The columns are a fan at what is theirs (`ana`), another fan (`fabio`), a reviewer (`rita`), a
fan of another tenant (`teo`), and a visitor. ``ids`` are filled in with what is ana's; a third
part of the key names another object at the same address.
"""

OK, MADE, TAKEN, MOVED = 200, 201, 202, 302
SIGN_IN, NO, NONE, INVALID = 401, 403, 404, 422

CHAT = "c/<uuid:conversation_id>/"
DESK = "handoffs/"
CLOSE = f"{DESK}<uuid:conversation_id>/close/"
INBOX = "approvals/"
V1 = "api/v1/"
CONVERSATION = f"{V1}conversations/<uuid:conversation_id>/"
RUN = f"{V1}runs/<uuid:run_id>/"
APPROVAL = f"{V1}approvals/<uuid:request_id>/"
EVENT = f"{V1}events/<str:event_id>/"
UNKNOWN = f"{V1}unknown-calls/<uuid:call_id>/"
UNDO = f"{V1}undos/<uuid:undo_id>/"

type Key = tuple[str, str, str]
type Row = tuple[int, int, int, int, int]

DOORS: dict[Key, Row] = {
    # method, address, object: owner, colleague, reviewer, other tenant, visitor
    ("GET", "", ""): (MOVED, OK, OK, NONE, OK),
    ("GET", "new/", ""): (OK, OK, OK, NONE, OK),
    ("POST", "new/", ""): (MOVED, MOVED, MOVED, NONE, MOVED),
    ("GET", CHAT, ""): (OK, NONE, OK, NONE, NONE),
    ("POST", CHAT, ""): (MOVED, NONE, MOVED, NONE, NONE),
    ("GET", f"{CHAT}timeline/", ""): (OK, NONE, OK, NONE, NONE),
    ("GET", DESK, ""): (NONE, NONE, OK, NONE, MOVED),
    ("POST", CLOSE, ""): (NONE, NONE, MOVED, NONE, MOVED),
    ("GET", INBOX, ""): (NO, NO, OK, NONE, MOVED),
    ("GET", f"{INBOX}<uuid:request_id>/", ""): (NO, NO, OK, NONE, MOVED),
    ("POST", f"{INBOX}<uuid:request_id>/approve/", ""): (NO, NO, MOVED, NONE, MOVED),
    ("POST", f"{INBOX}<uuid:request_id>/deny/", ""): (NO, NO, MOVED, NONE, MOVED),
    ("GET", f"{INBOX}<uuid:request_id>/", "confirmation"): (NO, NO, NONE, NONE, MOVED),
    ("POST", f"{INBOX}<uuid:request_id>/approve/", "confirmation"): (NO, NO, NONE, NONE, MOVED),
    ("GET", f"{V1}conversations/", ""): (OK, OK, OK, NONE, OK),
    ("POST", f"{V1}conversations/", ""): (MADE, MADE, MADE, NONE, MADE),
    ("GET", CONVERSATION, ""): (OK, NONE, OK, NONE, NONE),
    ("GET", f"{CONVERSATION}messages/", ""): (OK, NONE, OK, NONE, NONE),
    ("POST", f"{CONVERSATION}messages/", ""): (TAKEN, NONE, TAKEN, NONE, NONE),
    ("GET", RUN, ""): (OK, NONE, OK, NONE, NONE),
    ("GET", f"{RUN}steps/", ""): (OK, NONE, OK, NONE, NONE),
    ("GET", f"{RUN}tool-calls/", ""): (OK, NONE, OK, NONE, NONE),
    ("GET", f"{RUN}events/", ""): (OK, NONE, OK, NONE, NONE),
    ("POST", f"{RUN}cancel/", ""): (TAKEN, NONE, NO, NONE, NONE),
    ("GET", f"{RUN}replay/", ""): (NO, NONE, NO, NONE, NONE),
    ("POST", f"{RUN}replay/", ""): (NO, NONE, NO, NONE, NONE),
    ("POST", f"{RUN}fork/", ""): (NO, NONE, NO, NONE, NONE),
    ("GET", f"{V1}replays/<uuid:replay_id>/", ""): (NO, NONE, NO, NONE, NONE),
    ("GET", f"{V1}approvals/", ""): (OK, OK, OK, NONE, SIGN_IN),
    ("GET", APPROVAL, ""): (OK, NONE, OK, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}approve/", ""): (NO, NONE, OK, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}deny/", ""): (NO, NONE, OK, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}withdraw/", ""): (OK, NONE, NONE, NONE, SIGN_IN),
    ("GET", APPROVAL, "confirmation"): (OK, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}approve/", "confirmation"): (OK, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}deny/", "confirmation"): (OK, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{APPROVAL}withdraw/", "confirmation"): (OK, NONE, NONE, NONE, SIGN_IN),
    ("GET", f"{V1}events/", ""): (OK, OK, OK, NONE, OK),
    ("GET", EVENT, ""): (OK, OK, OK, NONE, OK),
    ("GET", f"{EVENT}seats/", ""): (OK, OK, OK, NONE, OK),
    ("GET", f"{V1}holds/", ""): (OK, OK, OK, NONE, SIGN_IN),
    ("GET", f"{V1}orders/", ""): (OK, OK, OK, NONE, SIGN_IN),
    # Theirs who hold the tenant, none of whom has a column here.
    ("GET", f"{V1}unknown-calls/", ""): (NO, NO, NO, NONE, SIGN_IN),
    ("GET", UNKNOWN, ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{UNKNOWN}look-up/", ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{UNKNOWN}settle/", ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("GET", f"{V1}undos/", ""): (NO, NO, NO, NONE, SIGN_IN),
    ("GET", UNDO, ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{UNDO}retry/", ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("POST", f"{UNDO}settle/", ""): (NONE, NONE, NONE, NONE, SIGN_IN),
    ("GET", "^api(?:/.*)?$", ""): (NONE, NONE, NONE, NONE, NONE),
    ("POST", "^api(?:/.*)?$", ""): (NONE, NONE, NONE, NONE, NONE),
}

BODIES = {
    f"{RUN}replay/": {"from_step": 1},
    f"{RUN}fork/": {"from_step": 1},
    f"{CONVERSATION}messages/": {"text": "oi"},
    f"{APPROVAL}deny/": {"reason": "não"},
    f"{UNKNOWN}settle/": {"outcome": "done", "note": "no extrato"},
    f"{UNDO}settle/": {"note": "feito à mão"},
}
FORMS = {
    "new/": {"text": "oi"},
    CHAT: {"text": "oi"},
    CLOSE: {"since": "2026-11-30T12:00:00+00:00"},
    f"{INBOX}<uuid:request_id>/deny/": {"reason": "não"},
}

# Who may set each task off. They take ids, trust no payload, and open the scope themselves.
TASKS = {
    "agents.advance": "anybody who can write to the broker; works only on a run that is queued",
    "agents.replay": "a replay that was committed; harmless when a worker has it",
    "agents.replays_sweep": "the clock",
    "agents.sweep": "the clock",
    "approvals.expire": "the clock",
    "approvals.notify": "a request that was committed; harmless when it was decided",
    "audit.seal": "the clock",
    "ticketing.deliver_email": "an e-mail that was committed; harmless when it was sent",
    "ticketing.deliver_emails": "the clock",
    "ticketing.expire_holds": "the clock",
    "tools.resolve_effects": "the clock",
    "tools.undo_due": "the clock",
    "tools.undo_run": "anybody who can write to the broker; undoes only what was noted as due",
}

# Whether a socket stays open, in the order of the columns above.
SOCKETS: dict[str, tuple[bool, bool, bool, bool, bool]] = {
    "ws/conversations/<uuid:conversation_id>/": (True, False, True, False, False),
    "ws/approvals/": (False, False, True, False, False),
}
