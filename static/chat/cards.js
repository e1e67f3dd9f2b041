// What a tool's result looks like: events, seat options, holds, orders.

import { countdown, isPast } from "./clock.js";
import { h, button } from "./dom.js";
import { asDate, asDay, asMoney, config, t } from "./format.js";
import { openSeatMap } from "./seatmap.js";

const EVENTS_SHOWN = 6;
const ON_SHOWN = 4;

export function toolCard(part, facts, actions) {
  const draw = CARDS[part.tool];
  const isOver = part.state === "succeeded" || part.state === "compensated";
  if (!draw || !isOver || !part.data) return null;
  const card = draw(part, facts, actions);
  if (!facts.used.has(part.call)) return card;
  return h("details", { class: "used" }, h("summary", {}, t("details")), card);
}

export function seatNames(seats) {
  const groups = new Map();
  for (const seat of seats) {
    const place = `${seat.section}, ${t("row", { row: seat.row })}`;
    groups.set(place, [...(groups.get(place) ?? []), seat.number]);
  }
  return [...groups].map(([place, numbers]) => `${place} · ${numbers.join(", ")}`);
}

function seatList(seats) {
  return h("ul", { class: "seats" }, seatNames(seats).map((name) => h("li", {}, name)));
}

function eventHead(title, startsAt, level = "h4") {
  return [
    h(level, { class: "card-title" }, title),
    startsAt && h("p", { class: "card-when" }, h("time", { datetime: startsAt }, asDate(startsAt))),
  ];
}

function total(amount) {
  return h("p", { class: "total" }, h("span", {}, t("total")), h("strong", {}, asMoney(amount)));
}

function askSeats(event) {
  return t("ask_seats", { event: event.title, day: asDay(event.starts_at) });
}

function eventCard(event, actions) {
  const isSoldOut = event.seats_free === 0;
  const from = event.price_from_brl;
  return h(
    "li",
    { class: "card event-card" },
    eventHead(event.title, event.starts_at),
    h("p", { class: "card-place" }, `${event.venue} · ${event.city}`),
    h(
      "p",
      { class: "card-facts" },
      typeof from === "number" && h("span", { class: "price" }, t("from_price", { price: asMoney(from) })),
      h(
        "span",
        { class: isSoldOut ? "badge bad" : "badge" },
        isSoldOut ? t("sold_out") : t("seats_free", { count: event.seats_free }),
      ),
    ),
    !isSoldOut &&
      h(
        "div",
        { class: "card-actions" },
        button(t("show_seats"), () => actions.say(askSeats(event)), "secondary small"),
        button(t("seat_map"), () => openSeatMap(event.id, event.title, actions), "quiet small"),
      ),
  );
}

function events(part, facts, actions) {
  const found = part.data.events ?? [];
  if (!found.length) return h("p", { class: "note" }, t("no_events"));
  const more = Math.max(part.data.total ?? 0, found.length) - Math.min(found.length, EVENTS_SHOWN);
  return h(
    "section",
    { class: "card-group", "aria-label": t("events") },
    h("ul", { class: "event-cards" }, found.slice(0, EVENTS_SHOWN).map((event) => eventCard(event, actions))),
    more > 0 && h("p", { class: "note" }, t("more_events", { count: more })),
  );
}

