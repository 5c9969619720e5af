// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GenerateCluster returns the objects that the real clusterctl renders from the release's template. The arguments are additional flags of
// clusterctl generate cluster, such as the Kubernetes version and the number of workers.
func (s *Sandbox) GenerateCluster(ctx context.Context, cluster client.ObjectKey, arguments ...string) ([]*unstructured.Unstructured, error) {
	arguments = append([]string{
		"generate", "cluster", cluster.Name, "--target-namespace", cluster.Namespace,
		"--from", s.File("templates", "cluster-template.yaml"),
	}, arguments...)
	command := exec.CommandContext(ctx, s.Binary("clusterctl"), arguments...)
	command.Env = append(os.Environ(), s.Environment()...)
	var problems bytes.Buffer
	command.Stderr = &problems
	manifests, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("clusterctl generate cluster: %w\n%s", err, problems.Bytes())
	}
	return Parse(manifests)
}

// WorkloadKubeconfig returns the kubeconfig that the provider stored for a Cluster.
func (s *Sandbox) WorkloadKubeconfig(ctx context.Context, cluster client.ObjectKey) ([]byte, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := s.Client.Get(ctx, key, secret); err != nil {
		return nil, err
	}
	return secret.Data["value"], nil
}
