// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// The accounts at the portal. Each has one user and its own rate limit.
const (
	fleetAccount   = "fleet"   // of the storm and of the second tenant
	restartAccount = "restart" // of the clusters whose jobs run when the manager is killed
)

// The namespaces.
const (
	stormTenant   = "tenant-a"
	secondTenant  = "tenant-b"
	restartTenant = "tenant-c"
)

const (
	kubernetes = "v1.35.6"
	identity   = "portal-identity"
	// creators is how many clusters are created concurrently.
	creators = 16
)

// bench is a management cluster with the real manager and an emulated portal.
type bench struct {
	options
	*sandbox.Sandbox
	began    time.Time
	client   client.Client
	observer *observer
	report   report
	stop     context.CancelFunc
}

func newBench(ctx context.Context, o options) (*bench, error) {
	nodes, err := newServers()
	if err != nil {
		return nil, err
	}
	portal := emulator.Options{
		Seed: 1, Workloads: nodes, ProviderIDs: true,
		Durations: emulator.Durations{Pending: -1, Create: o.takes, Scale: 5 * time.Second, Spread: o.spread},
	}
	for _, account := range []string{fleetAccount, restartAccount} {
		portal.Users = append(portal.Users, emulator.User{
			ID: account, Email: emailOf(account), Password: passwordOf(account), Account: account, Role: emulator.RoleAdministrator,
		})
	}
	box, err := sandbox.Start(ctx, sandbox.Options{
		Out: os.Stderr, Dir: o.dir, WithoutWorkloads: true, WithoutManager: true, Portal: portal,
	})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, Sandbox: box, began: time.Now()}
	if err := b.furnish(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func emailOf(account string) string    { return account + "@portal.invalid" }
func passwordOf(account string) string { return "of-" + account }

// furnish creates the objects that all clusters share, and starts everything that watches them.
func (b *bench) furnish(ctx context.Context) (err error) {
	ctx, b.stop = context.WithCancel(ctx)
	config := rest.CopyConfig(b.Config)
	config.QPS, config.UserAgent = -1, "fleet"
	if b.client, err = client.New(config, client.Options{Scheme: b.Client.Scheme()}); err != nil {
		return err
	}
	if !b.realCore() {
		if err := b.dismissCore(ctx); err != nil {
			return err
		}
	}
	if b.observer, err = newObserver(ctx, config, b.client.Scheme()); err != nil {
		return err
	}
	if !b.realCore() {
		if err := newStandIn(b.client, b.observer.cache).start(ctx); err != nil {
			return err
		}
	}
	for namespace, account := range map[string]string{stormTenant: fleetAccount, secondTenant: fleetAccount, restartTenant: restartAccount} {
		if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
		secret := b.IdentitySecret(client.ObjectKey{Namespace: namespace, Name: identity})
		secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = emailOf(account), passwordOf(account)
		if err := b.client.Create(ctx, secret); err != nil {
			return err
		}
	}
	return b.StartManager(ctx)
}

func (b *bench) realCore() bool { return b.clusters <= b.coreUpTo }

func (b *bench) close() error {
	b.stop()
	b.KillManager() // all measurements are done
	return b.Close()
}

// createClusters creates the objects of count clusters.
func (b *bench) createClusters(ctx context.Context, namespace string, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range count {
		group.Go(func() error { return b.createCluster(ctx, namespace, clusterName(i)) })
	}
	return group.Wait()
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%d", i) }

// createCluster creates a Cluster with one worker and the objects that it references.
func (b *bench) createCluster(ctx context.Context, namespace, name string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: meta}
	controlPlane.Spec.Version, controlPlane.Spec.Replicas = kubernetes, ptr.To[int32](1)
	template := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: meta}
	deployment.Spec.ClusterName, deployment.Spec.Replicas = name, ptr.To[int32](1)
	deployment.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: name, Version: kubernetes, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
		InfrastructureRef: reference("PortalMachineTemplate", name),
	}
	deployment.Spec.Selector.MatchLabels = meta.Labels
	deployment.Spec.Template.Labels = meta.Labels
	for _, object := range []client.Object{
		&clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: reference("PortalCluster", name), ControlPlaneRef: reference("PortalControlPlane", name),
		}},
		&infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
			IdentityRef: infrav1.PortalIdentityReference{Name: identity}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
		}},
		controlPlane, template, deployment,
	} {
		if err := b.client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func reference(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}
