// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// standIn replaces core for larger fleets. It does only what the provider needs: owner references, Cluster.status.initialization, the
// Machines of MachineDeployments, and the providerID and nodeRef of Machines. It deletes nothing and creates no MachineSets.
type standIn struct {
	client client.Client
	cache  cache.Cache
	queue  workqueue.TypedRateLimitingInterface[client.ObjectKey] // Clusters
}

func newStandIn(writer client.Client, reader cache.Cache) *standIn {
	return &standIn{writer, reader, workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[client.ObjectKey]())}
}

// dismissCore ends core and removes its webhooks, because no server answers them from then on.
func (b *bench) dismissCore(ctx context.Context) error {
	b.StopCore()
	return errors.Join(
		b.client.DeleteAllOf(ctx, &admissionv1.MutatingWebhookConfiguration{}),
		b.client.DeleteAllOf(ctx, &admissionv1.ValidatingWebhookConfiguration{}),
	)
}

// start runs the stand-in until the context ends.
func (s *standIn) start(ctx context.Context) error {
	for _, kind := range watched() {
		informer, err := s.cache.GetInformer(ctx, kind)
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: s.enqueue, UpdateFunc: func(_, object any) { s.enqueue(object) }})
		if err != nil {
			return err
		}
	}
	for range 20 {
		go s.work(ctx)
	}
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	return nil
}

// enqueue adds the Cluster that an object belongs to.
func (s *standIn) enqueue(object any) {
	o, is := object.(client.Object)
	if is && o.GetLabels()[clusterv1.ClusterNameLabel] != "" {
		s.queue.Add(client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()[clusterv1.ClusterNameLabel]})
	}
}

func (s *standIn) work(ctx context.Context) {
	for {
		key, ended := s.queue.Get()
		if ended {
			return
		}
		if s.reconcile(ctx, key) == nil {
			s.queue.Forget(key)
		} else {
			s.queue.AddRateLimited(key) // conflicts, and caches that lag behind
		}
		s.queue.Done(key)
	}
}

