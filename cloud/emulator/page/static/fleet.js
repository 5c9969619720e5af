// SPDX-License-Identifier: Apache-2.0

// How many clusters stay readable: in a fleet, those with problems come first, settled ones are one line each, and a filter selects some.

import { byID, say } from "./dom.js";

const few = 3; // clusters that are no fleet: all are open, in the portal's order
const opened = 10; // clusters of a fleet that are open before anybody opens one
const ranks = ["problem", "changing", "settled"];
const steady = new Set(["up", "running"]);

// What people opened and closed, by the cluster's id.
const choices = new Map();

export const choose = (id, open) => choices.set(id, open);

// arrange sorts and selects groups of a cluster with its Machines and objects, and says which of them are open.
export function arrange(groups) {
  for (const group of groups) group.rank = rank(group);
  const fleet = groups.length > few;
  byID("fleet").hidden = !fleet;
  if (fleet) {
    const count = (name) => groups.filter((group) => group.rank === name).length;
    say(byID("fleet-counts"), `${groups.length} clusters: ${count("problem")} with a problem, ${count("changing")} changing, ${count("settled")} settled`);
    const words = byID("filter").value.toLowerCase().split(/\s+/);
    groups = groups.filter((group) => words.every((word) => text(group).includes(word)))
      .sort((a, b) => ranks.indexOf(a.rank) - ranks.indexOf(b.rank));
  }
  groups.forEach((group, i) => {
    group.open = choices.get(group.cluster.id) ?? (!fleet || (group.rank !== "settled" && i < opened));
  });
  return groups;
}

function text({ cluster, objects, rank }) {
  return [cluster.name, cluster.state, cluster.version, rank, ...objects.map((object) => object.name)].join(" ").toLowerCase();
}

function rank({ cluster, machines, objects }) {
  const conditions = objects.flatMap((object) => object.conditions);
  if (cluster.state === "Failed" || conditions.some((condition) => condition.problem)) return "problem";
  const calm = cluster.state === "Running" && (cluster.wanted ?? cluster.size) === cluster.size
    && [...cluster.nodes, ...machines].every((item) => steady.has(item.state)) && conditions.every((condition) => condition.status === "True");
  return calm ? "settled" : "changing";
}
