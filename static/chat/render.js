// Draws the conversation: each entry and each part has one element that is kept while it lives.

import { approvalCard } from "./approvals.js";
import { toolCard } from "./cards.js";
import { h, button, svg } from "./dom.js";
import { has, t } from "./format.js";
import { markdown } from "./markdown.js";

// The ids that the seat map adds for the assistant are no reading for people.
const PICK = /\s*\[event [0-9a-f-]{36} seats [0-9a-f, -]+\]\s*$/;
const DOING = new Set(["proposed", "gated", "running"]);

export class View {
  constructor(log, actions) {
    this.log = log;
    this.actions = actions;
    this.drawn = new Map();
    this.log.replaceChildren();
  }

  // `facts` are what the parts of a conversation say of each other (a hold that was bought).
  draw(conversation, facts) {
    const isAtEnd = this.isAtEnd();
    this.facts = facts;
    const elements = conversation.entries.map((entry) =>
      entry.kind === "message" ? this.message(entry) : this.segment(entry),
    );
    arrange(this.log, elements);
    const keep = new Set(conversation.entries.map((entry) => entry.key));
    for (const key of this.drawn.keys()) if (!keep.has(rootOf(key))) this.drawn.delete(key);
    if (isAtEnd) this.toEnd();
  }

  isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.log;
    return scrollHeight - scrollTop - clientHeight < 80;
  }

  toEnd() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  // The element of a key, built anew only when what it shows has changed.
  piece(key, state, build) {
    const known = this.drawn.get(key);
    if (known && known.state === state) return known.element;
    const element = build(known?.element);
    this.drawn.set(key, { state, element });
    return element;
  }

  message(entry) {
    const state = `${entry.text}|${entry.status}|${entry.problem}`;
    return this.piece(entry.key, state, () => {
      const notes = [];
      if (entry.status === "sending") notes.push(h("p", { class: "note" }, t("sending")));
      if (entry.status === "failed") {
        notes.push(h("p", { class: "note bad" }, entry.problem || t("not_sent")));
        notes.push(button(t("try_again"), () => this.actions.again(entry), "quiet"));
      }
      const body = entry.speaker === "human" ? markdown(entry.text) : entry.text.replace(PICK, "");
      return h(
        "article",
        { class: `message ${entry.speaker}`, "data-id": entry.id },
        h("h3", { class: entry.speaker === "human" ? "who" : "visually-hidden" }, who(entry, this.actions)),
        h("div", { class: "bubble" }, body),
        notes,
      );
    });
  }

  segment(entry) {
    const { run, parts } = entry;
    const element = this.piece(entry.key, "run", () =>
      h(
        "article",
        { class: "run", "data-run": run.id },
        h("h3", { class: "visually-hidden" }, t("assistant")),
        h("div", { class: "parts" }),
      ),
    );
    const isLast = run.segments.at(-1) === entry;
    const children = parts.flatMap((part) => this.part(entry, part));
    if (isLast) children.push(...this.tail(entry));
    arrange(element.querySelector(".parts"), children);
    element.setAttribute("aria-busy", String(isLast && !run.isOver && run.state !== "waiting"));
    element.hidden = children.length === 0;
    return element;
  }

  part(entry, part) {
    const key = `${entry.key}/${part.key}`;
    if (part.kind === "text") {
      return [this.piece(key, part.text, () => h("div", { class: "bubble" }, markdown(part.text)))];
    }
    const { isOver } = entry.run;
    const state = JSON.stringify([part.state, part.summary, part.approval, part.data, part.undo, isOver]);
    const facts = this.facts.about(part);
    return [
      this.piece(`${key}:step`, `${state}|${facts}`, () => step(part, isOver)),
      part.approval &&
        this.piece(`${key}:gate`, `${state}|${facts}`, () =>
          approvalCard(part, this.facts, this.actions),
        ),
      this.piece(`${key}:card`, `${state}|${facts}`, () =>
        toolCard(part, this.facts, this.actions),
      ),
    ].filter(Boolean);
  }

  tail(entry) {
    const { run } = entry;
    const pieces = [];
    if (run.live && !run.isSettled) {
      const key = `${entry.key}/live`;
      pieces.push(
        this.piece(key, run.live, (old) => {
          const element = old ?? h("div", { class: "bubble live" });
          element.replaceChildren(...markdown(run.live));
          return element;
        }),
      );
    }
    const isWorking = !run.isOver && run.state !== "waiting" && !run.live && !hasWork(entry);
    if (!run.isOver && (run.isStopping || isWorking)) {
      const wait = run.isInLine ? t("in_line") : t("queued");
      const work = run.state === "queued" ? wait : t("thinking");
      const word = run.isStopping ? t("stopping") : work;
      pieces.push(this.piece(`${entry.key}/wait`, word, () => waiting(word)));
    }
    const end = run.state === "cancelled" ? t("stopped") : run.handoff ? t("handoff") : "";
    if (run.isOver && end) {
      pieces.push(this.piece(`${entry.key}/end`, end, () => h("p", { class: "note" }, end)));
    }
    if (run.isOver) pieces.push(...this.undoing(entry.key, run));
    return pieces;
  }

  // What is being taken back, what was, and what the fan may still have taken back.
  undoing(key, run) {
    const parts = run.segments.flatMap((segment) => segment.parts);
    const isOffered = run.state === "cancelled" && this.actions.isOwner && !run.isUndoing;
    const open = isOffered ? parts.filter((part) => this.facts.canUndo(part)) : [];
    const undos = parts.map((part) => part.undo).filter((undo) => SAID_UNDO.has(undo));
    if (run.isUndoing && !undos.includes("due")) undos.push("due");
    const pieces = [...new Set(undos)].map((undo) => {
      const word = t(`undo_${undo}`);
      const build = undo === "due" ? () => waiting(word) : () => h("p", { class: "note", role: "status" }, word);
      return this.piece(`${key}/undo:${undo}`, word, build);
    });
    if (open.length) {
      const isSeats = open.every((part) => part.tool === "hold_seats");
      const word = t(isSeats ? "undo_seats" : "undo_all");
      const build = () =>
        h("div", { class: "card-actions" }, button(word, () => this.actions.undo(run), "secondary small"));
      pieces.push(this.piece(`${key}/undo`, word, build));
    }
    return pieces;
  }
}

