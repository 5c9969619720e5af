// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/logs"
)

// maxVerbosity is the highest verbosity of the logs. From 8 on, client-go writes the bodies of requests and answers, and with
// them passwords, kubeconfigs and tokens.
const maxVerbosity = 7

// verbosityPath is where the diagnostics endpoint changes the verbosity of a running manager.
const verbosityPath = "/debug/flags/v"

// boundVerbosity lowers every verbosity that the flags ask for to maxVerbosity.
func boundVerbosity(o *logs.Options) {
	o.Verbosity = min(o.Verbosity, maxVerbosity)
	for i := range o.VModule {
		o.VModule[i].Verbosity = min(o.VModule[i].Verbosity, maxVerbosity)
	}
}

// boundDiagnostics makes the diagnostics endpoint set a verbosity of maxVerbosity at most.
func boundDiagnostics(handlers map[string]http.Handler) {
	if _, served := handlers[verbosityPath]; served {
		handlers[verbosityPath] = routes.StringFlagPutHandler(setVerbosity)
	}
}

func setVerbosity(value string) (string, error) {
	if wanted, err := strconv.ParseUint(value, 10, 32); err == nil && wanted > maxVerbosity {
		value = strconv.Itoa(maxVerbosity)
	}
	return logs.GlogSetter(value)
}