// reconcile takes one Cluster one step further. Each write triggers the next pass. All objects of a Cluster have its name.
func (s *standIn) reconcile(ctx context.Context, key client.ObjectKey) error {
	cluster, infra, plane := &clusterv1.Cluster{}, &infrav1.PortalCluster{}, &infrav1.PortalControlPlane{}
	template, deployment := &infrav1.PortalMachineTemplate{}, &clusterv1.MachineDeployment{}
	members := []client.Object{infra, plane, template, deployment}
	if err := s.cache.Get(ctx, key, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, o := range members {
		if err := s.cache.Get(ctx, key, o); err != nil {
			return client.IgnoreNotFound(err) // its creation triggers the next pass
		}
	}
	for i, o := range members {
		if err := s.own(ctx, o, cluster, i < 2); err != nil {
			return err
		}
	}
	if err := s.initialize(ctx, cluster, infra, plane); err != nil {
		return err
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return nil
	}
	if err := s.makeMachines(ctx, deployment, template); err != nil {
		return err
	}
	return s.joinMachines(ctx, key)
}

// own sets the owner reference to the Cluster.
func (s *standIn) own(ctx context.Context, o client.Object, cluster *clusterv1.Cluster, controller bool) error {
	if len(o.GetOwnerReferences()) > 0 {
		return nil
	}
	before := o.DeepCopyObject().(client.Object) // a copy of an Object is an Object
	reference := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
	if controller {
		reference.Controller, reference.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	}
	o.SetOwnerReferences([]metav1.OwnerReference{reference})
	return s.client.Patch(ctx, o, client.MergeFrom(before))
}

// initialize copies what the provider reports into the Cluster.
func (s *standIn) initialize(ctx context.Context, cluster *clusterv1.Cluster, infra *infrav1.PortalCluster, plane *infrav1.PortalControlPlane) error {
	if before := cluster.DeepCopy(); plane.Spec.ControlPlaneEndpoint.IsValid() && !cluster.Spec.ControlPlaneEndpoint.IsValid() {
		cluster.Spec.ControlPlaneEndpoint = plane.Spec.ControlPlaneEndpoint
		if err := s.client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	before := cluster.DeepCopy()
	to := &cluster.Status.Initialization
	if ptr.Deref(infra.Status.Initialization.Provisioned, false) {
		to.InfrastructureProvisioned = ptr.To(true)
	}
	if ptr.Deref(plane.Status.Initialization.ControlPlaneInitialized, false) {
		to.ControlPlaneInitialized = ptr.To(true)
	}
	was := before.Status.Initialization
	if ptr.Equal(was.ControlPlaneInitialized, to.ControlPlaneInitialized) && ptr.Equal(was.InfrastructureProvisioned, to.InfrastructureProvisioned) {
		return nil
	}
	return s.client.Status().Patch(ctx, cluster, client.MergeFrom(before))
}

// makeMachines creates the Machines that the MachineDeployment asks for, each with its PortalMachine.
func (s *standIn) makeMachines(ctx context.Context, deployment *clusterv1.MachineDeployment, template *infrav1.PortalMachineTemplate) error {
	for i := range int(ptr.Deref(deployment.Spec.Replicas, 0)) {
		meta := metav1.ObjectMeta{Namespace: deployment.Namespace, Name: fmt.Sprintf("%s-%d", deployment.Name, i), Labels: map[string]string{
			clusterv1.ClusterNameLabel: deployment.Name, clusterv1.MachineDeploymentNameLabel: deployment.Name, clusterv1.MachineSetNameLabel: deployment.Name,
		}}
		key := client.ObjectKey{Namespace: meta.Namespace, Name: meta.Name}
		machine := &clusterv1.Machine{}
		err := s.cache.Get(ctx, key, machine)
		if apierrors.IsNotFound(err) {
			machine = &clusterv1.Machine{ObjectMeta: meta, Spec: deployment.Spec.Template.Spec}
			machine.Spec.InfrastructureRef = reference("PortalMachine", meta.Name)
			machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
			err = s.client.Create(ctx, machine)
		}
		if err != nil {
			return err
		}
		portalMachine := &infrav1.PortalMachine{}
		if err := s.cache.Get(ctx, key, portalMachine); apierrors.IsNotFound(err) {
			portalMachine = &infrav1.PortalMachine{ObjectMeta: meta, Spec: infrav1.PortalMachineSpec{WorkerParameters: template.Spec.Template.Spec}}
			portalMachine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
			if err := s.client.Create(ctx, portalMachine); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// joinMachines copies the providerID from each PortalMachine to its Machine, and sets the nodeRef that core would set.
func (s *standIn) joinMachines(ctx context.Context, key client.ObjectKey) error {
	claims := &infrav1.PortalMachineList{}
	of := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	if err := s.cache.List(ctx, claims, of...); err != nil {
		return err
	}
	for _, claim := range claims.Items {
		machine := &clusterv1.Machine{}
		if err := s.cache.Get(ctx, client.ObjectKeyFromObject(&claim), machine); err != nil {
			return err
		}
		if claim.Spec.Node == nil || !ptr.Deref(claim.Status.Initialization.Provisioned, false) {
			continue
		}
		if before := machine.DeepCopy(); machine.Spec.ProviderID != claim.Spec.ProviderID {
			machine.Spec.ProviderID = claim.Spec.ProviderID
			if err := s.client.Patch(ctx, machine, client.MergeFrom(before)); err != nil {
				return err
			}
		}
		if before := machine.DeepCopy(); machine.Status.NodeRef.Name != claim.Spec.Node.Name {
			machine.Status.NodeRef.Name = claim.Spec.Node.Name
			machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
			if err := s.client.Status().Patch(ctx, machine, client.MergeFrom(before)); err != nil {
				return err
			}
		}
	}
	return nil
}
