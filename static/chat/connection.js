// The socket: opens, says what the page has, comes back after a loss, and keeps what was written.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;
// The server could not be asked: what was sent stays unsent.
const NOT_NOW = "database_unavailable";
const NOT_YOURS = 4404;

export class Connection extends EventTarget {
  constructor(path, storageKey, positions) {
    super();
    this.path = path;
    this.storageKey = storageKey;
    this.positions = positions;
    this.queue = this.stored();
    this.wait = FIRST_WAIT;
    this.socket = null;
    this.timer = null;
    addEventListener("online", () => this.retryNow());
    addEventListener("pageshow", (event) => event.persisted && this.retryNow());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.retryNow();
    });
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  open() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}`);
    this.socket = socket;
    socket.addEventListener("open", () => this.opened());
    socket.addEventListener("message", (event) => this.received(event.data));
    socket.addEventListener("close", (event) => this.closed(socket, event.code));
  }

  opened() {
    this.wait = FIRST_WAIT;
    this.transmit({ type: "resume", after: this.positions() });
    this.sayAgain();
    this.dispatchEvent(new CustomEvent("status", { detail: { state: "open" } }));
  }

  received(data) {
    const frame = JSON.parse(data);
    const isRefused = frame.type === "error" && frame.code !== NOT_NOW;
    const isSettled = frame.type === "message.accepted" || isRefused;
    if (frame.type === "database.available") this.sayAgain();
    if (isSettled && frame.client_id) this.forget(frame.client_id);
    this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
  }

  closed(socket, code) {
    if (socket !== this.socket) return;
    this.socket = null;
    if (code === NOT_YOURS) {
      this.dispatchEvent(new CustomEvent("status", { detail: { state: "refused" } }));
      return;
    }
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    const at = Date.now() + wait;
    this.timer = setTimeout(() => this.open(), wait);
    this.dispatchEvent(new CustomEvent("status", { detail: { state: "lost", at } }));
  }

  retryNow() {
    if (this.socket === null && this.timer !== null) this.open();
  }

  transmit(frame) {
    if (this.isOpen) this.socket.send(JSON.stringify(frame));
    return this.isOpen;
  }

  // A message is kept until the server has accepted or refused it, over reconnects and reloads.
  say(text, clientId) {
    const message = { text, client_id: clientId };
    this.queue.push(message);
    this.store();
    this.transmit({ type: "message", ...message });
  }

  sayAgain() {
    this.queue.forEach((message) => this.transmit({ type: "message", ...message }));
  }

  forget(clientId) {
    this.queue = this.queue.filter((message) => message.client_id !== clientId);
    this.store();
  }

  stored() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.storageKey) ?? "[]");
      return Array.isArray(kept) ? kept : [];
    } catch {
      return [];
    }
  }

  store() {
    try {
      sessionStorage.setItem(this.storageKey, JSON.stringify(this.queue));
    } catch {
      // Storage may be switched off; the queue then lives as long as the page.
    }
  }
}
