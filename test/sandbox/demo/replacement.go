// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// holders maps each Node to the Machine that holds it. A Node is identified by name and UID, so a deleted Node that was created again
// counts as another Node.
type holders map[infrav1.BoundNode]string

// replacement is a step that replaces Machines while their Nodes stay, without a request to the portal.
type replacement struct {
	*demo
	before holders
	logged int // length of the portal's request log before the step
}

// of returns a function that records the state before the step, and then calls act, which replaces Machines.
func (r *replacement) of(act func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var err error
		if r.before, err = r.holders(ctx); err != nil {
			return err
		}
		r.logged = len(r.Portal.RequestLog())
		return act(ctx)
	}
}

// missing returns a function that describes what is missing until that many Machines are replaced and no change is in progress.
func (r *replacement) missing(count int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		machines, err := r.machines(ctx)
		if err != nil {
			return "", err
		}
		replaced, old := 0, slices.Collect(maps.Values(r.before))
		for _, machine := range machines {
			if !slices.Contains(old, machine.Name) && machine.Spec.Version == r.to && isTrue(machine.GetConditions(), "UpToDate") {
				replaced++
			}
		}
		missing, err := r.missingWorkers(len(r.before))(ctx)
		if missing == "" && replaced != count {
			missing = "all is at rest"
		}
		if missing == "" || err != nil {
			return "", err
		}
		return fmt.Sprintf("Machines replaced: %d of %d; %s", replaced, count, missing), nil
	}
}

// judge prints which Machine took over from which. It returns an error if a Node was lost or the portal received a request.
func (r *replacement) judge(ctx context.Context) error {
	after, err := r.holders(ctx)
	if err != nil {
		return err
	}
	for _, node := range slices.SortedFunc(maps.Keys(after), func(a, b infrav1.BoundNode) int { return strings.Compare(a.Name, b.Name) }) {
		change := "stays with Machine " + after[node]
		if r.before[node] != after[node] {
			change = fmt.Sprintf("Machine %s → %s", r.before[node], after[node])
		}
		indent(r.out, fmt.Sprintf("Node %s: %s", node.Name, change))
	}
	if err := undisturbed(r.before, after, r.Portal.RequestLog()[r.logged:]); err != nil {
		return err
	}
	indent(r.out, "The Nodes are the same, and the portal was asked to change nothing")
	return nil
}

// kubeconfigRoute is excepted, because the provider reads the kubeconfig after an upgrade, possibly after the next replacement has
// begun.
const kubeconfigRoute = "/kubernetes-clusters/{cluster_id}/config"

// undisturbed returns an error if Nodes were lost or the portal received requests while Machines were replaced.
func undisturbed(before, after holders, entries []emulator.LogEntry) error {
	var problems []error
	for node, machine := range before {
		if _, stays := after[node]; !stays {
			problems = append(problems, fmt.Errorf("Node %s, which Machine %s held, is gone", node.Name, machine)) //nolint:staticcheck // a kind's name
		}
	}
	for _, entry := range entries {
		if entry.IsRequest() && entry.Route != kubeconfigRoute {
			problems = append(problems, fmt.Errorf("the portal was asked although nothing was to change there: %s", entry))
		}
	}
	return errors.Join(problems...)
}

// holders returns the Machine that holds each Node. A Machine and its PortalMachine have the same name.
func (d *demo) holders(ctx context.Context) (holders, error) {
	list := &infrav1.PortalMachineList{}
	if err := d.Client.List(ctx, list, client.InNamespace(d.Identity.Namespace)); err != nil {
		return nil, err
	}
	all := holders{}
	for _, claim := range list.Items {
		if claim.Spec.Node != nil && claim.DeletionTimestamp.IsZero() {
			all[*claim.Spec.Node] = claim.Name
		}
	}
	return all, nil
}
