// SPDX-License-Identifier: Apache-2.0

// Package coreversion warns if the provider was not tested with the running version of Cluster API core. What the provider needs
// of core beyond its contract is tested by test/capibehavior.
//
// The version is read from the running Deployment, however it was installed. The API server converts Clusters with core's webhook,
// so their CustomResourceDefinition names core's namespace.
package coreversion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io,verbs=get
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=capi-controller-manager,verbs=get

// tested are the minor versions of core that test/capibehavior passes with.
var tested = []string{"1.14"}

const (
	// deploymentName is the name of core's Deployment in its releases. No installer changes it.
	deploymentName = "capi-controller-manager"
	// versionLabel is the label that charts set on a Deployment whose image has no version as its tag.
	versionLabel = "app.kubernetes.io/version"
	// maxAge is how long an answer is used.
	maxAge = 10 * time.Minute
	// retryAfter is the pause after the version could not be read.
	retryAfter = time.Minute
)

// Check warns if the provider was not tested with the running version of core. It holds nothing up.
type Check struct {
	Reader client.Reader
	// Report is told the version, or "", and whether the provider was tested with it.
	Report func(version string, tested bool)

	problem string // that was logged last
}

// Start implements manager.Runnable. It reads the version now and then, because core may be upgraded at any time.
func (c *Check) Start(ctx context.Context) error {
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = c.look(ctx)
	}
}

// look reads the version, and returns when to do so again.
func (c *Check) look(ctx context.Context) time.Duration {
	version, problem, err := c.readVersion(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to read the version of core")
		return retryAfter
	}
	if problem != "" && problem != c.problem {
		ctrl.LoggerFrom(ctx).Info("The provider was not tested with this version of core. Look at docs/install.md before you roll out MachineDeployments", "problem", problem)
	}
	c.problem = problem
	c.Report(version, problem == "")
	return maxAge
}

// readVersion returns the version of core, and what is wrong with it, if anything.
func (c *Check) readVersion(ctx context.Context) (version, problem string, err error) {
	version, silent, err := c.deploymentVersion(ctx)
	if err != nil {
		return "", "", err
	}
	parsed, err := semver.ParseTolerant(version)
	switch {
	case err != nil:
		problem = "the version of core is unknown, because " + silent
	case !slices.Contains(tested, fmt.Sprintf("%d.%d", parsed.Major, parsed.Minor)):
		problem = fmt.Sprintf("core has version %s, but the provider was tested with %s only", version, strings.Join(tested, ", "))
	}
	return version, problem, nil
}

// deploymentVersion returns the version that core's Deployment shows, or why it shows none.
func (c *Check) deploymentVersion(ctx context.Context) (version, silent string, err error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, definition); err != nil {
		return "", "", fmt.Errorf("find core's namespace: %w", err)
	}
	namespace, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
	if namespace == "" {
		return "", "core's webhook is not a Service of this cluster", nil
	}
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: deploymentName}
	if err := c.Reader.Get(ctx, key, deployment); apierrors.IsNotFound(err) {
		return "", fmt.Sprintf("Deployment %s does not exist", key), nil
	} else if err != nil {
		return "", "", fmt.Errorf("read core's Deployment: %w", err)
	}
	image := managerImage(deployment)
	for _, shown := range []string{tag(image), deployment.Labels[versionLabel]} {
		if _, err := semver.ParseTolerant(shown); err == nil {
			return shown, "", nil
		}
	}
	return "", fmt.Sprintf("the image of Deployment %s, %q, has no version as its tag", key, image), nil
}

func managerImage(deployment *appsv1.Deployment) string {
	containers := deployment.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" })
	if len(containers) == 0 {
		return ""
	}
	return containers[max(i, 0)].Image
}

// tag returns the tag of an image of the form host:port/name:tag@digest, in which everything but the name is optional.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}
