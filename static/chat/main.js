// The chat page: wires the model, the view, the socket and the composer together.

import { whatIsOn } from "./cards.js";
import { setUpComposer } from "./composer.js";
import { Connection } from "./connection.js";
import { Facts } from "./facts.js";
import { config, firstTimeline, newId, t } from "./format.js";
import { Conversation } from "./model.js";
import { setUpStatus } from "./status.js";
import { View } from "./render.js";

const REFRESH_PAUSE = 150;

const log = document.getElementById("log");
const announce = document.getElementById("announce");

function offerSuggestions(say) {
  document.querySelectorAll(".suggestion").forEach((one) =>
    one.addEventListener("click", () => say(one.textContent.trim().replace(/\u00a0/g, " "))),
  );
}

function startPage() {
  const composer = setUpComposer({ onText: startConversation, onStop: () => {} });
  const status = setUpStatus(null);
  offerSuggestions(startConversation);
  const clientId = newId();
  whatIsOn(document.getElementById("welcome"), { say: startConversation, isOwner: true }).catch(
    () => {}, // only an offer: the page works without it
  );

  // The first message makes the conversation; its page then takes over.
  async function startConversation(text) {
    composer.setBusy(true);
    const form = new FormData(document.getElementById("composer"));
    form.set("text", text);
    form.set("client_id", clientId);
    try {
      const answer = await fetch(config.new, { method: "POST", body: form });
      if (!answer.ok || !answer.redirected) throw new Error(String(answer.status));
      location.assign(answer.url);
    } catch {
      composer.setBusy(false);
      composer.restore(text);
      status.say(t("start_failed"), "bad");
    }
  }
}

function talkPage() {
  const conversation = new Conversation();
  const waits = document.getElementById("waits"); // staff only: a fan who waits for a person
  const connection = new Connection(config.socket, `unsent:${config.conversation}`, () =>
    conversation.positions(),
  );
  const status = setUpStatus(connection);
  const actions = {
    isOwner: config.is_owner,
    say,
    again: (entry) => {
      Object.assign(entry, { status: "sending", problem: "" });
      connection.say(entry.text, entry.client_id);
      redraw();
    },
    decide: (verb, approval) => connection.transmit({ type: verb, approval }),
    undo: (run) => {
      run.isUndoing = connection.transmit({ type: "cancel", run: run.id, compensate: true });
      redraw();
    },
  };
  const view = new View(log, actions);
  const composer = setUpComposer({ onText: say, onStop: stop });
  let isDrawing = false;
  let refreshTimer = null;

  function say(text) {
    const clientId = newId();
    const entry = conversation.addLocal(clientId, text);
    if (!config.is_owner) entry.speaker = "human";
    connection.say(text, clientId);
    redraw();
    view.toEnd();
  }

  function stop() {
    const run = conversation.activeRun();
    if (!run || run.isStopping) return;
    run.isStopping = true;
    connection.transmit({ type: "cancel", run: run.id });
    redraw();
  }

  // A stop that a lost connection may have swallowed is said again: twice is the same as once.
  function stopAgain() {
    for (const run of conversation.runs.values()) {
      if (run.isStopping && !run.isOver) connection.transmit({ type: "cancel", run: run.id });
    }
  }

  function redraw() {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => {
      isDrawing = false;
      const facts = new Facts(conversation);
      view.draw(conversation, facts);
      composer.setWorking(facts.isBusy && config.is_owner, Boolean(conversation.activeRun()?.isStopping));
      if (waits) waits.hidden ||= !conversation.handedOff;
    });
  }

  function refreshSoon() {
    clearTimeout(refreshTimer);
    refreshTimer = setTimeout(refresh, REFRESH_PAUSE);
  }

  async function refresh() {
    conversation.needsRefresh = false;
    const asked = conversation.positions();
    try {
      const answer = await fetch(config.timeline, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      conversation.load(await answer.json(), asked);
      redraw();
    } catch {
      conversation.needsRefresh = true;
    }
  }

  const frames = {
    "message.accepted": (frame) => conversation.accepted(frame),
    "message.posted": (frame) => conversation.posted(frame.message),
    "tool.undone": (frame) => conversation.undone(frame),
    "stream.available": () => {
      status.clear("stream");
      conversation.needsRefresh = true;
    },
    "database.available": () => {
      status.clear("database");
      conversation.needsRefresh = true;
      stopAgain();
    },
    error: (frame) => refused(frame),
  };

  function refused(frame) {
    if (frame.code === "database_unavailable") {
      status.say(frame.message, "warn", "database"); // what was written is sent again by itself
      return;
    }
    const run = conversation.runs.get(frame.run);
    if (run) {
      run.isStopping = run.isUndoing = false;
      conversation.needsRefresh = true;
    }
    const entry = frame.client_id && conversation.local(frame.client_id);
    if (entry) Object.assign(entry, { status: "failed", problem: frame.message });
    else if (frame.code === "stream_unavailable") status.say(frame.message, "warn", "stream");
    else if (frame.approval) {
      conversation.needsRefresh = true;
      status.say(frame.message, "bad", "note");
    } else if (run && frame.code === "conflict") {
      // The answer was quicker than the stop: the page shows it, and there is nothing to say.
    } else if (frame.code !== "not_found" || frame.run) status.say(frame.message, "bad", "note");
  }

  connection.addEventListener("frame", ({ detail }) => {
    const handler = frames[detail.type];
    if (handler) handler(detail);
    else if (detail.run) {
      conversation.apply(detail);
      if (detail.type === "run.finished") announce.textContent = t(detail.state === "cancelled" ? "stopped" : "answer_ready");
    }
    if (conversation.needsRefresh) refreshSoon();
    redraw();
  });
  connection.addEventListener("status", ({ detail }) => {
    // What was said while the page was away may have come and gone: look at the whole again.
    if (detail.state === "open" && hasBeenLost) refreshSoon();
    if (detail.state === "open") stopAgain();
    hasBeenLost ||= detail.state === "lost";
  });
  let hasBeenLost = false;

  conversation.load(firstTimeline);
  connection.queue.forEach((one) => {
    if (!conversation.local(one.client_id)) conversation.addLocal(one.client_id, one.text);
  });
  connection.open();
  if (conversation.entries.length) redraw();
  requestAnimationFrame(() => view.toEnd());
}

if (config.conversation) talkPage();
else startPage();
