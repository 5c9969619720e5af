// SPDX-License-Identifier: Apache-2.0

// Package patches changes upstream's specs so that they work with a control plane that is not a KubeadmControlPlane.
//
// An edit names the text at which it begins and the text before which it ends, so it contains no code of upstream. An edit whose text is
// not found is an error, which means that upstream has changed and the edit needs a review.
package patches

import (
	"fmt"
	"strings"
)

// A Patch changes one file.
type Patch struct {
	File   string // in upstream's module
	Reason string
	Edits  []Edit
}

// An Edit replaces the text from From up to, but not including, To.
type Edit struct {
	After    string // The search starts after this text. If it is empty, it starts at the beginning of the file.
	From, To string // To is searched after From. If To is empty, only From is replaced.
	With     string
	All      bool // replace all occurrences, not only the first
}

const (
	noMachines  = "A managed control plane has no Machines, so there is nothing to look at."
	noTemplate  = "A managed control plane has no template of Machines, so it has no metadata of theirs."
	nextWorkers = "for _, md := range machineDeployments {"
	eventually  = "Eventually(func(g Gomega) {"
	modifyCP    = "modifyControlPlaneViaClusterAndWait(ctx,"
	modifyMD    = "modifyMachineDeploymentViaClusterAndWait(ctx,"
)

// All has the patches, one for each file.
var All = []Patch{{
	File:   "framework/cluster_topology_helpers.go",
	Reason: "Waits for the Machines of the control plane to have the new version. " + noMachines + " The Machines of MachineDeployments are waited for, and they follow the control plane.",
	Edits:  []Edit{{From: "WaitForControlPlaneMachinesToBeUpgraded(ctx,", To: "workloadCluster := input.ClusterProxy"}},
}, {
	File:   "e2e/quick_start.go",
	Reason: "Expects a Machine, also of a cluster without workers. " + noMachines + " With workers nothing changes.",
	Edits: []Edit{
		{From: "framework.VerifyMachinesReady(ctx,", With: "if *workerMachineCount > 0 { framework.VerifyMachinesReady(ctx,"},
		{From: `By("PASSED!")`, With: `}; By("PASSED!")`},
	},
}, {
	File:   "e2e/machine_pool.go",
	Reason: "Expects a Machine after the pool was scaled to zero. " + noMachines,
	Edits:  []Edit{{From: `Byf("Verify Machines Ready condition is true")`, To: `By("PASSED!")`}},
}, {
	File:   "e2e/scale.go",
	Reason: "Reads a KubeadmControlPlane. The input has no field for other waiters of the control plane, so they wait for nothing: workers that have nodes are waited for next.",
	Edits: []Edit{
		{From: `err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster.Spec.ControlPlaneRef.Name}`, To: "machineDeployments := &clusterv1.MachineDeploymentList{}"},
		{
			After: "creator := getClusterCreateAndWaitFn(", From: "WaitForClusterIntervals:",
			With: `ControlPlaneWaiters: clusterctl.ControlPlaneWaiters{
	WaitForControlPlaneInitialized: func(context.Context, clusterctl.ApplyCustomClusterTemplateAndWaitInput, *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {},
	WaitForControlPlaneMachinesReady: func(context.Context, clusterctl.ApplyCustomClusterTemplateAndWaitInput, *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {},
},
WaitForClusterIntervals:`,
		},
	},
}, {
	File: "e2e/clusterclass_changes.go",
	Reason: "Copies the template of the control plane's Machines, and compares its metadata. " + noTemplate +
		" It copies templates to another namespace as often as classes name them. Here MachineDeployments and MachinePools share one.",
	Edits: []Edit{
		{From: "Expect(cl.Create(ctx, templateObject)).To(Succeed())", With: "Expect(client.IgnoreAlreadyExists(cl.Create(ctx, templateObject))).To(Succeed())"},
		{From: "cloneTemplateAndUpdateRef(ctx, mgmtClient, &newClusterClass.Spec.ControlPlane.MachineInfrastructure.TemplateRef", To: "cloneTemplateAndUpdateRef(ctx, mgmtClient, &newClusterClass.Spec.ControlPlane.TemplateRef"},
		{From: "assertControlPlaneTopologyFields(g, contractVersion, controlPlane, controlPlaneTopology)", With: "_ = controlPlaneTopology"},
	},
}, {
	File:   "e2e/node_drain.go",
	Reason: "Scales the control plane down and watches its Machines drain, beside those of the MachineDeployment. " + noMachines,
	Edits: []Edit{
		{After: `for ControlPlanes to 1s to unblock Node drain")`, From: modifyCP, To: `By("Verify scale down succeeded`},
		{From: modifyCP, To: modifyMD, All: true},
		{From: "var drainingCPMachineKey client.ObjectKey", To: "drainingMDMachineKeys := "},
		{After: "drainingMDNodeNames := map", From: eventually, To: nextWorkers},
		{From: "DrainedCPMachineKey:   drainingCPMachineKey,", All: true},
		{From: "skippedCPPods := ", To: nextWorkers},
		{From: "waitCPPods := ", To: nextWorkers},
		{After: `are blocked by WaitCompleted Pods")`, From: eventually, To: nextWorkers},
		{After: `are blocked by PDBs")`, From: eventually, To: nextWorkers},
		{After: `(only by volume detachments)")`, From: eventually, To: "for _, machineKey := range drainingMDMachineKeys {"},
		{From: `Byf("Verify Machines Ready condition is true")`, To: `By("PASSED!")`},
		{From: "g.Expect(controlPlaneMachines).To(HaveLen(1))", With: "g.Expect(controlPlaneMachines).To(BeEmpty())"},
		{From: "var evictedCPPod *corev1.Pod", To: "evictedMDPods := map"},
		{After: "Unblock deletion of evicted Pods by removing the finalizer", From: eventually, To: "for _, md := range input.MachineDeployments {"},
	},
}}

// Apply returns the text with the patch's edits.
func (p Patch) Apply(text string) (string, error) {
	for i, edit := range p.Edits {
		var err error
		if text, err = edit.apply(text); err != nil {
			return "", fmt.Errorf("%s: edit %d: %w", p.File, i+1, err)
		}
	}
	return text, nil
}

func (e Edit) apply(text string) (string, error) {
	at := strings.Index(text, e.After)
	if at < 0 {
		return "", fmt.Errorf("upstream's text no longer has %q", e.After)
	}
	at += len(e.After)
	for done := 0; ; done++ {
		begin := strings.Index(text[at:], e.From)
		if begin < 0 && done > 0 {
			return text, nil
		}
		if begin < 0 {
			return "", fmt.Errorf("upstream's text no longer has %q", e.From)
		}
		begin += at
		end := begin + len(e.From)
		if e.To != "" {
			length := strings.Index(text[end:], e.To)
			if length < 0 && done > 0 {
				return text, nil
			}
			if length < 0 {
				return "", fmt.Errorf("upstream's text no longer has %q behind %q", e.To, e.From)
			}
			end += length
		}
		text = text[:begin] + e.With + text[end:]
		if at = begin + len(e.With); !e.All {
			return text, nil
		}
	}
}
