// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const (
	// logLines is the number of lines at the end of a log that Describe returns.
	logLines = 40
	// describeTime is how long servers may take to answer.
	describeTime = 30 * time.Second
)

// Describe describes a namespace after a failed test: the problems that its objects report, its Machines, the Nodes of its Clusters, the
// portal's request log for the account, and the ends of the managers' logs.
func (s *Sandbox) Describe(ctx context.Context, namespace, account string) string {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	d := &description{ctx: ctx, Sandbox: s, namespace: namespace}
	d.objects()
	d.nodes()
	if s.Portal != nil {
		for _, e := range s.Portal.RequestLog() {
			if e.Account == account {
				d.line("request log %s %s", e.Time.Format(time.TimeOnly+".000"), e)
			}
		}
	}
	d.log("manager.log")
	d.log("core.log")
	return d.String()
}

type description struct {
	*Sandbox
	strings.Builder
	ctx       context.Context //nolint:containedctx // Lives for one call.
	namespace string
}

func (d *description) line(format string, args ...any) { _, _ = fmt.Fprintf(d, format+"\n", args...) }

func (d *description) objects() {
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{},
		&clusterv1.MachineDeploymentList{}, &clusterv1.MachineList{}, &infrav1.PortalMachineList{},
		&clusterv1.MachinePoolList{}, &infrav1.PortalMachinePoolList{},
	} {
		if err := d.Client.List(d.ctx, list, client.InNamespace(d.namespace)); err != nil {
			d.line("%T: %v", list, err)
			continue
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { d.object(o); return nil })
	}
}

func (d *description) object(o runtime.Object) {
	m, _ := meta.Accessor(o)
	head := fmt.Sprintf("%T %s", o, m.GetName())
	if at := m.GetDeletionTimestamp(); at != nil {
		head += " deleted at " + at.UTC().Format(time.TimeOnly)
	}
	switch o := o.(type) {
	case *clusterv1.Machine:
		head += fmt.Sprintf(" on %q as %q", o.Status.NodeRef.Name, o.Spec.ProviderID)
	case *infrav1.PortalMachine:
		head += fmt.Sprintf(" on %+v as %q", o.Spec.Node, o.Spec.ProviderID)
	case *infrav1.PortalMachinePool:
		head += fmt.Sprintf(" lists %q", o.Spec.ProviderIDList)
	}
	for key, value := range m.GetAnnotations() {
		if key != corev1.LastAppliedConfigAnnotation {
			head += fmt.Sprintf(" %s=%s", key, value)
		}
	}
	d.line("%s", strings.TrimPrefix(head, "*"))
	if getter, ok := o.(conditions.Getter); ok {
		for _, c := range getter.GetConditions() {
			if (c.Status != metav1.ConditionTrue || c.Type == clusterv1.DeletingCondition) && c.Message != "" {
				d.line("  %s=%s %s since %s: %s", c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.TimeOnly), c.Message)
			}
		}
	}
}

// nodes describes the Nodes of every Cluster that has a kubeconfig.
func (d *description) nodes() {
	secrets := &corev1.SecretList{}
	if err := d.Client.List(d.ctx, secrets, client.InNamespace(d.namespace)); err != nil {
		d.line("%v", err)
	}
	for _, secret := range secrets.Items {
		if strings.HasSuffix(secret.Name, "-kubeconfig") {
			if err := d.nodesOf(secret.Data["value"]); err != nil {
				d.line("Nodes with %s: %v", secret.Name, err)
			}
		}
	}
}

func (d *description) nodesOf(kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	workload, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := workload.List(d.ctx, nodes); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		line := fmt.Sprintf("Node %s of %s as %q: cordoned %t, taints %v", n.Name, n.CreationTimestamp.UTC().Format(time.TimeOnly), n.Spec.ProviderID, n.Spec.Unschedulable, n.Spec.Taints)
		for _, key := range slices.Sorted(maps.Keys(n.Annotations)) {
			if strings.HasPrefix(key, infrav1.GroupVersion.Group+"/") {
				line += fmt.Sprintf(" %s=%s", key, n.Annotations[key])
			}
		}
		d.line("%s", line)
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				d.line("  Ready=%s since %s: %s", c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly), c.Message)
			}
		}
	}
	return nil
}

// log describes the last lines of a log that name the namespace.
func (d *description) log(name string) {
	raw, err := os.ReadFile(filepath.Join(d.Dir, name))
	if err != nil {
		d.line("%v", err)
		return
	}
	named := regexp.MustCompile(regexp.QuoteMeta(d.namespace) + `\b`)
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if named.MatchString(line) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, line := range lines[max(0, len(lines)-logLines):] {
		d.line("%s: %s", name, line)
	}
}