const SAID_UNDO = new Set(["due", "undone", "stuck"]);

function rootOf(key) {
  const end = key.indexOf("/");
  return end < 0 ? key : key.slice(0, end);
}

// Puts the elements in order with as few moves as possible: focus and selection stay.
function arrange(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, index) => {
    if (parent.childNodes[index] !== element) parent.insertBefore(element, parent.childNodes[index] ?? null);
  });
}

function who(entry, { isOwner }) {
  if (entry.speaker === "human") return t("human");
  if (entry.speaker === "fan") return isOwner ? t("you") : t("fan");
  return t("assistant");
}

function hasWork(entry) {
  return entry.parts.some((part) => part.kind === "tool" && DOING.has(part.state));
}

function waiting(word) {
  return h(
    "p",
    { class: "thinking" },
    h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
    word,
  );
}

const ICONS = {
  done: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M7 7l10 10M17 7L7 17",
  gated: "M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 1 0 0-17M12 7.5V12l3 2",
};

function icon(kind) {
  if (kind === "doing") return h("span", { class: "spinner", "aria-hidden": "true" });
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "step-icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[kind] }),
  );
}

function step(part, isOver) {
  const name = has(`${part.tool}.doing`) ? part.tool : "other";
  const kind = kindOf(part, isOver);
  const form = kind === "done" ? "done" : "doing";
  const label = t(`${name}.${form}`, { tool: part.tool }).replace(kind === "failed" ? /…$/ : "", "");
  const extra = problemOf(part);
  return h(
    "p",
    { class: `step ${kind}`, "data-tool": part.tool, "data-state": part.state },
    icon(kind),
    h("span", { class: "step-label" }, label),
    extra && h("span", { class: "step-note" }, extra),
  );
}

function kindOf(part, isOver) {
  if (part.state === "succeeded" || part.state === "compensated") return "done";
  if (part.state === "gated" || part.approval?.state === "pending") return "gated";
  if (DOING.has(part.state)) return isOver ? "failed" : "doing";
  return "failed";
}

function problemOf(part) {
  if (part.state === "compensated") return t("step_compensated");
  if (part.state === "unknown") return t("step_unknown");
  if (part.state === "denied") return part.approval ? "" : t("step_denied");
  return part.state === "failed" ? t("step_failed") : "";
}
