// SPDX-License-Identifier: Apache-2.0

// The timeline of a cluster: its numbers of workers as step lines, below them its jobs as bars, and drains, replaced Machines and changing
// requests as marks. Faults are shaded. It shows the last minutes, or all since the cluster's first moment if that is less.

import { currentTime } from "./clock.js";
import { keyed, svg } from "./dom.js";

const shortest = 30_000; // milliseconds that a timeline shows at least
let longest = 5 * 60_000; // and at most
const top = 8, plot = 70, jobRow = 90, markRow = 106, axis = 124, height = 128; // from above, in pixels
const left = 22, right = 8;
const lines = ["ready", "size", "wanted"]; // the last is drawn on top
const shapes = { request: (x) => `M ${x} ${top} V ${plot + 4}`, drain: (x) => mark(x, "h 9 l -4.5 8 z"), replaced: (x) => mark(x, "m 4.5 -1 l 5 5 l -5 5 l -5 -5 z"), warning: (x) => mark(x, "m 4.5 -1 l 5 9 h -10 z") };
const mark = (x, shape) => `M ${x - 4.5} ${markRow - 4} ${shape}`;

// tracks have what is known of each cluster, by its id. Faults are of all clusters.
const tracks = new Map();
const shown = new Map(); // the cluster of each timeline on the page

const track = (id) => tracks.get(id) ?? tracks.set(id, { points: [], marks: [], spans: new Map() }).get(id);

// showMinutes sets how much of the past a timeline shows.
export function showMinutes(minutes = 5) {
  longest = minutes * 60_000;
}

export function clearTimelines() {
  tracks.clear();
}

export function addMoments(moments) {
  for (const { time: text, cluster, kind, id, text: title, workers } of moments) {
    const { points, marks, spans } = track(cluster ?? "");
    const time = Date.parse(text);
    if (kind === "workers") points.push({ ...workers, time });
    else if (kind === "job" || kind === "fault") spans.set(`${kind}-${id}-${time}`, { kind, id, title, begin: time, end: Infinity, state: "running" });
    else if (kind.endsWith("-end")) endSpan(spans, id, time, title);
    else marks.push({ kind, time, title, key: `${kind}-${time}-${title}` });
  }
  drawTimelines();
}

function endSpan(spans, id, end, state) {
  for (const span of spans.values()) if (span.id === id && span.end === Infinity) Object.assign(span, { end, state });
}

const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => draw(target)));

export function makeTimeline() {
  const drawing = svg("svg");
  drawing.setAttribute("class", "timeline");
  drawing.setAttribute("height", height);
  drawing.setAttribute("aria-hidden", "true"); // what happens is told in words, and the numbers are beside the name
  resized.observe(drawing);
  return drawing;
}

export function updateTimeline(drawing, cluster) {
  shown.set(drawing, cluster);
  draw(drawing);
}

// drawTimelines draws the timelines again, because time passes or because something happened.
export function drawTimelines() {
  for (const drawing of shown.keys()) {
    if (drawing.isConnected) draw(drawing);
    else shown.delete(drawing);
  }
}

function draw(drawing) {
  const cluster = shown.get(drawing);
  const width = drawing.clientWidth;
  if (!cluster || !width) return;
  const now = currentTime();
  const { points, marks, spans } = track(cluster.id);
  const begin = Math.max(now - longest, Math.min(now - shortest, points[0]?.time ?? now, ...[...spans.values()].map((span) => span.begin)));
  forget(track(cluster.id), begin);
  forget(track(""), now - longest);
  const x = (time) => Math.round(10 * (left + ((Math.max(time, begin) - begin) / (now - begin)) * (width - left - right))) / 10;
  const most = Math.max(1, cluster.size, cluster.wanted ?? 0, ...points.map((point) => Math.max(point.size, point.ready, point.wanted ?? 0)));
  const y = (count) => plot - (count / most) * (plot - top);
  const all = [
    text("most", most, left - 6, top + 4, "end"), text("none", 0, left - 6, plot + 4, "end"), text("now", "now", width - right, axis, "end"),
    text("begin", ago(now - begin), left, axis, "start"), { key: "ground", tag: "path", attributes: { class: "ground", d: `M ${left} ${plot} H ${width - right}` } },
    ...[...track("").spans.values()].filter((span) => span.end > begin).map((span) => area(span, x, now, top, plot - top)),
    ...[...spans.values()].map((span) => area(span, x, now, jobRow - 5, 8)),
    ...marks.map(({ kind, time, title, key }) => ({ key, tag: "path", title, attributes: { class: kind, d: shapes[kind](x(time)) } })),
    ...lines.map((name, i) => ({ key: name, tag: "path", title: names[name], attributes: { class: `line ${name}`, d: steps(points, cluster, name, begin, x, (n) => y(n) + 2 * (1 - i)) } })),
  ];
  keyed(drawing, all, (shape) => shape.key, makeShape, updateShape);
}

const names = { ready: "Ready nodes", size: "size at the portal", wanted: "wanted replicas" };

// forget drops what is older than the timeline shows, but for the numbers of workers at its beginning.
function forget({ points, marks, spans }, begin) {
  while (points[1]?.time <= begin) points.shift();
  while (marks[0]?.time < begin) marks.shift();
  for (const [key, span] of spans) if (span.end < begin) spans.delete(key);
}

// steps is the line of one number of workers. It has a gap where the number is not known.
function steps(points, cluster, name, begin, x, y) {
  let path = "", known = false;
  for (const point of points.length > 0 ? points : [{ ...cluster, time: begin }]) {
    if (known) path += ` H ${x(point.time)}`;
    const value = point[name];
    if (value !== undefined) path += known ? ` V ${y(value)}` : ` M ${x(point.time)} ${y(value)}`;
    known = value !== undefined;
  }
  return known ? `${path} H ${x(currentTime())}` : path || "M 0 0";
}

function area({ kind, id, title, begin, end, state }, x, now, top, height) {
  const from = x(begin);
  return {
    key: `${kind}-${id}-${begin}`, tag: "rect", title: kind === "job" ? `${title}: ${state}` : title,
    attributes: { class: kind, "data-state": state ?? "", x: from, y: top, width: Math.max(2, x(Math.min(end, now)) - from), height },
  };
}

const text = (key, content, x, y, anchor) => ({ key, tag: "text", content: String(content), attributes: { x, y, "text-anchor": anchor } });

const ago = (milliseconds) => (milliseconds < 90_000 ? `${Math.round(milliseconds / 1000)} s ago` : `${Math.round(milliseconds / 60_000)} min ago`);

function makeShape({ tag, title }) {
  const shape = svg(tag);
  if (title) shape.append(svg("title"));
  return shape;
}

function updateShape(shape, { title, content, attributes }) {
  for (const [name, value] of Object.entries(attributes)) if (shape.getAttribute(name) !== String(value)) shape.setAttribute(name, value);
  if (title && shape.firstElementChild.textContent !== title) shape.firstElementChild.textContent = title;
  if (content && shape.textContent !== content) shape.textContent = content;
}

setInterval(drawTimelines, 1000);
