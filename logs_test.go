// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util/flags"
)

// TestVerbosityIsBounded checks every way to raise the verbosity. test/secrets checks that nothing secret is written at the bound.
func TestVerbosityIsBounded(t *testing.T) {
	o, _ := parse(t, "-v=10", "--vmodule=request=9,reconciler=3")
	boundVerbosity(o.logs)
	if got := logsv1.VModuleConfigurationPflag(&o.logs.VModule).String(); o.logs.Verbosity != maxVerbosity || got != "request=7,reconciler=3" {
		t.Errorf("-v=%d --vmodule=%s", o.logs.Verbosity, got)
	}
	o, _ = parse(t, "-v=4")
	if boundVerbosity(o.logs); o.logs.Verbosity != 4 {
		t.Errorf("-v=%d, want 4", o.logs.Verbosity)
	}

	_, metrics, err := flags.GetManagerOptions(flags.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.managerOptions(*metrics)
	t.Cleanup(func() { put(t, metrics.ExtraHandlers[verbosityPath], "0") })
	for _, level := range []string{"8", "10", "+10", "4294967295", "2147483648", " 10", "10\n"} {
		if put(t, metrics.ExtraHandlers[verbosityPath], level); klog.V(maxVerbosity + 1).Enabled() {
			t.Errorf("PUT %q sets a verbosity above %d", level, maxVerbosity)
		}
	}
	if put(t, metrics.ExtraHandlers[verbosityPath], "5"); !klog.V(5).Enabled() || klog.V(6).Enabled() {
		t.Error("PUT 5 does not set 5")
	}
	for path := range metrics.ExtraHandlers {
		if path != verbosityPath && !strings.HasPrefix(path, "/debug/pprof/") {
			t.Errorf("the diagnostics endpoint serves %s: can it raise the verbosity?", path)
		}
	}
}

func put(t *testing.T, handler http.Handler, level string) {
	t.Helper()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, verbosityPath, strings.NewReader(level)))
}
