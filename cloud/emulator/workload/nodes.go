// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"

	// kubeletLabel marks the Nodes whose kubelet kwok plays. Taking it away is the end of their heartbeats.
	kubeletLabel      = "kwok.x-k8s.io/node"
	kubeletLabelValue = "fake"

	// readyInterval is the pause between two looks at Nodes that are to become Ready.
	readyInterval = 100 * time.Millisecond
)

// applyNodes removes the machines that are not wanted, then registers or changes those that are. It returns what it
// removed, also with an error.
func (c *cluster) applyNodes(ctx context.Context, want []emulator.Node) ([]emulator.Removal, error) {
	existing, err := c.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var removed []emulator.Removal
	wanted := map[string]emulator.Node{}
	for _, node := range want {
		wanted[node.Name] = node
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		node := existing[name]
		if machineID(node) == wanted[name].ID {
			continue
		}
		seen, err := c.removeMachine(ctx, node, c.destroy)
		removed = append(removed, seen...)
		if err != nil {
			return removed, err
		}
		delete(existing, name)
	}
	for _, node := range want {
		found := existing[node.Name]
		if node.Gone && found != nil && hasKubelet(found) {
			seen, err := c.removeMachine(ctx, found, c.stopHeartbeats)
			removed = append(removed, seen...)
			if err != nil {
				return removed, err
			}
			continue
		}
		if err := c.applyNode(ctx, node, found); err != nil {
			return removed, fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return removed, nil
}

func (c *cluster) applyNode(ctx context.Context, want emulator.Node, existing *corev1.Node) error {
	switch {
	case want.Gone, want.Stopped:
		return nil
	case existing != nil:
		return c.update(ctx, want, existing)
	case c.nodeObjectDeleted(want):
		return nil
	default:
		return c.register(ctx, want)
	}
}

// nodeObjectDeleted reports whether a user has deleted the Node object of a running machine. Its kubelet registers again
// only when it starts.
func (c *cluster) nodeObjectDeleted(want emulator.Node) bool {
	return c.registered[want.ID] == want.Version
}

// register creates the Node object as a kubelet does, with its status. Kwok makes it Ready.
func (c *cluster) register(ctx context.Context, want emulator.Node) error {
	c.addresses++
	address := fmt.Sprintf("10.0.%d.%d", c.addresses/250, c.addresses%250+4)
	if _, err := c.client.CoreV1().Nodes().Create(ctx, newNode(want, address, c.controlMarks), metav1.CreateOptions{}); err != nil {
		return err
	}
	c.registered[want.ID] = want.Version
	return nil
}

// update changes what the machine decides about its Node, and leaves alone what users decide.
func (c *cluster) update(ctx context.Context, want emulator.Node, existing *corev1.Node) error {
	spec, status := map[string]any{}, map[string]any{}
	if !hasKubelet(existing) {
		spec["metadata"] = map[string]any{"labels": map[string]string{kubeletLabel: kubeletLabelValue}}
	}
	if existing.Spec.ProviderID == "" && want.ProviderID != "" {
		spec["spec"] = map[string]string{"providerID": want.ProviderID}
	}
	if existing.Status.NodeInfo.KubeletVersion != want.Version {
		status["status"] = map[string]any{"nodeInfo": map[string]string{"kubeletVersion": want.Version}}
	}
	if err := c.patch(ctx, want.Name, spec); err != nil {
		return err
	}
	if err := c.patch(ctx, want.Name, status, "status"); err != nil {
		return err
	}
	c.registered[want.ID] = want.Version
	return nil
}

// hasKubelet reports whether a kubelet is played for the Node.
func hasKubelet(node *corev1.Node) bool { return node.Labels[kubeletLabel] != "" }

// stopHeartbeats ends the heartbeats of a Node and nothing else.
func (c *cluster) stopHeartbeats(ctx context.Context, existing *corev1.Node) error {
	return c.setHeartbeats(ctx, existing.Name, false)
}

func (c *cluster) setHeartbeats(ctx context.Context, node string, beat bool) error {
	var kubelet any
	if beat {
		kubelet = kubeletLabelValue
	}
	return c.patch(ctx, node, map[string]any{"metadata": map[string]any{"labels": map[string]any{kubeletLabel: kubelet}}})
}

// destroy removes a machine: its Node first, so that nothing is scheduled to it any more, then its Pods.
func (c *cluster) destroy(ctx context.Context, node *corev1.Node) error {
	if err := c.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(c.registered, machineID(node))
	pods, err := c.podsOn(ctx, node.Name)
	if err != nil {
		return err
	}
	var failed []error
	for _, pod := range pods {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (c *cluster) patch(ctx context.Context, name string, change map[string]any, subresources ...string) error {
	if len(change) == 0 {
		return nil
	}
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}

// awaitReady returns when every wanted machine that runs and has a Node is Ready.
func (c *cluster) awaitReady(ctx context.Context, want []emulator.Node) error {
	for {
		existing, err := c.nodes(ctx)
		if err != nil {
			return err
		}
		var missing []string
		for _, node := range want {
			if found := existing[node.Name]; !node.Gone && !node.Stopped && found != nil && !ready(found) {
				missing = append(missing, node.Name)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-time.After(readyInterval):
		case <-ctx.Done():
			return fmt.Errorf("nodes that are not Ready: %s: %w", strings.Join(missing, ", "), context.Cause(ctx))
		}
	}
}

func (c *cluster) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}

// machineID is the portal's id of the machine that registered the Node.
func machineID(node *corev1.Node) string { return node.Status.NodeInfo.MachineID }

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

func newNode(want emulator.Node, address string, marks emulator.ControlMarks) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: want.Name,
			Labels: map[string]string{
				corev1.LabelHostname:   want.Name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				kubeletLabel:           kubeletLabelValue,
			},
		},
		Spec: corev1.NodeSpec{ProviderID: want.ProviderID},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeHostName, Address: want.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID:               want.ID,
				SystemUUID:              want.ID,
				KubeletVersion:          want.Version,
				OperatingSystem:         "linux",
				Architecture:            "amd64",
				OSImage:                 "emulated machine",
				ContainerRuntimeVersion: "kwok://0.8.0",
			},
		},
	}
	if want.ControlPlane && marks != emulator.MarkedTaint && marks != emulator.MarkedNone {
		node.Labels[controlPlaneLabel] = ""
	}
	if want.ControlPlane && marks != emulator.MarkedLabel && marks != emulator.MarkedNone {
		node.Spec.Taints = []corev1.Taint{{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}
