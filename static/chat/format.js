// Words, money and dates in the page's language and the tenant's time zone.

function block(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

export const config = block("config");
export const firstTimeline = block("timeline");
const strings = block("strings");
const locale = config.language === "en" ? "en" : "pt-BR";

const money = new Intl.NumberFormat(locale, { style: "currency", currency: config.currency });
const when = new Intl.DateTimeFormat(locale, {
  timeZone: config.time_zone,
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

const day = new Intl.DateTimeFormat(locale, {
  timeZone: config.time_zone,
  day: "numeric",
  month: "long",
});

export function t(name, values = {}) {
  const text = strings[name] ?? name;
  return text.replace(/\{(\w+)\}/g, (all, key) => (key in values ? String(values[key]) : all));
}

export function has(name) {
  return name in strings;
}

export function asMoney(amount) {
  return typeof amount === "number" ? money.format(amount) : "";
}

export function asDate(iso) {
  const moment = new Date(iso);
  return Number.isNaN(moment.getTime()) ? "" : when.format(moment);
}

// A day as one says it: "5 de dezembro", "December 5".
export function asDay(iso) {
  const moment = new Date(iso);
  return Number.isNaN(moment.getTime()) ? "" : day.format(moment);
}

// mm:ss, or h:mm:ss for long waits.
export function asClock(milliseconds) {
  const total = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(total / 3600);
  const rest = `${two(Math.floor(total / 60) % 60)}:${two(total % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export function newId() {
  if (globalThis.crypto.randomUUID) return globalThis.crypto.randomUUID();
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
