// The seat map of an event, on demand: free and taken seats, and up to six to ask for.

import { button, h, svg } from "./dom.js";
import { asMoney, config, t } from "./format.js";
import { seatNames } from "./cards.js";

const MOST = 6;
const RADIUS = 0.42;

export async function openSeatMap(eventId, title, actions) {
  const dialog = document.getElementById("seat-map");
  const body = h("div", { class: "map-body" }, h("p", { role: "status" }, t("map_loading")));
  dialog.replaceChildren(
    h(
      "div",
      { class: "map-head" },
      h("h2", {}, title),
      button(t("close"), () => dialog.close(), "quiet small"),
    ),
    body,
  );
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await fetch(`${config.events}${eventId}/seats/`);
    if (!answer.ok) throw new Error(String(answer.status));
    const data = await answer.json();
    new SeatMap(body, data.results ?? data.seats ?? data, { eventId, title, dialog, actions }).draw();
  } catch {
    body.replaceChildren(h("p", { class: "note bad", role: "alert" }, t("map_failed")));
  }
}

class SeatMap {
  constructor(body, seats, context) {
    this.body = body;
    this.seats = seats;
    this.context = context;
    this.picked = new Map();
  }

  draw() {
    this.footer = h("div", { class: "map-foot" });
    this.body.replaceChildren(this.map(), this.legend(), this.footer);
    this.foot();
  }

  map() {
    const xs = this.seats.map((seat) => seat.x);
    const ys = this.seats.map((seat) => seat.y);
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
    const unit = spacing(this.seats);
    const pad = unit * 2;
    const box = [left - pad, top - pad * 2, right - left + pad * 2, bottom - top + pad * 3];
    const middle = (left + right) / 2;
    return svg(
      "svg",
      { class: "map", viewBox: box.join(" "), role: "group", "aria-label": t("seat_map") },
      svg("text", { x: middle, y: top - pad, class: "map-stage", "font-size": unit * 1.6 }, t("map_stage")),
      this.seats.map((seat) => this.seat(seat, unit)),
    );
  }

  seat(seat, unit) {
    const isFree = seat.status === "free";
    const label = `${seatNames([seat])[0]} · ${isFree ? asMoney(seat.price_brl) : t("map_taken")}`;
    const circle = svg(
      "circle",
      { cx: seat.x, cy: seat.y, r: unit * RADIUS, class: `map-seat ${seat.status}` },
      svg("title", {}, label),
    );
    if (!isFree) return circle;
    circle.setAttribute("role", "checkbox");
    circle.setAttribute("aria-checked", "false");
    circle.setAttribute("aria-label", label);
    circle.setAttribute("tabindex", "0");
    const toggle = () => this.toggle(seat, circle);
    circle.addEventListener("click", toggle);
    circle.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      toggle();
    });
    return circle;
  }

  toggle(seat, circle) {
    if (this.picked.has(seat.id)) this.picked.delete(seat.id);
    else if (this.picked.size < MOST) this.picked.set(seat.id, seat);
    const isPicked = this.picked.has(seat.id);
    circle.classList.toggle("picked", isPicked);
    circle.setAttribute("aria-checked", String(isPicked));
    this.foot();
  }

  legend() {
    const entry = (kind, word) => h("span", { class: `map-key ${kind}` }, word);
    return h("p", { class: "map-legend" }, entry("free", t("map_free")), entry("picked", t("map_picked")), entry("sold", t("map_taken")));
  }

  foot() {
    const seats = [...this.picked.values()];
    const sum = seats.reduce((all, seat) => all + seat.price_brl, 0);
    const { actions, dialog } = this.context;
    this.footer.replaceChildren(
      seats.length
        ? h("p", { role: "status" }, `${seatNames(seats).join("; ")} · ${asMoney(sum)}`)
        : h("p", { class: "note" }, t("map_hint", { count: MOST })),
    );
    if (!seats.length || !actions.isOwner) return;
    this.footer.append(
      button(t("map_ask"), () => {
        dialog.close();
        actions.say(this.message(seats));
      }),
    );
  }

  // The ids let the assistant hold exactly these seats.
  message(seats) {
    const { eventId, title } = this.context;
    const ids = seats.map((seat) => seat.id).join(", ");
    const text = t("map_message", { event: title, seats: seatNames(seats).join("; ") });
    return `${text} [event ${eventId} seats ${ids}]`;
  }
}

// How far neighbouring seats are apart, from the closest pair in a sample.
function spacing(seats) {
  let least = Infinity;
  const sample = seats.slice(0, 60);
  for (const [index, one] of sample.entries()) {
    for (const other of sample.slice(index + 1)) {
      const apart = Math.hypot(one.x - other.x, one.y - other.y);
      if (apart > 0) least = Math.min(least, apart);
    }
  }
  return Number.isFinite(least) ? least : 1;
}
