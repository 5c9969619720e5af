// SPDX-License-Identifier: Apache-2.0

// What the portal was asked until now, in large figures, and the step of a demonstration.

import { byID, el, keyed, say } from "./dom.js";

export function showTally(state) {
  const { creates, scales, upgrades, deletes, others, reads, refused, podsLost } = state.tally;
  const figures = [
    [creates, "create"], [scales, "scale"], [upgrades, "upgrade"], [deletes, "delete"], [others, "other change"], [reads, "read"],
    [refused, "refused request"],
  ].filter(([count, name]) => count > 0 || name !== "other change").map(([count, name]) => [count, count === 1 ? name : `${name}s`, name]);
  if (state.kubernetes) figures.push([podsLost, "Pods lost", "lost"]);
  keyed(byID("tally"), figures, ([, , key]) => key, makeFigure, (item, [count, label, key]) => {
    say(item.firstElementChild, String(count));
    say(item.lastElementChild, label);
    item.classList.toggle("bad", count > 0 && (key === "lost" || key === "refused request"));
  });
  showStep(state.step);
}

function makeFigure() {
  return el("li", {}, el("span", { class: "figure" }), " ", el("span"));
}

function showStep(step) {
  byID("step").hidden = !step;
  if (!step) return;
  say(byID("step-name"), `${step.number} of ${step.of}: ${step.name}`);
  byID("steps").max = step.of;
  byID("steps").value = step.number;
}
