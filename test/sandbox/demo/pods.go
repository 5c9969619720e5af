// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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
	return d.evicted.watch(ctx, kubeconfig)
}

// evictions are the Pods that were evicted. One that is only killed, with its node, is not among them.
type evictions struct {
	mu   sync.Mutex
	pods map[types.UID]bool
}

// watch counts until the context ends.
func (e *evictions) watch(ctx context.Context, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	workload, err := cache.New(config, cache.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	informer, err := workload.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) { e.look(o) }, DeleteFunc: e.look}); err != nil {
		return err
	}
	go func() { _ = workload.Start(ctx) }() // it ends without an error when the context ends
	return nil
}

// look counts a Pod once if the API server has accepted its eviction.
func (e *evictions) look(o any) {
	if last, deleted := o.(toolscache.DeletedFinalStateUnknown); deleted {
		o = last.Obj
	}
	pod, _ := o.(*corev1.Pod)
	if pod == nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == evictedByAPI
	}) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil {
		e.pods = map[types.UID]bool{}
	}
	e.pods[pod.UID] = true
}

func (e *evictions) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pods)
}

// evictedByAPI is the reason that an API server gives to the condition DisruptionTarget of a Pod that it evicts.
const evictedByAPI = "EvictionByEvictionAPI"

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

// killed returns how many nodes scale-downs have removed, how many Pods were lost with nodes, and an error for each node that still took Pods, or
// had some.
func killed(entries []emulator.LogEntry) (removed, lost int, problems []error) {
	for _, entry := range entries {
		if entry.Removal == nil || entry.Removal.By != emulator.JobScaleCluster {
			continue
		}
		removed++
		lost += len(entry.Removal.Pods)
		if !entry.Removal.Cordoned || len(entry.Removal.Pods) > 0 {
			problems = append(problems, fmt.Errorf("the portal removed node %s, which was not drained: %s", entry.ID, entry.Removal))
		}
	}
	return removed, lost, problems
}
