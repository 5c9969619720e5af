// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	coresetup "sigs.k8s.io/cluster-api/core/setup"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// startWebhooks serves core's webhooks, apart from core's controllers, so that those may crash.
func (w *World) startWebhooks() {
	p := w.startProcess("webhooks", processOptions{client: coresetup.ManagerClientOptions()}, func(ctx context.Context, p *process) error {
		if err := index.AddDefaultIndexes(ctx, p); err != nil {
			return err
		}
		for _, setup := range []func(ctrl.Manager) error{
			(&coreadmission.Cluster{Client: p.GetClient()}).SetupWebhookWithManager, (&coreadmission.ClusterClass{Client: p.GetClient()}).SetupWebhookWithManager,
			(&coreadmission.Machine{}).SetupWebhookWithManager, (&coreadmission.MachineSet{}).SetupWebhookWithManager,
			(&coreadmission.MachineDeployment{}).SetupWebhookWithManager, (&coreadmission.MachineHealthCheck{}).SetupWebhookWithManager,
			(&coreadmission.MachinePool{}).SetupWebhookWithManager,
		} {
			if err := setup(p); err != nil {
				return err
			}
		}
		return nil
	})
	w.webhooks, w.management.webhooks = p, p.hooks.all
}

// startCore starts core's controllers, with the flags that its manager has by default.
func (w *World) startCore() {
	options := processOptions{client: coresetup.ManagerClientOptions(), fence: &fence{wrote: w.noteWrite("core")}}
	if w.WithoutProvider {
		options.delay = w.delays()
	}
	w.core = w.startProcess("core", options, func(ctx context.Context, p *process) error {
		if err := index.AddDefaultIndexes(ctx, p); err != nil {
			return err
		}
		connections := &clusterCache{process: p, all: map[string]*clusterAccess{}}
		connections.watchSecrets()
		setups := []func(context.Context, ctrl.Manager, controller.Options) error{
			(&cluster.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader(), ClusterCache: connections, RemoteConnectionGracePeriod: 50 * time.Second}).SetupWithManager,
			(&machine.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader(), ClusterCache: connections, RemoteConditionsGracePeriod: 5 * time.Minute}).SetupWithManager,
			(&machineset.Reconciler{
				Client: p.GetClient(), APIReader: p.GetAPIReader(), ClusterCache: connections, PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll),
			}).SetupWithManager,
			(&machinedeployment.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader()}).SetupWithManager,
			(&machinepool.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader(), ClusterCache: connections}).SetupWithManager,
			(&machinehealthcheck.Reconciler{Client: p.GetClient(), ClusterCache: connections}).SetupWithManager,
		}
		if w.Topology {
			setups = append(setups,
				(&clusterclass.Reconciler{Client: p.GetClient()}).SetupWithManager,
				(&topologycluster.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader(), ClusterCache: connections}).SetupWithManager,
				(&topologymachinedeployment.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader()}).SetupWithManager,
				(&topologymachineset.Reconciler{Client: p.GetClient(), APIReader: p.GetAPIReader()}).SetupWithManager,
			)
		}
		for _, setup := range setups {
			if err := setup(ctx, p, controller.Options{MaxConcurrentReconciles: 10}); err != nil {
				return err
			}
		}
		return nil
	})
}
