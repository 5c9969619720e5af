// SPDX-License-Identifier: Apache-2.0

// A recording in place of a portal's stream of events. It begins to play when it is loaded, unless its viewer prefers reduced motion.
// To the page, a jump in the recording is a new connection: it gets the state and the log, as from the server.

import { byID, el, say } from "./dom.js";
import { setClock } from "./clock.js";
import { clearNews } from "./news.js";

const step = 100; // milliseconds between two looks at what is due
const speeds = [1, 2, 4, 8];

export class Recording extends EventTarget {
  title = "Recording"; // what the page says in place of "Live"
  events = []; // all of them, as the file has them
  shown = 0; // how many of them the page has got
  position = 0; // in milliseconds
  playing = false;

  constructor(file) {
    super();
    this.load(file).catch((error) => say(byID("connection"), `The recording cannot be loaded: ${error.message}`));
  }

  async load(file) {
    const response = await fetch(file);
    if (!response.ok) throw new Error(response.statusText);
    const text = await new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).text();
    const [about, ...events] = text.trim().split("\n").map((line) => JSON.parse(line));
    this.events = events;
    this.end = events.at(-1).at;
    setClock(() => Date.parse(about.begin) + this.position);
    document.title = `Recording of ${about.name}`;
    byID("read-only").textContent = "A recording cannot be changed.";
    document.querySelector("header").after(this.makePlayer(about));
    this.jump(0);
    this.play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
    let last = performance.now();
    setInterval(() => {
      const passed = performance.now() - last;
      last += passed;
      if (this.playing) this.advance(passed * this.speed.value);
    }, step);
  }

  makePlayer(about) {
    this.button = el("button", { type: "button" });
    this.speed = el("select", { id: "speed" }, ...speeds.map((speed) => el("option", { value: speed }, `${speed}×`)));
    this.slider = el("input", { id: "position", type: "range", min: 0, max: Math.ceil(this.end / 1000), step: 1 });
    this.button.addEventListener("click", () => this.play(!this.playing));
    this.slider.addEventListener("input", () => this.jump(this.slider.value * 1000));
    return el("section", { id: "player", "aria-labelledby": "player-heading" },
      el("h2", { id: "player-heading" }, `Recording of ${about.name}`),
      el("p", { class: "quiet" }, `All that is shown here happened in an earlier run, of ${about.version} with seed ${about.seed}. Nothing of it runs now.`),
      el("div", {}, this.button, el("label", {}, "Speed ", this.speed),
        el("label", { class: "position" }, "Position ", this.slider), el("span", { id: "shown" })));
  }

  // play plays or pauses. At the end, the recording begins again.
  play(playing) {
    if (playing && this.position >= this.end) this.jump(0);
    this.playing = playing;
    say(this.button, playing ? "Pause" : "Play");
  }

  // advance shows everything that happened in the next milliseconds.
  advance(milliseconds) {
    this.position = Math.min(this.position + milliseconds, this.end);
    for (; this.events[this.shown]?.at <= this.position; this.shown++) this.send(this.events[this.shown]);
    this.showPosition();
    if (this.position === this.end) this.play(false);
  }

  // jump shows the page as it was at a position. What led to it is no news.
  jump(position) {
    this.position = Math.min(Math.max(position, this.events[0].at), this.end);
    const past = this.events.filter((event) => event.at <= this.position);
    this.shown = past.length;
    clearNews();
    this.onopen?.();
    const all = new Map(); // by the kind of event: a state replaces the one before, and every other event adds to a list
    for (const { event, data } of past) all.set(event, event === "state" ? data : [...(all.get(event) ?? []), ...data]);
    for (const [event, data] of all) this.send({ event, data });
    this.showPosition();
  }

  send({ event, data }) {
    if (event === "state") data = { ...data, readOnly: true };
    this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data) }));
  }

  showPosition() {
    const text = `${inMinutes(this.position)} of ${inMinutes(this.end)}`;
    this.slider.value = this.position / 1000;
    this.slider.setAttribute("aria-valuetext", text);
    say(byID("shown"), text);
  }
}

function inMinutes(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
