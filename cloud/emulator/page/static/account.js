// SPDX-License-Identifier: Apache-2.0

// The portal's jobs with their progress, and how many requests each account has left.

import { byID, el, keyed, say } from "./dom.js";

const ended = ["succeeded", "failed"];

export function showJobs(jobs) {
  byID("no-jobs").hidden = jobs.length > 0;
  keyed(byID("jobs"), jobs, (job) => job.id, makeJob, (item, job) => {
    const name = job.cluster ? `${job.kind} ${job.cluster}` : job.kind;
    item.dataset.state = job.status;
    say(item.querySelector(".title"), `${name}: ${job.status}, ${job.seconds} s`);
    const bar = item.querySelector("progress");
    if (job.percent === undefined) bar.removeAttribute("value"); // it is not known how far the job is
    else bar.value = job.percent;
    bar.hidden = ended.includes(job.status);
    bar.setAttribute("aria-label", name);
  });
}

function makeJob() {
  return el("li", {}, el("span", { class: "title" }), el("progress", { max: 100 }));
}

export function showBudgets(budgets) {
  byID("no-budgets").hidden = budgets.length > 0;
  keyed(byID("budgets"), budgets, (budget) => budget.account, () => el("li", {}, el("span", { class: "title" }), el("meter")), (item, budget) => {
    const name = budget.account || "callers without an account";
    say(item.querySelector(".title"), `${name}: ${budget.remaining} of ${budget.burst} requests left, ${budget.perMinute} a minute come back`);
    const meter = item.querySelector("meter");
    meter.setAttribute("aria-label", `Requests left for ${name}`);
    meter.max = budget.burst;
    meter.low = budget.burst / 4;
    meter.optimum = budget.burst;
    meter.value = budget.remaining;
  });
}
