// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	pods      = 12
	podsOwner = "shop"
)

// runPods runs Pods in the workload cluster, of which a few may be away at a time. The commands are those of a user.
func (d *demo) runPods(ctx context.Context) error {
	kubeconfig, err := d.WorkloadKubeconfig(ctx, d.key())
	if err != nil {
		return err
	}
	file := filepath.Join(d.Dir, clusterName+".kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"create", "deployment", podsOwner, "--image", "pause", "--replicas", fmt.Sprint(pods)},
		{"create", "poddisruptionbudget", podsOwner, "--selector", "app=" + podsOwner, "--max-unavailable", "25%"},
	} {
		output, err := d.command(ctx, d.Kubectl(), append(arguments, "--kubeconfig", file)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", arguments[1], err, output)
		}
		indent(d.out, string(output))
	}
	return nil
}

// missingPods describes how many Pods are not Ready yet.
func (d *demo) missingPods(ctx context.Context) (string, error) {
	kubeconfig, err := d.WorkloadKubeconfig(ctx, d.key())
	if err != nil {
		return "", err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return "", err
	}
	workload, err := client.New(config, client.Options{})
	if err != nil {
		return "", err
	}
	deployment := &appsv1.Deployment{}
	if err := workload.Get(ctx, client.ObjectKey{Namespace: "default", Name: podsOwner}, deployment); err != nil {
		return "", err
	}
	if deployment.Status.ReadyReplicas == pods {
		return "", nil
	}
	return fmt.Sprintf("%d of %d Pods Ready", deployment.Status.ReadyReplicas, pods), nil
}

// killed returns how many nodes scale-downs have removed, and an error for each that still took Pods, or had some.
func killed(entries []emulator.LogEntry) (removed int, problems []error) {
	for _, entry := range entries {
		if entry.Removal == nil || entry.Removal.By != emulator.JobScaleCluster {
			continue
		}
		removed++
		if !entry.Removal.Cordoned || len(entry.Removal.Pods) > 0 {
			problems = append(problems, fmt.Errorf("the portal removed node %s, which was not drained: %s", entry.ID, entry.Removal))
		}
	}
	return removed, problems
}
