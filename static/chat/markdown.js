// A small, safe part of Markdown: paragraphs, line breaks, lists, bold, italics, code.
// What it does not know stays as it was written.

import { h } from "./dom.js";

const INLINE = /(\*\*[^*\n]+\*\*|__[^_\n]+__|`[^`\n]+`|(?<![\w*])\*[^*\s][^*\n]*\*(?![\w*]))/g;
const BULLET = /^\s*[-*•]\s+(.*)$/;
const NUMBER = /^\s*(\d{1,3})[.)]\s+(.*)$/;
const HEADING = /^\s*#{1,6}\s+(.*)$/;

function inline(text) {
  return text.split(INLINE).map((piece) => {
    if (/^(\*\*|__).+\1$/.test(piece)) return h("strong", {}, piece.slice(2, -2));
    if (/^`.+`$/.test(piece)) return h("code", {}, piece.slice(1, -1));
    if (/^\*[^*].*\*$/.test(piece)) return h("em", {}, piece.slice(1, -1));
    return piece;
  });
}

function listItem(line) {
  const bullet = BULLET.exec(line);
  if (bullet) return { kind: "ul", text: bullet[1] };
  const number = NUMBER.exec(line);
  return number ? { kind: "ol", start: number[1], text: number[2] } : null;
}

export function markdown(text) {
  const blocks = [];
  let paragraph = null;
  let list = null;
  for (const line of text.split("\n")) {
    const item = listItem(line);
    const heading = HEADING.exec(line);
    if (item) {
      paragraph = null;
      if (!list || list.localName !== item.kind) {
        list = h(item.kind, item.start && item.start !== "1" ? { start: item.start } : {});
        blocks.push(list);
      }
      list.append(h("li", {}, inline(item.text)));
    } else if (!line.trim()) {
      paragraph = null;
    } else if (heading) {
      paragraph = list = null;
      blocks.push(h("p", {}, h("strong", {}, inline(heading[1]))));
    } else if (list && /^\s{2,}\S/.test(line)) {
      list.lastElementChild.append(h("br"), ...inline(line.trim()));
    } else {
      list = null;
      if (paragraph) paragraph.append(h("br"));
      else blocks.push((paragraph = h("p")));
      paragraph.append(...inline(line));
    }
  }
  return blocks;
}
