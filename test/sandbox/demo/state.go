// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// missingWorkers returns a function that describes what is missing until the Cluster, its Machines and the portal agree on that many
// workers. Each worker at the portal must be the Node of one Ready Machine.
func (d *demo) missingWorkers(count int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		machines, err := d.machines(ctx)
		if err != nil {
			return "", err
		}
		var held []string
		for _, machine := range machines {
			if machine.DeletionTimestamp.IsZero() && machine.Status.NodeRef.IsDefined() && isTrue(machine.GetConditions(), "Ready") {
				held = append(held, machine.Status.NodeRef.Name)
			}
		}
		slices.Sort(held)
		if run := d.portalWorkers(); len(machines) == count && len(run) == count && slices.Equal(held, run) {
			return d.unavailable(ctx)
		}
		said, err := d.said(ctx)
		return fmt.Sprintf("%s, %d Ready with a Node; %s", counted(len(machines), "Machine"), len(held), said), err
	}
}

// missingUpgrade describes what is missing until the control plane and all Nodes run the new version.
func (d *demo) missingUpgrade(ctx context.Context) (string, error) {
	controlPlane := &infrav1.PortalControlPlane{}
	if err := d.Client.Get(ctx, d.key(), controlPlane); err != nil {
		return "", err
	}
	machines, err := d.machines(ctx)
	if err != nil {
		return "", err
	}
	upgraded := 0
	for _, machine := range machines {
		if info := machine.Status.NodeInfo; info != nil && info.KubeletVersion == d.to {
			upgraded++
		}
	}
	if controlPlane.Status.Version == d.to && upgraded == fewerWorkers {
		return d.unavailable(ctx)
	}
	said, err := d.said(ctx)
	return fmt.Sprintf("control plane at %s, %d of %d Nodes at %s; %s", controlPlane.Status.Version, upgraded, fewerWorkers, d.to, said), err
}

// missingRemoval describes what is left of the Cluster.
func (d *demo) missingRemoval(ctx context.Context) (string, error) {
	var left []string
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{},
	} {
		if err := d.Client.List(ctx, list, client.InNamespace(d.Identity.Namespace)); err != nil {
			return "", err
		}
		if count := meta.LenList(list); count > 0 {
			_, kind, _ := strings.Cut(strings.TrimSuffix(fmt.Sprintf("%T", list), "List"), ".")
			left = append(left, counted(count, kind))
		}
	}
	if clusters := d.Portal.Clusters(); len(clusters) > 0 {
		left = append(left, "at the portal a cluster in state "+string(clusters[0].State))
	}
	if len(left) == 0 {
		return "", nil
	}
	return "left: " + strings.Join(left, ", "), nil
}

// unavailable describes why the Cluster is not Available, or still has the message of an upgrade: core copies it from the control plane with
// a delay. It returns "" if the Cluster is Available.
func (d *demo) unavailable(ctx context.Context) (string, error) {
	cluster := &clusterv1.Cluster{}
	if err := d.Client.Get(ctx, d.key(), cluster); err != nil {
		return "", err
	}
	available := meta.FindStatusCondition(cluster.Status.Conditions, "Available")
	if available == nil {
		return "Cluster without condition Available", nil
	}
	switch {
	case available.Status != metav1.ConditionTrue:
	case strings.Contains(available.Message, "ControlPlaneAvailable"):
		return "Cluster is Available: " + oneLine(available.Message), nil
	default:
		return "", nil
	}
	return "Cluster is not Available: " + oneLine(available.Message), nil
}

// said returns the provider's current report: the operation at the portal, or the condition that it waits for.
func (d *demo) said(ctx context.Context) (string, error) {
	controlPlane := &infrav1.PortalControlPlane{}
	if err := d.Client.Get(ctx, d.key(), controlPlane); err != nil {
		return "no PortalControlPlane", client.IgnoreNotFound(err)
	}
	for _, wanted := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{infrav1.OperationInProgressCondition, metav1.ConditionTrue},
		{infrav1.ProvisionedCondition, metav1.ConditionFalse},
		{infrav1.KubeconfigReadyCondition, metav1.ConditionFalse},
		{infrav1.ConnectedCondition, metav1.ConditionFalse},
		{infrav1.VersionUpToDateCondition, metav1.ConditionFalse},
		{infrav1.WorkersReadyCondition, metav1.ConditionFalse},
	} {
		condition := meta.FindStatusCondition(controlPlane.Status.Conditions, wanted.condition)
		if condition != nil && condition.Status == wanted.status {
			return strings.TrimSuffix(condition.Reason+": "+oneLine(condition.Message), ": "), nil
		}
	}
	return "control plane has nothing to report", nil
}

func (d *demo) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	err := d.Client.List(ctx, list, client.InNamespace(d.Identity.Namespace))
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return list.Items, err
}

// portalWorkers returns the sorted names of the workers that the portal runs for the cluster, or none while an operation runs at the
// portal.
func (d *demo) portalWorkers() (names []string) {
	clusters := d.Portal.Clusters()
	if len(clusters) != 1 || clusters[0].State != emulator.ClusterRunning {
		return nil
	}
	for _, node := range clusters[0].Nodes {
		if !node.ControlPlane && !node.Gone {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *demo) key() client.ObjectKey {
	return client.ObjectKey{Namespace: d.Identity.Namespace, Name: clusterName}
}

func isTrue(conditions []metav1.Condition, name string) bool {
	return meta.IsStatusConditionTrue(conditions, name)
}

// counted returns a number of things in words.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// oneLine joins the lines of a condition's message.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
