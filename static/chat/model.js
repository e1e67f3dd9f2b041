// What the page knows of the conversation: the server's timeline, and the events after it.
//
// A run's text is `live` until `step.committed` makes it a part; text that a new worker does not
// confirm is thrown away. `lastStep` says which steps the timeline holds already, so that events
// that are seen again add nothing.

// What becomes of an approved request when its call is over.
const SETTLED = { succeeded: "executed", failed: "failed", unknown: "unknown" };
const OVER = new Set(["succeeded", "partial", "failed", "cancelled"]);

export class Conversation {
  constructor() {
    this.entries = [];
    this.runs = new Map();
    this.needsRefresh = false;
    this.handedOff = false;
  }

  // Takes the server's timeline. It was true when it was read: what events have told since then
  // stays. `asked` holds each run's position at that time.
  load(timeline, asked = {}) {
    const before = { entries: this.entries, runs: this.runs };
    this.entries = [];
    this.runs = new Map();
    this.handedOff = Boolean(timeline.is_handed_off);
    for (const entry of timeline.entries) {
      if (entry.kind === "message") this.entries.push({ ...entry, key: `m:${entry.id}` });
      else this.loadRun(entry, before.runs.get(entry.run));
    }
    for (const run of this.runs.values()) {
      const old = before.runs.get(run.id);
      if (old) this.keepNewer(run, old, asked[run.id] !== old.seq);
    }
    this.keepLater(before);
  }

  loadRun(entry, old) {
    let run = this.runs.get(entry.run);
    if (!run) {
      run = newRun(entry.run, old ? old.seq : 0);
      this.runs.set(run.id, run);
    }
    run.state = entry.state;
    run.isOver = run.isSettled = entry.is_over;
    run.lastStep = entry.last_step;
    run.step = Math.max(entry.last_step, old ? old.step : 0);
    run.handoff = entry.handoff;
    run.isStopping = entry.is_stopping || Boolean(old?.isStopping && !entry.is_over);
    run.isUndoing = Boolean(old?.isUndoing);
    const segment = this.addSegment(run);
    segment.parts = entry.parts.map((part) => {
      const key = partKey(part);
      return newestOf({ ...part, key }, old ? this.part(old, key) : null);
    });
  }

  keepNewer(run, old, hasMoved) {
    const known = new Set(run.segments.flatMap((one) => one.parts.map((part) => part.key)));
    const newer = old.segments
      .flatMap((one) => one.parts)
      .filter((part) => part.step > run.lastStep && !known.has(part.key));
    run.segments.at(-1).parts.push(...newer);
    if (run.isSettled) return;
    const last = run.segments.at(-1).parts.filter((part) => part.kind === "text").at(-1);
    const isCommitted = old.live.trim() && last?.text.startsWith(old.live.trim());
    run.live = isCommitted ? "" : old.live;
    run.committed = old.committed;
    run.isInLine = old.isInLine;
    if (old.isOver || hasMoved) Object.assign(run, { state: old.state, isOver: old.isOver });
  }

  // Ids rise with time: what is here and later than all that the server told of comes last.
  keepLater(before) {
    const ids = this.entries.map((entry) => entry.id ?? "");
    const clientIds = new Set(this.entries.map((entry) => entry.client_id).filter(Boolean));
    const lastId = ids.reduce((one, other) => (other > one ? other : one), "");
    const isLater = (entry) => {
      if (entry.kind === "run") return !this.runs.has(entry.run.id) && entry.run.id > lastId;
      if (entry.client_id && clientIds.has(entry.client_id)) return false;
      return !entry.id || (entry.id > lastId && !ids.includes(entry.id));
    };
    const later = before.entries.filter(isLater);
    for (const entry of later) if (entry.kind === "run") this.runs.set(entry.run.id, entry.run);
    this.entries.push(...later);
  }

