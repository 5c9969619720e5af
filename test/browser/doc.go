// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of the emulator and of the sandbox in a real browser, over the DevTools protocol: what the page
// shows, what a click does, what the keyboard reaches, and what a screen reader needs. It is a module of its own, because nobody who
// uses the provider needs a browser.
//
// make test-browser runs it. The tests start the commands of bin/ as a user would, and need a Chromium: Debian's package chromium, or
// what the variable BROWSER names. Without a browser they are skipped. With SCREENSHOTS=directory TestSandbox writes the pictures of
// docs/images.
package browser
