// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is the result of a health check.
type State string

// The states, in the words of Flux. Argo CD calls them Progressing, Healthy and Degraded.
const (
	InProgress State = "InProgress"
	Current    State = "Current"
	Failed     State = "Failed"
)

// expected are the conditions that the checks wait for, by kind: the status that each must have.
var expected = map[string]map[string]string{
	"PortalControlPlane": {"Available": "True", "VersionUpToDate": "True", "WorkersReady": "True"},
	"MachineDeployment":  {"Available": "True", "RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False"},
	"Cluster":            {"Available": "True", "RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False"},
}

// Check judges an object of one of the kinds as the checks do: a change has arrived when the conditions say so for the present generation,
// and core has passed a topology on. A person has to act if one of them has one of the given reasons.
func Check(o *unstructured.Unstructured, reasons []string) State {
	if seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && seen != o.GetGeneration() {
		return InProgress
	}
	current := conditions(o)
	for kind, c := range current {
		if _, waited := expected[o.GetKind()][kind]; (waited || kind == "Deleting") && slices.Contains(reasons, c.reason) {
			return Failed
		}
	}
	for kind, status := range expected[o.GetKind()] {
		if current[kind].status != status {
			return InProgress
		}
	}
	if topology, found := current["TopologyReconciled"]; found && topology.status != "True" || o.GetDeletionTimestamp() != nil {
		return InProgress
	}
	return Current
}

// condition is what Check reads of a condition.
type condition struct{ status, reason string }

// conditions returns the conditions by type. Those of an earlier generation say nothing.
func conditions(o *unstructured.Unstructured) map[string]condition {
	current := map[string]condition{}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range all {
		c, _ := item.(map[string]any)
		said := condition{fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])}
		if fmt.Sprint(c["observedGeneration"]) != fmt.Sprint(o.GetGeneration()) {
			said = condition{}
		}
		current[fmt.Sprint(c["type"])] = said
	}
	return current
}

// Conditions are the types of the conditions that the checks name, and words are the tools' own words in them.
var (
	Conditions = []string{"Available", "VersionUpToDate", "WorkersReady", "Deleting", "RollingOut", "ScalingUp", "ScalingDown", "TopologyReconciled"}
	words      = []string{"True", "False", "Healthy", "Progressing", "Degraded"}
	quoted     = regexp.MustCompile(`['"]([A-Z]\w+)['"]`)
)

// Reasons returns the reasons for which the checks for Flux fail.
func (p Pages) Reasons() []string { return reasonsIn(p.flux) }

// reasonsIn returns the reasons that a check names: all quoted names that are nothing else.
func reasonsIn(check string) (reasons []string) {
	for _, name := range quoted.FindAllStringSubmatch(check, -1) {
		if !slices.Contains(Conditions, name[1]) && !slices.Contains(words, name[1]) {
			reasons = append(reasons, name[1])
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