  addSegment(run) {
    const segment = { kind: "run", key: `r:${run.id}:${run.segments.length}`, run, parts: [] };
    run.segments.push(segment);
    this.entries.push(segment);
    return segment;
  }

  // A message that this page is about to send.
  addLocal(clientId, text) {
    const entry = { kind: "message", key: `c:${clientId}`, client_id: clientId, id: null };
    Object.assign(entry, { speaker: "fan", text, status: "sending" });
    this.entries.push(entry);
    return entry;
  }

  local(clientId) {
    return this.entries.find((entry) => entry.client_id && entry.client_id === clientId);
  }

  accepted(frame) {
    const entry = this.local(frame.client_id);
    if (entry) Object.assign(entry, { id: frame.message, run: frame.run, status: null });
    if (entry?.speaker === "human") this.handedOff = false;
    if (frame.run) this.ensureRun(frame.run);
  }

  posted(message) {
    const known = this.entries.find(
      (entry) =>
        entry.kind === "message" &&
        (entry.id === message.id || (message.client_id && entry.client_id === message.client_id)),
    );
    if (known) Object.assign(known, { id: message.id, run: message.run, status: null });
    else this.entries.push({ kind: "message", key: `m:${message.id}`, ...message });
    if (message.run) this.ensureRun(message.run);
    if (message.speaker === "human") this.handedOff = false;
  }

  ensureRun(id) {
    let run = this.runs.get(id);
    if (!run) {
      run = newRun(id, 0);
      this.runs.set(id, run);
      this.addSegment(run);
    }
    return run;
  }

  // What a run did was taken back, or could not be.
  undone(frame) {
    const run = this.runs.get(frame.run);
    const part = run && this.part(run, `t:${frame.call}`);
    if (!part) {
      this.needsRefresh = true;
      return;
    }
    run.isUndoing = false;
    Object.assign(part, { state: frame.state, undo: frame.undo });
  }

  // How far each unfinished run has been shown here.
  positions() {
    const after = {};
    for (const run of this.runs.values()) if (!run.isOver) after[run.id] = run.seq;
    return after;
  }

  activeRun() {
    for (const run of this.runs.values()) {
      if (!run.isOver && (run.state === "queued" || run.state === "running")) return run;
    }
    return null;
  }

  apply(event) {
    const run = this.ensureRun(event.run);
    if (event.seq <= run.seq) return;
    if (event.seq !== run.seq + 1) this.needsRefresh = true;
    run.seq = event.seq;
    const handler = HANDLERS[event.type];
    if (handler) handler(this, run, event);
  }

  // Below a message that the run took up while it worked, what follows begins a new segment.
  splitIfTaken(run, event) {
    const committed = run.committed;
    run.committed = null;
    const isTaken = committed === "results" || (committed === "model" && event === "text.delta");
    if (!isTaken || run.live) return;
    const last = this.entries.lastIndexOf(run.segments.at(-1));
    const later = this.entries.slice(last + 1);
    if (later.some((entry) => entry.kind === "message" && entry.run === run.id)) {
      this.addSegment(run);
    }
  }

  part(run, key) {
    for (const segment of run.segments) {
      const found = segment.parts.find((part) => part.key === key);
      if (found) return found;
    }
    return null;
  }

  toolPart(run, event) {
    const key = `t:${event.call}`;
    let part = this.part(run, key);
    if (!part) {
      part = { kind: "tool", key, step: run.step, call: event.call, tool: event.tool };
      Object.assign(part, { arguments: event.arguments ?? {}, state: "proposed", data: null });
      Object.assign(part, { summary: "", approval: null });
      run.segments.at(-1).parts.push(part);
    }
    return part;
  }

  approvalPart(run, approvalId) {
    for (const segment of run.segments) {
      const found = segment.parts.find((part) => part.approval?.id === approvalId);
      if (found) return found;
    }
    return null;
  }
}

