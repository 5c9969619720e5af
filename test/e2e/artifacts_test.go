// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// explain writes the artifacts of a failed spec to a directory of its own, and the output of clusterctl describe to the log.
func (s *subject) explain() {
	if !s.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Minute)
	defer cancel()
	for _, m := range env.managements() {
		where := ""
		if m == env.away {
			where = "away-"
		}
		s.write(where+"objects.yaml", s.objects(ctx, m))
		s.write(where+"events.txt", s.events(ctx, m))
		clusters := &clusterv1.ClusterList{}
		_ = m.List(ctx, clusters, client.InNamespace(s.namespace)) // on an error, the list is empty
		for _, cluster := range clusters.Items {
			said, err := env.clusterctl.run(ctx, m, nil, "describe", "cluster", cluster.Name, "--namespace", s.namespace, "--show-conditions", "all", "--color=false")
			if err != nil {
				said += err.Error()
			}
			s.Logf("%sCluster %s:\n%s", where, cluster.Name, said)
			s.write(where+"describe-"+cluster.Name+".txt", said)
		}
	}
	entries, err := env.portal.requestLog(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	for _, e := range entries {
		if e.Account == s.account() {
			text += e.Time.Format("15:04:05.000 ") + e.String() + "\n"
		}
	}
	s.write("request-log.txt", text)
}

// objects returns the objects of the namespace as YAML, without Secrets.
func (s *subject) objects(ctx context.Context, m *management) string {
	var all strings.Builder
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{},
	} {
		err := m.List(ctx, list, client.InNamespace(s.namespace))
		content, marshalled := yaml.Marshal(list)
		fmt.Fprintf(&all, "---\n# %T %v %v\n%s", list, err, marshalled, content)
	}
	return all.String()
}

func (s *subject) events(ctx context.Context, m *management) string {
	list := &corev1.EventList{}
	if err := m.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&all, "%s %s %s/%s %s: %s\n", e.CreationTimestamp.Format(time.TimeOnly), e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return all.String()
}

func (s *subject) write(name, content string) {
	dir := filepath.Join(env.artifacts, strings.NewReplacer("/", "_", ":", "", ",", "").Replace(s.Name()))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
	}
	if err != nil {
		s.Log(err)
	}
}
