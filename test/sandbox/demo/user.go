// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// create runs the commands that the README gives to users.
func (d *demo) create(ctx context.Context) error {
	generate := d.command(ctx, d.Binary("clusterctl"), "generate", "cluster", clusterName,
		"--from", d.File("templates", "cluster-template.yaml"),
		"--target-namespace", d.Identity.Namespace,
		"--kubernetes-version", d.from,
		"--control-plane-machine-count", fmt.Sprint(controlNodes),
		"--worker-machine-count", fmt.Sprint(workers),
	)
	manifests, err := generate.Output()
	if err != nil {
		return fmt.Errorf("clusterctl generate cluster: %w%s", err, standardError(err))
	}
	apply := d.command(ctx, d.Kubectl(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(string(manifests))
	output, err := apply.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, output)
	}
	indent(d.out, string(output))
	return nil
}

func (d *demo) scale(replicas int) func(context.Context) error {
	return func(ctx context.Context) error {
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: deploymentName}}
		return d.patch(ctx, deployment, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
}

func (d *demo) upgrade(ctx context.Context) error {
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: clusterName}}
	return d.patch(ctx, controlPlane, fmt.Sprintf(`{"spec":{"version":%q}}`, d.to))
}

// rollOut makes Cluster API replace every Machine by one of the upgraded version.
func (d *demo) rollOut(ctx context.Context) error {
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: deploymentName}}
	return d.patch(ctx, deployment, fmt.Sprintf(`{"spec":{"template":{"spec":{"version":%q}}}}`, d.to))
}

// deleteMachine deletes one of the Machines.
func (d *demo) deleteMachine(ctx context.Context) error {
	machines, err := d.machines(ctx)
	if err != nil {
		return err
	}
	output, err := d.command(ctx, d.Kubectl(), "delete", "machine", machines[0].Name, "--namespace", d.Identity.Namespace, "--wait=false").CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl delete machine: %w\n%s", err, output)
	}
	indent(d.out, string(output))
	return nil
}

func (d *demo) remove(ctx context.Context) error {
	return d.Client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: clusterName}})
}

func (d *demo) patch(ctx context.Context, object client.Object, change string) error {
	return d.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(change)))
}

// command returns a command in the environment of a user of the sandbox.
func (d *demo) command(ctx context.Context, path string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, path, arguments...)
	command.Env = append(os.Environ(), d.Environment()...)
	return command
}

func standardError(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "\n" + string(exit.Stderr)
	}
	return ""
}