function newRun(id, seq) {
  return {
    id,
    seq,
    step: 0,
    lastStep: 0,
    state: "queued",
    isInLine: false,
    isOver: false,
    isSettled: false,
    live: "",
    committed: null,
    handoff: false,
    isStopping: false,
    isUndoing: false,
    segments: [],
  };
}

function partKey(part) {
  return part.kind === "tool" ? `t:${part.call}` : `x:${part.step}`;
}

const RANK = { proposed: 0, gated: 1, running: 2, compensated: 4 };

function rank(state) {
  return RANK[state] ?? 3;
}

// A call only moves forward: of two views of it, the one that has seen more.
function newestOf(part, old) {
  if (!old || part.kind !== "tool") return part;
  const newest = rank(old.state) > rank(part.state) ? { ...old, step: part.step } : part;
  const isBehind = !part.approval || (part.approval.state === "pending" && old.approval?.state !== "pending");
  newest.approval = old.approval && isBehind ? old.approval : part.approval;
  newest.undo = !part.undo || part.undo === "due" ? (old.undo ?? part.undo) : part.undo;
  if (newest.approval && old.approval?.isSent && newest.approval.state === "pending") {
    newest.approval.isSent = true;
  }
  return newest;
}

function plain(text) {
  return text.replace(/\s+/g, " ").trim();
}

const HANDLERS = {
  "run.in_line"(conversation, run) {
    if (run.state === "queued") run.isInLine = true;
  },
  "run.started"(conversation, run, event) {
    run.live = "";
    if (!run.isOver) run.state = "running";
    if (event.resumed) conversation.needsRefresh = true;
  },
  "text.delta"(conversation, run, event) {
    conversation.splitIfTaken(run, event.type);
    if (!run.isOver) run.state = "running";
    run.live += event.text;
  },
  "step.committed"(conversation, run, event) {
    if (event.step > run.lastStep && run.live.trim()) {
      const part = { kind: "text", key: `x:${event.step}`, step: event.step };
      run.segments.at(-1).parts.push({ ...part, text: run.live.trim() });
    }
    run.live = "";
    run.step = Math.max(run.step, event.step);
    run.committed = event.step > run.lastStep ? event.kind : null;
  },
  "tool.proposed"(conversation, run, event) {
    conversation.splitIfTaken(run, event.type);
    conversation.toolPart(run, event);
  },
  "tool.result"(conversation, run, event) {
    const part = conversation.toolPart(run, event);
    Object.assign(part, { state: event.state, summary: event.summary, data: event.data });
    if (part.approval?.state === "approved") part.approval.state = SETTLED[event.state] ?? "approved";
    if (!run.isOver) run.state = "running";
  },
  "approval.requested"(conversation, run, event) {
    const part = conversation.toolPart(run, event);
    if (part.approval?.id === event.approval) return;
    part.approval = { id: event.approval, gate: event.gate, state: "pending", note: "" };
    part.approval.expires_at = event.expires_at;
    part.approval.preview = event.preview;
    part.approval.arguments = event.arguments;
    part.state = "gated";
    if (!run.isOver) run.state = "waiting";
  },
  "approval.decided"(conversation, run, event) {
    const part = conversation.approvalPart(run, event.approval);
    if (!part) conversation.needsRefresh = true;
    else Object.assign(part.approval, { state: event.state, note: event.note, isSent: false });
  },
  "run.finished"(conversation, run, event) {
    Object.assign(run, { state: event.state, isOver: true, handoff: event.handoff });
    run.isStopping = false;
    run.answer = event.answer;
    conversation.handedOff ||= event.handoff;
    const texts = run.segments.flatMap((one) => one.parts.filter((part) => part.kind === "text"));
    const shown = plain(texts.map((part) => part.text).join(" "));
    const isWhole = event.answer.split("\n\n").every((piece) => shown.includes(plain(piece)));
    if (event.state === "succeeded" && isWhole && !event.recovered) run.live = "";
    else conversation.needsRefresh = true;
  },
};
