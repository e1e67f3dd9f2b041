// Countdowns: one tick a second for all that are on the page.

import { asClock, config } from "./format.js";
import { h } from "./dom.js";

const ahead = new Date(config.now).getTime() - Date.now(); // of the server's clock
const running = new Set();
setInterval(() => running.forEach(tick), 1000);

function serverNow() {
  return Date.now() + ahead;
}

function tick(clock) {
  // An element that left the page is forgotten; one that is not in it yet waits.
  if (clock.wasShown && !clock.element.isConnected) {
    running.delete(clock);
    return;
  }
  clock.wasShown ||= clock.element.isConnected;
  const left = clock.until - serverNow();
  clock.element.textContent = asClock(left);
  clock.element.classList.toggle("soon", left < 60000);
  if (left <= 0) {
    running.delete(clock);
    clock.onEnd();
  }
}

export function countdown(iso, onEnd) {
  const element = h("time", { class: "clock", datetime: iso, role: "timer" });
  const clock = { element, until: new Date(iso).getTime(), onEnd, wasShown: false };
  if (clock.until > serverNow()) running.add(clock);
  element.textContent = asClock(clock.until - serverNow());
  return element;
}

export function isPast(iso) {
  return new Date(iso).getTime() <= serverNow();
}
