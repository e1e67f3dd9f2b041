// A call that waits for a human: the fan's own confirmation, or the box office's word.

import { countdown, isPast } from "./clock.js";
import { seatNames } from "./cards.js";
import { h, button } from "./dom.js";
import { asDate, asMoney, has, t } from "./format.js";

export function approvalCard(part, facts, actions) {
  const { approval } = part;
  // The order card says it all.
  if (approval.gate === "fan" && part.state === "succeeded") return null;
  const card = h("section", { class: "card approval", "data-approval": approval.id });
  const fill = () => {
    const isPending = approval.state === "pending" && !isPast(approval.expires_at);
    card.dataset.state = isPending ? "pending" : approval.state;
    card.dataset.gate = approval.gate;
    card.replaceChildren(...(isPending ? pending(part, fill, actions) : decided(part)));
  };
  fill();
  return card;
}

function amountOf(preview) {
  const paid = preview?.after?.paid_brl;
  return typeof paid === "number" ? paid : null;
}

function pending(part, fill, actions) {
  const { approval } = part;
  const isFan = approval.gate === "fan";
  const title = isFan
    ? t(actions.isOwner ? "confirm_title" : "waiting_fan")
    : t("waiting_reviewer");
  return [
    h(
      "div",
      { class: "ticket-head" },
      h("h4", { class: "card-title" }, title),
      h("span", { class: "ticket-clock" }, h("span", {}, `${t("expires_in")} `), countdown(approval.expires_at, fill)),
    ),
    ...described(part),
    !isFan && h("p", { class: "note" }, t("waiting_reviewer_text")),
    actions.isOwner ? decisions(part, fill, actions) : null,
  ].filter(Boolean);
}

function described(part) {
  const { approval } = part;
  const { preview } = approval;
  const summary = preview?.summary ?? t(has(`${part.tool}.doing`) ? `${part.tool}.doing` : "other.doing", { tool: part.tool });
  const after = preview?.after ?? {};
  const amount = approval.gate === "fan" ? amountOf(preview) : null;
  return [
    h("p", { class: "approval-summary" }, summary),
    after.starts_at && h("p", { class: "card-when" }, asDate(after.starts_at)),
    Array.isArray(after.seats) && h("ul", { class: "seats" }, seatNames(after.seats).map((name) => h("li", {}, name))),
    amount !== null && h("p", { class: "total" }, h("span", {}, t("total")), h("strong", {}, asMoney(amount))),
    (preview?.warnings ?? []).map((warning) => h("p", { class: "note bad" }, warning)),
    h("p", { class: "note" }, preview?.undo ? preview.undo : t("irreversible")),
    h(
      "details",
      { class: "exact" },
      h("summary", {}, t("exact_call")),
      h("pre", { tabindex: "0" }, `${part.tool}\n${JSON.stringify(approval.arguments, null, 2)}`),
    ),
  ].flat().filter(Boolean);
}

function decisions(part, fill, actions) {
  const { approval } = part;
  if (approval.isSent) return h("p", { class: "note", role: "status" }, t("sent_decision"));
  const decide = (verb) => () => {
    if (!actions.decide(verb, approval.id)) return;
    approval.isSent = true;
    fill();
  };
  if (approval.gate !== "fan") {
    return h("div", { class: "card-actions" }, button(t("withdraw"), decide("withdraw"), "secondary small"));
  }
  const amount = amountOf(approval.preview);
  const yes = amount === null ? t("confirm") : t("confirm_pay", { amount: asMoney(amount) });
  return h(
    "div",
    { class: "card-actions" },
    button(yes, decide("confirm")),
    button(t("decline"), decide("decline"), "secondary"),
  );
}

function decided(part) {
  const { approval } = part;
  const state = approval.state === "pending" ? "expired" : approval.state;
  const name = `state_${state}`;
  const word = has(name) ? t(name) : t(`${name}_${approval.gate}`);
  const isGood = state === "approved" || state === "executed";
  return [
    h(
      "p",
      { class: "approval-outcome" },
      h("span", { class: `badge ${isGood ? "good" : "warn"}` }, word),
      h("span", {}, approval.preview?.summary ?? ""),
    ),
    approval.note ? h("p", { class: "note" }, `${t("reason")}: ${approval.note}`) : null,
  ].filter(Boolean);
}
