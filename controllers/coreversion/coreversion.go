// SPDX-License-Identifier: Apache-2.0

// Package coreversion reports whether the provider was tested with the running version of Cluster API core. Takeovers depend on
// behavior of core that no contract promises (test/capibehavior checks it). Beside another version, a rolling update waits instead.
//
// The version is read from the running Deployment, which clusterctl, a GitOps tool or the Cluster API Operator may have
// installed. The API server converts Clusters with core's webhook, so their CustomResourceDefinition names core's namespace. A
// tenant can write neither the definition nor anything in that namespace. If the Deployment does not show its version,
// clusterctl's inventory is used.
package coreversion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io,verbs=get
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=capi-controller-manager,verbs=get
// +kubebuilder:rbac:groups=clusterctl.cluster.x-k8s.io,resources=providers,verbs=list

// tested are the minor versions of core that test/capibehavior passes with.
var tested = []string{"1.14"}

const (
	// deploymentName is the name of core's Deployment in its releases. No installer changes it.
	deploymentName = "capi-controller-manager"
	// versionLabel is the label that charts set on a Deployment whose image has no version as its tag.
	versionLabel = "app.kubernetes.io/version"
	// maxAge is how long an answer is used: core may be upgraded at any time.
	maxAge = 10 * time.Minute
	// retryAfter is how long the last answer is used after the version could not be read.
	retryAfter = 10 * time.Second
)

// unread is the problem until the version was read once.
const unread = "the version of core could not be read yet, as the manager's log explains"

// Check reads the version of core.
type Check struct {
	Reader client.Reader
	// AllowUnverified accepts every version, and an unknown one.
	AllowUnverified bool

	mu      sync.Mutex
	next    time.Time // when the version is read again
	read    bool      // the version was read once
	problem string
}

// Problem returns "" if the provider was tested with the version of core, else the problem as a clause of a condition message.
func (c *Check) Problem(ctx context.Context) string {
	if c.AllowUnverified {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.next) {
		return c.last()
	}
	problem, err := c.readVersion(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to read the version of core", "problem", c.last())
		c.next = time.Now().Add(retryAfter)
		return c.last()
	}
	if problem != "" && problem != c.problem {
		ctrl.LoggerFrom(ctx).Info("Takeovers are off", "problem", problem)
	}
	c.next, c.read, c.problem = time.Now().Add(maxAge), true, problem
	return problem
}

func (c *Check) last() string {
	if !c.read {
		return unread
	}
	return c.problem
}

func (c *Check) readVersion(ctx context.Context) (problem string, err error) {
	version, silent, err := c.deploymentVersion(ctx)
	if err != nil {
		return "", err
	}
	if version == "" {
		if version, err = c.inventoryVersion(ctx); err != nil {
			return "", err
		}
	}
	parsed, err := semver.ParseTolerant(version)
	switch {
	case err != nil:
		problem = fmt.Sprintf("the version of core is unknown, because %s and clusterctl's inventory does not have it", silent)
	case !slices.Contains(tested, fmt.Sprintf("%d.%d", parsed.Major, parsed.Minor)):
		problem = fmt.Sprintf("core has version %s, but the provider was tested with %s only", version, strings.Join(tested, ", "))
	}
	return problem, nil
}

func isVersion(text string) bool {
	_, err := semver.ParseTolerant(text)
	return err == nil
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
		if isVersion(shown) {
			return shown, "", nil
		}
	}
	return "", fmt.Sprintf("the image of Deployment %s, %q, has no version as its tag", key, image), nil
}

// inventoryVersion returns the version in clusterctl's inventory, or "". If clusterctl was never used, the kind does not exist.
func (c *Check) inventoryVersion(ctx context.Context) (string, error) {
	providers := &clusterctlv1.ProviderList{}
	if err := c.Reader.List(ctx, providers); err != nil && !meta.IsNoMatchError(err) && client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read clusterctl's inventory: %w", err)
	}
	for _, p := range providers.Items {
		if p.GetProviderType() == clusterctlv1.CoreProviderType {
			return p.Version, nil
		}
	}
	return "", nil
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
