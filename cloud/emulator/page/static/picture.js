// SPDX-License-Identifier: Apache-2.0

// The picture: each cluster with its nodes, the Machines beside them, and a line from each Machine to the node that it claims.

import { byID, el, keyed, say, svg } from "./dom.js";
import { arrange, choose } from "./fleet.js";
import { makeObjects, updateObjects } from "./objects.js";
import { makeTimeline, updateTimeline } from "./timeline.js";

// What a box says below its name. A state is never shown by its color alone.
const machineStates = {
  waiting: "waits for a node",
  joining: "claims its node",
  running: "runs",
  takeover: "takes over",
  held: "is being deleted",
  draining: "is being drained",
  drained: "is drained",
  released: "gave its node back",
};
const nodeStates = {
  up: "up",
  joining: "is being made",
  leaving: "is being removed",
  gone: "machine gone, Node left behind",
  cordoned: "cordoned",
  draining: "is being drained",
  drained: "is drained",
};

// unplaced stands for Machines and Clusters whose cluster the portal does not have.
const unplaced = "unplaced";

// What each cluster's lines connect: [machine, node] in the order of the Machines.
const claims = new Map();

// Lines are drawn again when boxes move, whatever moved them.
const resized = new ResizeObserver((stages) => stages.forEach((stage) => drawLines(stage.target)));

let last; // the state that the page shows

export function prepareClusters() {
  byID("filter").addEventListener("input", () => showClusters(last));
}

export function showClusters(state) {
  last = state;
  byID("legend").classList.toggle("alone", !state.kubernetes);
  const groups = arrange(grouped(state));
  byID("no-clusters").hidden = groups.length > 0;
  say(byID("no-clusters"), state.clusters.length > 0 ? "No cluster fits the filter." : state.fleet ? "There is no such Cluster yet." : "The portal has no cluster yet.");
  keyed(byID("cluster-list"), groups, ({ cluster }) => cluster.id, ({ cluster }) => makeCluster(cluster), (article, group) => updateCluster(article, group, state));
}

// grouped returns each cluster with its Machines and objects. What belongs to no cluster of the portal comes last.
function grouped(state) {
  const groups = new Map(state.clusters.map((cluster) => [cluster.id, { cluster, machines: [], objects: [] }]));
  const rest = { cluster: { id: unplaced, name: "Not at the portal", nodes: [] }, machines: [], objects: [] };
  const group = (item) => groups.get(item.clusterId) ?? groups.set(unplaced, rest).get(unplaced);
  for (const machine of state.machines) group(machine).machines.push(machine);
  for (const object of state.objects) group(object).objects.push(object);
  return [...groups.values()];
}

function makeCluster(cluster) {
  const heading = `heading-${cluster.id}`;
  const summary = el("summary", {}, el("h3", { id: heading }), " ", el("span", { class: "facts" }));
  const details = el("details", {}, summary, el("div", { class: "body" }));
  summary.addEventListener("click", () => choose(cluster.id, !details.open));
  details.addEventListener("toggle", () => showClusters(last));
  return el("article", { class: "cluster", "aria-labelledby": heading }, details);
}

// makeBody makes what only an open cluster shows.
function makeBody(cluster, withMachines) {
  const heading = `heading-${cluster.id}`;
  const lines = svg("svg");
  lines.setAttribute("class", "lines");
  lines.setAttribute("aria-hidden", "true"); // each Machine says in words which node it claims
  const stage = el("div", { class: withMachines ? "stage" : "stage alone" }, lines);
  if (withMachines) stage.append(column("Machines", "machines", heading));
  if (cluster.id !== unplaced) stage.append(column("Nodes", "nodes", heading));
  stage.dataset.cluster = cluster.id;
  resized.observe(stage);
  return [...(cluster.id === unplaced ? [] : [makeTimeline()]), ...(withMachines ? [makeObjects()] : []), stage];
}

