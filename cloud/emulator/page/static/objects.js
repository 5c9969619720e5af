// SPDX-License-Identifier: Apache-2.0

// What Kubernetes says of a cluster, and what a person can do to it with one command.

import { byID, el, keyed, say } from "./dom.js";
import { change } from "./change.js";

export function makeObjects() {
  return el("div", { class: "objects" }, el("ul", { class: "conditions" }), el("ul", { class: "actions" }));
}

export function updateObjects(element, objects, readOnly) {
  const conditions = objects.flatMap((object) => object.conditions);
  keyed(element.querySelector(".conditions"), conditions, (c) => `${c.object} ${c.type}`, makeCondition, updateCondition);
  const actions = readOnly ? [] : objects.flatMap((object) => object.actions.map((action) => ({ ...action, key: `${object.name} ${action.label}` })));
  keyed(element.querySelector(".actions"), actions, (action) => action.key, makeAction, (item, action) => say(item.querySelector("code"), action.command));
}

function makeCondition() {
  return el("li", {}, el("span", { class: "object" }), " ", el("strong"), " ", el("a", { target: "_blank", rel: "noreferrer" }), el("span", { class: "message" }));
}

function updateCondition(item, condition) {
  const good = condition.status === "True";
  item.dataset.state = good ? "up" : condition.problem ? "failed" : "held";
  say(item.querySelector(".object"), condition.object);
  say(item.querySelector("strong"), `${condition.type}: ${condition.status}`);
  const link = item.querySelector("a");
  link.hidden = good || !condition.link;
  if (condition.link) link.href = condition.link;
  say(link, condition.reason);
  const reason = condition.link ? "" : condition.reason; // core's reasons are not explained there
  say(item.querySelector(".message"), good ? "" : [reason, condition.message].join(": "));
}

function makeAction({ label }) {
  const command = el("code");
  const button = el("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    const line = command.textContent; // as it is when the person clicks
    button.disabled = true;
    await change(byID("acted"), "POST", "actions", JSON.stringify({ label, command: line }), `Done: ${line}`);
    button.disabled = false;
    button.focus();
  });
  return el("li", {}, button, " ", command);
}
