// SPDX-License-Identifier: Apache-2.0

// The time that the page shows as the present, in milliseconds: the machine's, or the one at which a recording is.

let clock = Date.now;

export const currentTime = () => clock();

export function setClock(other) {
  clock = other;
}
