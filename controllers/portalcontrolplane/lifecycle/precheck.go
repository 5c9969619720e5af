// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const (
	// precheckKey is the backoff key of the look at the workload cluster.
	precheckKey = "precheck"
	// precheckAge is how long its result is used. A request may wait for the rate limit, and a user may remove what was found.
	precheckAge = 2 * time.Minute
)

// precheck looks before an upgrade at what may stop it, and returns what it finds, or "". If the user wants that, the upgrade waits until nothing
// is found.
func precheck(ctx context.Context, p *pass.Pass, op *operation.Operation, look func(context.Context) []string) (string, outcome.Outcome) {
	seen, known := p.Backoff.Recall(precheckKey, op.Target)
	if !known {
		seen = p.Backoff.Remember(precheckKey, op.Target, outcome.WaitFor(precheckAge, "", "%s", strings.Join(look(ctx), "; ")))
	}
	if seen.Message == "" || p.ControlPlane.Spec.UpgradePrecheck != infrav1.UpgradePrecheckHold {
		return seen.Message, outcome.Outcome{}
	}
	return seen.Message, outcome.StallFor(seen.RequeueAfter, infrav1.UpgradeHeldReason, "the %s is held, because this may stop it: %s. Correct it, or set "+
		"spec.upgradePrecheck to Warn", op, seen.Message)
}
