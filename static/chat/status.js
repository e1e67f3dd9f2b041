// The line above the messages that says how the connection is.

import { button, h } from "./dom.js";
import { t } from "./format.js";

const SAY_LOST_AFTER = 1200;

export function setUpStatus(connection) {
  const banner = document.getElementById("connection");
  const said = new Map();
  let timer = null;

  function show() {
    const newest = [...said.values()].at(-1);
    banner.hidden = !newest;
    banner.className = `banner ${newest?.kind ?? ""}`;
    banner.replaceChildren(...(newest ? newest.content() : []));
  }

  function put(about, kind, content) {
    said.delete(about);
    said.set(about, { kind, content });
    show();
  }

  function clear(about) {
    said.delete(about);
    show();
  }

  function lost(at) {
    const seconds = Math.max(1, Math.ceil((at - Date.now()) / 1000));
    const text = navigator.onLine ? t("reconnecting", { seconds }) : t("offline");
    put("connection", "warn", () => [
      h("span", {}, text),
      button(t("retry_now"), () => connection.retryNow(), "quiet small"),
    ]);
  }

  connection?.addEventListener("status", ({ detail }) => {
    clearTimeout(timer);
    if (detail.state === "open") clear("connection");
    else if (detail.state === "refused") put("connection", "bad", () => [t("not_yours")]);
    // A short loss is healed before anybody needs to read of it.
    else timer = setTimeout(() => lost(detail.at), said.has("connection") ? 0 : SAY_LOST_AFTER);
  });

  return {
    say: (text, kind, about = "note") => {
      put(about, kind, () => [h("span", {}, text), button(t("close"), () => clear(about), "quiet small")]);
    },
    clear,
  };
}
