// SPDX-License-Identifier: Apache-2.0

// Checks a page for the needs of a screen reader and of people with weak eyes. The value of this script is a list of problems.
(() => {
  const problems = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (element) => element.checkVisibility();
  const describe = (element) => `<${element.localName}${element.id ? ` id=${element.id}` : ""}> ${element.textContent.trim().slice(0, 40)}`;

  // Names.
  const named = (element) => {
    const by = element.getAttribute("aria-labelledby");
    const label = by ? by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("") : element.getAttribute("aria-label");
    return (label ?? [...(element.labels ?? [])].map((l) => l.textContent).join("") ?? "").trim() || (element.matches("button, a") ? element.textContent.trim() : "");
  };
  for (const element of all("button, a, input, textarea, progress, meter, section, article, [role]").filter(seen)) {
    if (!named(element) && element.getAttribute("role") !== "status") problems.push(`no name: ${describe(element)}`);
  }
  for (const element of all("fieldset").filter(seen)) {
    if (!element.querySelector("legend")?.textContent.trim()) problems.push(`no legend: ${describe(element)}`);
  }
  for (const element of all("[aria-labelledby]")) {
    for (const id of element.getAttribute("aria-labelledby").split(" ")) {
      if (!document.getElementById(id)) problems.push(`aria-labelledby names ${id}, which does not exist: ${describe(element)}`);
    }
  }

  // Structure.
  if (!document.documentElement.lang) problems.push("the page has no language");
  if (!document.title) problems.push("the page has no title");
  for (const [selector, count] of [["h1", 1], ["main", 1], ["header", 1], ["[role=log][aria-live=polite]", 1], ["table thead th[scope=col]", 3]]) {
    if (all(selector).length !== count) problems.push(`${all(selector).length} elements ${selector}, want ${count}`);
  }
  const ids = all("[id]").map((element) => element.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push(`id ${id} is there twice`);
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5").filter(seen)) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) problems.push(`a heading of level ${next} after level ${level}: ${describe(heading)}`);
    level = next;
  }
  for (const list of all("ul, ol")) {
    if ([...list.children].some((child) => child.localName !== "li")) problems.push(`a list with other children: ${describe(list)}`);
  }
  for (const drawing of all("svg")) if (drawing.getAttribute("aria-hidden") !== "true") problems.push("a drawing that is read aloud");
  for (const element of all("[tabindex]")) if (element.tabIndex > 0) problems.push(`an order of its own: ${describe(element)}`);

  // Contrast, as WCAG defines it: 4.5 for text, 3 for other elements with a meaning.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (rgba(color)[3] === 255) return color;
    }
    return "white";
  };
  const luminance = (color) => {
    const [r, g, b] = [...rgba(color)].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const check = (element, color, least) => {
    const got = contrast(color, ground(element));
    if (got < least) problems.push(`contrast ${got.toFixed(2)} below ${least}: ${describe(element)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (text.data.trim() && seen(element) && !element.closest(":disabled, script, style")) check(element, getComputedStyle(element).color, 4.5);
  }
  for (const box of all(".box, #jobs li").filter(seen)) check(box.parentElement, getComputedStyle(box).borderLeftColor, 3);
  for (const line of all(".stage .lines path")) check(line.closest(".stage"), getComputedStyle(line).stroke, 3);
  for (const line of all(".line, .request")) check(line.closest("section"), getComputedStyle(line).stroke, 3);
  for (const mark of all(".drain, .replaced, rect.job")) check(mark.closest("section"), getComputedStyle(mark).fill, 3);
  for (const rank of all("summary").filter(seen)) check(rank, getComputedStyle(rank).borderLeftColor, 3);
  for (const control of all("button, textarea, fieldset, input[type=search]").filter(seen)) check(control.parentElement, getComputedStyle(control).borderTopColor, 3);
  return problems;
})();
