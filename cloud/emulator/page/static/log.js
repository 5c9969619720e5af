// SPDX-License-Identifier: Apache-2.0

// The log of the portal: requests, and changes of state. The newest entry comes first.

import { byID, el } from "./dom.js";

// How many entries the page keeps.
const kept = 500;

export function prepareLog() {
  const log = byID("log");
  byID("show-changes").addEventListener("change", (event) => log.classList.toggle("without-changes", !event.target.checked));
  byID("hide-looks").addEventListener("change", (event) => log.classList.toggle("without-looks", event.target.checked));
}

export function clearLog() {
  byID("entries").replaceChildren();
}

export function showLog(entries) {
  const rows = byID("entries");
  rows.prepend(...entries.map(row).reverse());
  while (rows.children.length > kept) rows.lastElementChild.remove();
}

function row(entry) {
  const time = new Date(entry.time).toLocaleTimeString(undefined, { hour12: false });
  if (!entry.method) return el("tr", { class: "change" }, cell(time), cell(change(entry)), cell(entry.detail ?? ""));
  const looks = entry.method === "GET" && entry.route === "/jobs/{job_id}";
  const refused = !entry.status || entry.status >= 400;
  const answer = [entry.status || "cut", entry.code, entry.fault && `fault ${entry.fault}`, entry.violation].filter(Boolean).join(" · ");
  return el("tr", { class: `${looks ? "look" : ""} ${refused ? "refused" : ""}` }, cell(time), cell(`${entry.method} ${entry.path}`), cell(answer));
}

const cell = (text) => el("td", {}, text);

function change(entry) {
  const steps = [entry.from, entry.to].filter(Boolean).join(" → ");
  return `${[entry.object, entry.id].filter(Boolean).join(" ")}: ${steps}`;
}