// What is on: the next events, for a fan who does not know yet what to ask for.
export async function whatIsOn(place, actions) {
  const answer = await fetch(config.events, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const { results } = await answer.json();
  const open = results.filter((event) => event.sales_open && event.seats_free > 0);
  if (!open.length) return;
  place.append(
    h("h2", { class: "on-title" }, t("whats_on")),
    h("ul", { class: "event-cards" }, open.slice(0, ON_SHOWN).map((event) => eventCard(event, actions))),
  );
}

function option(one, index, isNewest, facts, actions) {
  const number = index + 1;
  return h(
    "li",
    { class: "option" },
    h("span", { class: "option-number", "aria-hidden": "true" }, String(number)),
    h(
      "div",
      { class: "option-body" },
      h("strong", { class: "visually-hidden" }, t("option", { number })),
      seatList(one.seats),
      h("span", { class: one.adjacent ? "badge good" : "badge" }, t(one.adjacent ? "side_by_side" : "apart")),
    ),
    h("strong", { class: "option-price" }, asMoney(one.total_brl)),
    isNewest &&
      button(t("choose"), () => actions.say(t("ask_option", { number })), "secondary small"),
  );
}

function seatOptions(part, facts, actions) {
  const { options = [], event, starts_at: startsAt, event_id: eventId } = part.data;
  if (!options.length) return h("p", { class: "note" }, t("no_options"));
  const isNewest = facts.newestOptions === part.call;
  return h(
    "section",
    { class: "card options-card", "aria-label": t("options") },
    eventHead(event, startsAt),
    h(
      "ol",
      { class: "options" },
      options.map((one, index) => option(one, index, isNewest, facts, actions)),
    ),
    isNewest && button(t("seat_map"), () => openSeatMap(eventId, event, actions), "quiet small"),
  );
}

function holdCard(part, facts, actions) {
  const { hold_id: id, event, starts_at: startsAt, seats, total_brl: amount } = part.data;
  const fact = facts.hold(id);
  const until = fact.until ?? part.data.expires_at;
  const card = h("section", { class: "card ticket hold-card", "data-hold": id });
  const fill = () => {
    const state = fact.state === "active" && isPast(until) ? "expired" : fact.state;
    card.dataset.state = state;
    card.setAttribute("aria-label", t(state === "active" ? "held" : `hold_${state}`));
    const buttons = h(
      "div",
      { class: "card-actions" },
      button(t("buy"), () => actions.say(t("ask_buy")), "small"),
      button(t("release"), () => actions.say(t("ask_release")), "quiet small"),
    );
    const isOffered = facts.newestHold === part.call && !fact.until && !part.undo;
    card.replaceChildren(
      h(
        "div",
        { class: "ticket-head" },
        h("span", { class: "ticket-label" }, t(state === "active" ? "held" : `hold_${state}`)),
        state === "active" &&
          h("span", { class: "ticket-clock" }, h("span", { class: "visually-hidden" }, t("held_until")), countdown(until, fill)),
      ),
      ...eventHead(event, startsAt).filter(Boolean),
      seatList(seats),
      total(amount),
      ...(state === "active" && isOffered ? [buttons] : []),
    );
  };
  fill();
  return card;
}

function orderCard(part) {
  const { order_id: id, event, starts_at: startsAt, seats, total_brl: amount, status } = part.data;
  const refunds = (part.data.refunds ?? []).filter((one) => one.status === "refunded");
  return h(
    "section",
    { class: "card ticket order-card", "data-order": id, "aria-label": t("order") },
    h(
      "div",
      { class: "ticket-head" },
      h("span", { class: "ticket-label" }, t("order")),
      h("span", { class: status === "paid" ? "badge good" : "badge warn" }, t(`order_${status}`)),
    ),
    eventHead(event, startsAt),
    seatList(seats),
    total(amount),
    refunds.map((one) => h("p", { class: "note" }, t("refunded_amount", { amount: asMoney(one.amount_brl) }))),
    h("p", { class: "order-number" }, `${t("order_number")}: `, h("code", {}, id)),
  );
}

function refundCard(part) {
  return h("p", { class: "note good" }, t("refunded_amount", { amount: asMoney(part.data.amount_brl) }));
}

const CARDS = {
  search_events: events,
  search_seats: seatOptions,
  hold_seats: holdCard,
  place_order: orderCard,
  get_order_status: orderCard,
  refund_order: refundCard,
  send_email: (part) => h("p", { class: "note good" }, t("email_queued", { to: part.data.to })),
  create_ticket: () => h("p", { class: "note good" }, t("ticket_opened")),
};
