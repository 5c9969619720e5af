// SPDX-License-Identifier: Apache-2.0

// How the page asks its server for a change.

import { say } from "./dom.js";

// change sends a change, says what became of it, and reports whether it was made. The header keeps other pages from sending one.
export async function change(answer, method, path, body, done) {
  try {
    const response = await fetch(path, { method, body, headers: { "X-Portal-Page": "1", "Content-Type": "application/json" } });
    if (!response.ok) throw new Error((await response.text()).trim());
    say(answer, done);
    return true;
  } catch (error) {
    say(answer, `Not done: ${error.message}`);
    return false;
  }
}