function column(title, name, cluster) {
  const heading = `${name}-${cluster}`;
  return el("div", { class: "column" }, el("h4", { id: heading }, title), el("ul", { class: name, "aria-labelledby": heading }));
}

function updateCluster(article, { cluster, machines, objects, rank, open }, state) {
  say(article.querySelector("h3"), cluster.name);
  say(article.querySelector(".facts"), cluster.id === unplaced ? "" : facts(cluster));
  article.dataset.rank = rank;
  const details = article.firstElementChild;
  const body = details.lastElementChild;
  if (details.open !== open) details.open = open;
  if (!open) return body.replaceChildren();
  if (!body.firstElementChild) body.append(...makeBody(cluster, state.kubernetes));
  const timeline = body.querySelector(".timeline");
  if (timeline) updateTimeline(timeline, cluster);
  if (state.kubernetes) updateObjects(body.querySelector(".objects"), objects, state.readOnly);
  updateStage(body.querySelector(".stage"), cluster, machines);
}

function updateStage(stage, cluster, machines) {
  const place = new Map(cluster.nodes.map((node, i) => [node.name, i]));
  const row = (machine) => place.get(machine.node) ?? cluster.nodes.length; // those without a node come last
  const sorted = machines.toSorted((a, b) => row(a) - row(b) || a.name.localeCompare(b.name));
  const machineList = stage.querySelector(".machines");
  const nodeList = stage.querySelector(".nodes");
  if (machineList) keyed(machineList, sorted, (machine) => machine.name, makeBox, updateMachine);
  if (nodeList) keyed(nodeList, cluster.nodes, (node) => node.name, makeBox, updateNode);
  claims.set(cluster.id, sorted.filter((machine) => place.has(machine.node)));
  drawLines(stage);
}

function facts({ state, version, size, ready, wanted }) {
  const wants = wanted === undefined || wanted === size ? "" : `, ${wanted} wanted`;
  return `${state} · ${version} · ${size === 1 ? "1 worker" : `${size} workers`}, ${ready} Ready${wants}`;
}

function makeBox(item) {
  return el("li", { class: "box" }, el("span", { class: "name" }, item.name), el("span", { class: "what" }));
}

function updateMachine(box, machine) {
  box.dataset.state = machine.state;
  let what = machineStates[machine.state] ?? machine.state;
  if (machine.state === "takeover") what += ` node ${machine.node} from ${machine.from}`;
  else if (machine.node) what += ` · node ${machine.node}`;
  say(box.querySelector(".what"), what);
}

function updateNode(box, node) {
  box.dataset.state = node.state;
  const facts = [node.controlPlane ? "control plane" : "worker", nodeStates[node.state] ?? node.state];
  if (node.version) facts.push(node.version);
  say(box.querySelector(".what"), facts.join(" · "));
}

// drawLines connects the boxes of a stage where they are now.
function drawLines(stage) {
  const lines = stage.querySelector(".lines");
  const frame = stage.getBoundingClientRect();
  const boxes = (name) => new Map([...stage.querySelectorAll(`.${name} > .box`)].map((box) => [box.dataset.key, box.getBoundingClientRect()]));
  const machines = boxes("machines");
  const nodes = boxes("nodes");
  const drawn = (claims.get(stage.dataset.cluster) ?? []).filter((machine) => machines.has(machine.name) && nodes.has(machine.node));
  keyed(lines, drawn, (machine) => machine.name, () => svg("path"), (line, machine) => {
    const from = machines.get(machine.name);
    const to = nodes.get(machine.node);
    const x1 = from.right - frame.left, y1 = from.top + from.height / 2 - frame.top;
    const x2 = to.left - frame.left, y2 = to.top + to.height / 2 - frame.top;
    const middle = (x1 + x2) / 2;
    line.setAttribute("d", `M ${x1} ${y1} C ${middle} ${y1}, ${middle} ${y2}, ${x2} ${y2}`);
    line.dataset.node = machine.node;
    line.dataset.state = machine.state;
  });
}
