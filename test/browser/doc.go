// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of the emulator and of the sandbox, and its recording, in a real browser, over the DevTools protocol: the
// content of the page, the effect of clicks, the reach of the keyboard, and the needs of a screen reader. It is a module of its own, so that
// users of the provider do not depend on a browser driver.
//
// make test-browser runs it. The tests start the commands of bin/ as a user would. They need a Chromium: Debian's package chromium, or the
// browser in the variable BROWSER. Without a browser they are skipped. With SCREENSHOTS=directory TestSandbox writes the pictures of
// docs/images.
package browser
