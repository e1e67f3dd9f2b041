// What the parts of a conversation say of each other: a hold that was bought, given back, kept.

import { isPast } from "./clock.js";

// A search is only a step on the way when what it found was used by the same answer.
const USED_BY = { search_events: "search_seats", search_seats: "hold_seats" };
const DECIDED_AWAY = new Set(["denied", "expired", "withdrawn"]);

export class Facts {
  constructor(conversation) {
    this.holds = new Map();
    this.newestOptions = null;
    this.newestHold = null;
    this.used = new Set();
    this.isBusy = conversation.activeRun() !== null;
    for (const run of conversation.runs.values()) {
      const parts = run.segments.flatMap((segment) => segment.parts);
      parts.forEach((part) => this.read(part));
      this.findUsed(parts.filter((part) => part.kind === "tool" && part.state === "succeeded"));
    }
  }

  findUsed(calls) {
    calls.forEach((call, index) => {
      const later = calls.slice(index + 1);
      if (later.some((one) => one.tool === USED_BY[call.tool])) this.used.add(call.call);
    });
  }

  read(part) {
    if (part.kind !== "tool") return;
    if (part.tool === "search_seats" && part.state === "succeeded") this.newestOptions = part.call;
    if (part.tool === "hold_seats" && part.data?.hold_id) {
      const isUndone = part.state === "compensated";
      this.hold(part.data.hold_id).state = isUndone ? "released" : "active";
      this.newestHold = part.call;
      this.newestOptions = null;
    }
    const holdId = part.arguments?.hold_id;
    if (!holdId) return;
    if (part.tool === "release_hold" && part.state === "succeeded") this.hold(holdId).state = "released";
    if (part.tool === "place_order") this.readOrder(part, this.hold(holdId));
  }

  readOrder(part, hold) {
    if (part.state === "succeeded") hold.state = "bought";
    else if (part.approval?.state === "pending") hold.until = part.approval.expires_at;
    else if (DECIDED_AWAY.has(part.approval?.state)) hold.state = "released";
  }

  hold(id) {
    if (!this.holds.has(id)) this.holds.set(id, { state: "active", until: null });
    return this.holds.get(id);
  }

  // Whether the fan may have a part of a stopped answer taken back.
  canUndo(part) {
    if (part.kind !== "tool" || !part.can_undo || part.undo || part.state !== "succeeded") return false;
    if (part.tool !== "hold_seats") return true;
    const hold = this.hold(part.data.hold_id);
    return hold.state === "active" && !isPast(hold.until ?? part.data.expires_at);
  }

  // In a word, for telling whether a part must be drawn anew.
  about(part) {
    const hold = this.holds.get(part.data?.hold_id);
    const isNewest = part.call === this.newestOptions || part.call === this.newestHold;
    return `${hold?.state}|${hold?.until}|${isNewest}|${this.used.has(part.call)}`;
  }
}
