// Keeps the inbox live: the socket only says that something changed, the page asks for it itself.

const root = document.querySelector("[data-approvals]");
const panel = document.getElementById("approval-panel");
const liveState = root.querySelector("[data-live-state]");
const announce = root.querySelector("[data-announce]");
const failure = root.querySelector("[data-failure]");

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;
const GATHER_MS = 80;

let retryMs = RETRY_FIRST_MS;
let refreshTimer = 0;

function refreshList() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => {
    document.body.dispatchEvent(new CustomEvent("approvals:refresh"));
  }, GATHER_MS);
}

function openApproval() {
  return panel.querySelector("[data-open-approval]");
}

function isBeingWritten() {
  const fields = [...panel.querySelectorAll("input:not([type=hidden]), textarea")];
  return fields.some((field) => field.value !== field.defaultValue);
}

function refreshPanel(state) {
  const open = openApproval();
  // A half-written reason is kept, unless there is nothing left to decide.
  if (!open || (state === "pending" && isBeingWritten())) return;
  window.htmx.ajax("GET", open.dataset.url, { target: "#approval-panel", swap: "innerHTML" });
}

function refreshAll() {
  refreshList();
  if (!isBeingWritten()) refreshPanel("pending");
}

function showLive(isLive) {
  liveState.textContent = isLive ? root.dataset.live : root.dataset.offline;
  liveState.classList.toggle("is-live", isLive);
}

function connect() {
  const url = new URL(root.dataset.socket, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    if (message.type === "ready") {
      retryMs = RETRY_FIRST_MS;
      showLive(true);
      refreshAll(); // whatever happened before the socket listened
    } else if (message.type === "changed") {
      refreshList();
      announce.textContent = root.dataset.changed;
      if (openApproval()?.dataset.openApproval === message.approval) refreshPanel(message.state);
    }
  });
  socket.addEventListener("close", (event) => {
    showLive(false);
    if (event.code === 4403) return; // no longer a reviewer
    setTimeout(connect, retryMs * (0.5 + Math.random()));
    retryMs = Math.min(retryMs * 2, RETRY_MOST_MS);
  });
}

function tellTime() {
  const format = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always" });
  for (const element of document.querySelectorAll("time[data-until]")) {
    const seconds = Math.round((new Date(element.dateTime) - Date.now()) / 1000);
    if (seconds <= 0) element.textContent = root.dataset.expired;
    else if (seconds < 120) element.textContent = format.format(seconds, "second");
    else if (seconds < 7200) element.textContent = format.format(Math.floor(seconds / 60), "minute");
    else element.textContent = format.format(Math.floor(seconds / 3600), "hour");
  }
}

function markSelected() {
  const chosen = openApproval()?.dataset.openApproval;
  for (const row of document.querySelectorAll("[data-approval]")) {
    if (row.dataset.approval === chosen) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  root.querySelector(".approvals-columns").classList.toggle("has-selection", Boolean(chosen));
}

function showCount() {
  const count = Number(document.getElementById("approval-list").dataset.pending);
  document.title = count ? `(${count}) ${root.dataset.title}` : root.dataset.title;
}

document.body.addEventListener("htmx:afterSwap", (event) => {
  failure.hidden = true;
  markSelected();
  showCount();
  tellTime();
  const byPerson = event.detail.requestConfig?.triggeringEvent?.isTrusted;
  if (event.detail.target === panel && byPerson) {
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "start" });
  }
});

document.body.addEventListener("htmx:responseError", showFailure);
document.body.addEventListener("htmx:sendError", showFailure);

function showFailure() {
  failure.textContent = root.dataset.failed;
  failure.hidden = false;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refreshAll();
});
window.addEventListener("online", refreshAll);

setInterval(tellTime, 1000);
tellTime();
connect();
