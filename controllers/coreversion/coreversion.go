// SPDX-License-Identifier: Apache-2.0

// Package coreversion reports whether the Cluster API core manager is of a version whose behaviour was tried. Takeovers
// rest on facts that are no contract (test/capibehavior holds them); beside a core that may behave differently a rolling update
// waits instead.
//
// The version is that of the Deployment that runs, whoever installed it: clusterctl, a GitOps tool or the Cluster API Operator.
// The API server converts Clusters with the webhook of core, so their CustomResourceDefinition names core's namespace. A tenant can
// write neither it nor anything in that namespace. Only if the Deployment does not show its version, clusterctl's inventory counts.
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

// tried are the minor versions of core with which test/capibehavior passes.
var tried = []string{"1.14"}

const (
	// deploymentName is core's, in the components of its releases. No installer changes it.
	deploymentName = "capi-controller-manager"
	// versionLabel is what charts put on a Deployment whose image has no version as its tag.
	versionLabel = "app.kubernetes.io/version"
	// lookAgain is how long an answer is used: core may be upgraded at any time.
	lookAgain = 10 * time.Minute
	// tryAgain is how long the last answer is used after the version could not be read.
	tryAgain = 10 * time.Second
)

// unread is the answer until the first one.
const unread = "the version of core could not be read yet (the manager's log has the cause)"

// Check looks at the version of core.
type Check struct {
	Reader client.Reader
	// AllowUnverified accepts every version, and an unknown one.
	AllowUnverified bool

	mu      sync.Mutex
	next    time.Time // when the version is read again
	read    bool      // it was read once
	problem string
}

// Problem returns "" if core is of a version that was tried, else what is wrong, for a condition.
func (c *Check) Problem(ctx context.Context) string {
	if c.AllowUnverified {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.next) {
		return c.last()
	}
	problem, err := c.look(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Read the version of core", "problem", c.last())
		c.next = time.Now().Add(tryAgain)
		return c.last()
	}
	if problem != "" && problem != c.problem {
		ctrl.LoggerFrom(ctx).Info("Takeovers are off", "problem", problem)
	}
	c.next, c.read, c.problem = time.Now().Add(lookAgain), true, problem
	return problem
}

func (c *Check) last() string {
	if !c.read {
		return unread
	}
	return c.problem
}

func (c *Check) look(ctx context.Context) (problem string, err error) {
	version, silent, err := c.deployed(ctx)
	if err != nil {
		return "", err
	}
	if version == "" {
		if version, err = c.listed(ctx); err != nil {
			return "", err
		}
	}
	parsed, err := semver.ParseTolerant(version)
	switch {
	case err != nil:
		problem = fmt.Sprintf("the version of core is not known: %s, and clusterctl's inventory does not have it", silent)
	case !slices.Contains(tried, fmt.Sprintf("%d.%d", parsed.Major, parsed.Minor)):
		problem = fmt.Sprintf("core has version %s, and this was tried with %s only", version, strings.Join(tried, ", "))
	}
	return problem, nil
}

func isVersion(text string) bool {
	_, err := semver.ParseTolerant(text)
	return err == nil
}

// deployed returns the version that core's Deployment shows, or why it shows none.
func (c *Check) deployed(ctx context.Context) (version, silent string, err error) {
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
		return "", fmt.Sprintf("there is no Deployment %s", key), nil
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

// listed returns the version that clusterctl's inventory has, or "". Where clusterctl was never used there is no such kind.
func (c *Check) listed(ctx context.Context) (string, error) {
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

// tag returns the tag of an image: host:port/name:tag@digest, all of which but the name may be missing.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}
