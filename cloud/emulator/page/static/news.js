// SPDX-License-Identifier: Apache-2.0

// What has changed since the last state, in sentences, for people who do not see the picture and for those who looked away. Of a fleet without a
// portal, it is what the events of the last hour say. The newest comes first.

import { currentTime } from "./clock.js";
import { byID, el } from "./dom.js";

const kept = 50; // sentences on the page
const atOnce = 8; // sentences of one change; a screen reader speaks each of them

let before;

export function showNews(state) {
  const sentences = before && !state.fleet ? news(before, state) : []; // a fleet tells by its events
  before = state;
  const more = sentences.length - atOnce;
  if (more > 0) sentences.splice(atOnce, more, `${more} more changes`);
  prepend(sentences.map((sentence) => [currentTime(), sentence]));
}

// addNews adds what the events of a fleet say.
export function addNews(moments) {
  if (before?.fleet) prepend(moments.filter(({ kind }) => words.has(kind)).map(({ time, cluster, text }) => [Date.parse(time), `${cluster}: ${text}`]));
}

const words = new Set(["request", "drain", "replaced", "warning"]); // the moments whose text is a sentence

function prepend(sentences) {
  const list = byID("news");
  const clock = (time) => new Date(time).toLocaleTimeString(undefined, { hour12: false });
  list.prepend(...sentences.slice(-kept).map(([time, sentence]) => el("li", {}, el("time", {}, clock(time)), ` ${sentence}`)).reverse());
  while (list.children.length > kept) list.lastElementChild.remove();
}

// forgetEvents makes room for the events of a fleet, which a new connection sends again.
export function forgetEvents() {
  if (before?.fleet) clearNews();
}

export function clearNews() {
  before = undefined;
  byID("news").replaceChildren();
}

function news(old, now) {
  return [
    ...differences(old.clusters, now.clusters, (cluster) => cluster.id, clusterNews),
    ...differences(nodes(old), nodes(now), (node) => `${node.cluster} ${node.name}`, nodeNews),
    ...differences(old.machines, now.machines, (machine) => `${machine.clusterId} ${machine.name}`, machineNews),
    ...differences(old.jobs, now.jobs, (job) => job.id, jobNews),
    ...differences(old.faults, now.faults, ({ fault }) => fault.id, faultNews),
  ];
}

// Names are unique within a cluster.
const nodes = (state) => state.clusters.flatMap((cluster) => cluster.nodes.map((node) => ({ ...node, cluster: cluster.id })));

// differences asks for a sentence about each item that came, went or stayed. An empty one is left out.
function differences(old, now, keyOf, sentence) {
  const were = new Map(old.map((item) => [keyOf(item), item]));
  const are = new Map(now.map((item) => [keyOf(item), item]));
  const keys = new Set([...were.keys(), ...are.keys()]);
  return [...keys].map((key) => sentence(were.get(key), are.get(key))).filter(Boolean);
}

function clusterNews(old, now) {
  if (!now) return `Cluster ${old.name} is gone.`;
  if (!old) return `Cluster ${now.name} is new: ${now.state}.`;
  if (old.state !== now.state) return `Cluster ${now.name} is ${now.state}.`;
  return "";
}

function nodeNews(old, now) {
  if (!now) return `Node ${old.name} is gone.`;
  if (old?.state === now.state) return "";
  const words = {
    joining: "is being made", up: "is up", leaving: "is being removed", gone: "lost its machine",
    cordoned: "is cordoned", draining: "is being drained", drained: "is drained",
  };
  return `Node ${now.name} ${words[now.state] ?? now.state}.`;
}

function machineNews(old, now) {
  if (!now) return `Machine ${old.name} is gone.`;
  if (old?.state === now.state && old?.node === now.node) return "";
  const words = {
    waiting: "waits for a node", joining: `claims node ${now.node}`, running: `runs on node ${now.node}`,
    takeover: `takes over node ${now.node} from ${now.from}`, held: "is being deleted", draining: "is being drained",
    drained: "is drained", released: "gave its node back",
  };
  return `Machine ${now.name} ${words[now.state] ?? now.state}.`;
}

function jobNews(old, now) {
  if (!now || old?.status === now.status) return ""; // a job that is no longer listed is only older
  return `Job ${now.kind} ${now.cluster ?? ""}: ${now.status}.`;
}

function faultNews(old, now) {
  if (!now) return `Fault ${old.fault.id} is removed.`;
  return old ? "" : `Fault ${now.fault.id} is armed.`;
}
