// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page/picture"
)

// workloadTimeout is how long the picture waits for a workload cluster. During an upgrade the API server restarts, and the picture shows no
// drains until it answers again.
const workloadTimeout = time.Second

// startPage serves the page with the picture of the sandbox.
func (s *Sandbox) startPage(ctx context.Context) error {
	if s.options.PageAddress == "" || s.Portal == nil {
		return nil
	}
	reader := &pictureReader{Sandbox: s, workloads: map[string]client.Reader{}}
	var err error
	s.page, err = page.Listen(ctx, s.options.PageAddress, page.Options{
		Portal: s.Portal, Title: "Sandbox of the portal provider", Kubernetes: reader.read, Act: s.act, Step: s.step.Load,
	})
	if err == nil {
		s.PageURL = s.page.URL
	}
	return err
}

// pictureReader reads the picture's objects from Kubernetes.
type pictureReader struct {
	*Sandbox
	mu        sync.Mutex
	workloads map[string]client.Reader // by the portal's id of the cluster
}

// read lists the Clusters with their objects, Machines and Nodes.
func (r *pictureReader) read(ctx context.Context) (page.Kubernetes, error) {
	if r.options.WithoutCore {
		return page.Kubernetes{}, nil
	}
	known, err := picture.Read(ctx, r.Client, r.offered())
	known.Nodes = r.nodes(ctx)
	return known, err
}

// nodes returns the Nodes of the workload clusters. It ignores a cluster whose API server does not answer.
func (r *pictureReader) nodes(ctx context.Context) (out []page.Node) {
	for _, c := range r.Portal.Clusters() {
		reader := r.workload(ctx, c)
		if reader == nil {
			continue
		}
		nodes := &corev1.NodeList{}
		if err := reader.List(ctx, nodes); err != nil {
			continue
		}
		for _, n := range nodes.Items {
			ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			out = append(out, page.Node{ClusterID: c.ID, Name: n.Name, State: nodeState(&n), Ready: ready})
		}
	}
	return out
}

// nodeState returns the drain state of a Node, or "" if the Node accepts Pods.
func nodeState(n *corev1.Node) page.NodeState {
	switch {
	case n.Annotations[infrav1.DrainedAnnotation] != "":
		return page.NodeDrained
	case n.Annotations[infrav1.DrainStartedAnnotation] != "":
		return page.NodeDraining
	case n.Spec.Unschedulable:
		return page.NodeCordoned
	}
	return ""
}

// workload returns a client of a workload cluster, or nil if the cluster has no API server.
func (r *pictureReader) workload(ctx context.Context, c emulator.Cluster) client.Reader {
	if r.Sandbox.workloads == nil || c.State == emulator.ClusterDeleting {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.workloads[c.ID]; known != nil {
		return known
	}
	kubeconfig, err := r.Sandbox.workloads.Kubeconfig(ctx, c.ID)
	if err != nil {
		return nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil
	}
	config.Timeout = workloadTimeout
	reader, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil
	}
	r.workloads[c.ID] = reader
	return reader
}

// act runs the command of an action as a user of the sandbox would, and returns its output.
func (s *Sandbox) act(ctx context.Context, command string) (string, error) {
	shell := exec.CommandContext(ctx, "sh", "-c", command)
	shell.Env = append(os.Environ(), s.Environment()...)
	shell.Env = append(shell.Env, "PATH="+filepath.Dir(s.Kubectl())+string(filepath.ListSeparator)+os.Getenv("PATH"))
	output, err := shell.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("%s: %s", err, cmp.Or(text, "no output"))
	}
	return text, nil
}
