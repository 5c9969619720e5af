// SPDX-License-Identifier: Apache-2.0

// Faults and the removal order, which a person can change here unless the page is read-only.

import { byID, el, keyed, say } from "./dom.js";
import { change as send } from "./change.js";

const change = (...request) => send(byID("answer"), ...request);

// prepareTrouble makes a button for each fault of faults.json.
export async function prepareTrouble() {
  for (const radio of document.getElementsByName("order")) {
    radio.addEventListener("change", () => change("PUT", "victim-order", JSON.stringify({ victimOrder: radio.value }),
      `Scale-downs now remove ${radio.value} workers first.`));
  }
  byID("arm").addEventListener("click", () => change("POST", "faults", byID("fault").value, "The fault is armed."));
  byID("disarm").addEventListener("click", async () => {
    if (await change("DELETE", "faults", undefined, "All faults are removed.")) byID("armed-heading").focus();
  });
  const presets = await (await fetch("faults.json")).json();
  for (const { label, fault } of presets) {
    const button = el("button", { type: "button" }, label);
    button.addEventListener("click", () => change("POST", "faults", JSON.stringify(fault), `Armed: ${label}`));
    byID("presets").append(el("li", {}, button));
  }
}

export function showTrouble(state) {
  const broken = state.readOnly ? [] : state.clusters.filter((cluster) => cluster.state === "Alert");
  keyed(byID("repairs"), broken, (cluster) => cluster.id, makeRepair, () => {});
  byID("read-only").hidden = !state.readOnly;
  byID("order").disabled = state.readOnly;
  byID("faults").disabled = state.readOnly;
  byID("disarm").hidden = state.readOnly || state.faults.length === 0;
  for (const radio of document.getElementsByName("order")) radio.checked = radio.value === state.victimOrder;
  byID("no-faults").hidden = state.faults.length > 0;
  keyed(byID("armed"), state.faults, ({ fault }) => fault.id, ({ fault }) => makeFault(fault, state.readOnly), (item, { calls, hits, spent }) => {
    say(item.querySelector(".hits"), `affected ${hits} of ${calls} calls${spent ? ", spent" : ""}`);
  });
}

// makeRepair makes the button by which a person does what the portal's operator does for a cluster in Alert.
function makeRepair(cluster) {
  const button = el("button", { type: "button" }, `Repair cluster ${cluster.name}`);
  button.addEventListener("click", async () => {
    const path = `clusters/${encodeURIComponent(cluster.id)}/repair`;
    if (await change("POST", path, undefined, `Cluster ${cluster.name} is repaired.`)) byID("armed-heading").focus();
  });
  return el("li", {}, button);
}

function makeFault(fault, readOnly) {
  const { id, ...what } = fault;
  const item = el("li", {}, el("span", { class: "title" }, id, " "), el("code", {}, JSON.stringify(what)), " ", el("span", { class: "hits" }));
  if (readOnly) return item;
  const button = el("button", { type: "button", "aria-label": `Remove fault ${id}` }, "Remove");
  button.addEventListener("click", async () => {
    if (await change("DELETE", `faults/${encodeURIComponent(id)}`, undefined, `Fault ${id} is removed.`)) byID("armed-heading").focus();
  });
  item.append(" ", button);
  return item;
}
