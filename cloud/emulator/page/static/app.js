// SPDX-License-Identifier: Apache-2.0

// The page's beginning: it follows the portal's stream of events, or a recording, and hands what arrives to the parts of the page.

import { byID, say } from "./dom.js";
import { prepareClusters, showClusters } from "./picture.js";
import { addMoments, clearTimelines, showMinutes } from "./timeline.js";
import { showTally } from "./tally.js";
import { showBudgets, showJobs } from "./account.js";
import { prepareTrouble, showTrouble } from "./trouble.js";
import { clearLog, prepareLog, showLog } from "./log.js";
import { addNews, forgetEvents, showNews } from "./news.js";
import { Recording } from "./recording.js";

// How long the page waits before it connects again after the server refused the stream, in milliseconds.
const pause = 5000;

const recording = document.querySelector("meta[name=recording]")?.content;

function show(state) {
  say(byID("title"), state.title);
  if (!recording) document.title = state.title; // a recording has a title of its own
  for (const part of document.querySelectorAll(".portal-only")) part.hidden = Boolean(state.fleet);
  for (const part of document.querySelectorAll(".fleet-only")) part.hidden = !state.fleet;
  showMinutes(state.minutes);
  showTally(state);
  say(byID("problem"), state.problem ?? "");
  byID("problem").hidden = !state.problem;
  showClusters(state);
  showJobs(state.jobs);
  showBudgets(state.budgets);
  showTrouble(state);
  showNews(state);
}

function follow() {
  const events = recording ? new Recording(recording) : new EventSource("events");
  const connection = byID("connection");
  events.onopen = () => {
    clearLog(); // the stream sends the end of the log again, and the history
    clearTimelines();
    forgetEvents();
    say(connection, events.title ?? "Live");
    connection.className = "live";
  };
  events.onerror = () => {
    say(connection, "No connection. Is the program still running?");
    connection.className = "lost";
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, pause); // else the browser connects again
  };
  events.addEventListener("state", (event) => show(JSON.parse(event.data)));
  events.addEventListener("log", (event) => showLog(JSON.parse(event.data)));
  events.addEventListener("history", (event) => {
    const moments = JSON.parse(event.data);
    addMoments(moments);
    addNews(moments);
  });
}

prepareClusters();
prepareLog();
prepareTrouble();
follow();
