// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"net/url"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
)

// workloads are the connections to workload clusters, as the control planes use them.
type workloads struct{ *workload.Connections }

func (o Options) workloads(mgr ctrl.Manager, hosts *cloud.Hosts) access.Workloads {
	if o.Workloads != nil {
		return o.Workloads
	}
	return workloads{&workload.Connections{
		Dial:      func(server *url.URL) workload.DialFunc { return hosts.DialServer(server) },
		UserAgent: UserAgent, QPS: o.WorkloadQPS, Burst: o.WorkloadBurst, Log: mgr.GetLogger(), Trim: workers.TrimNode,
	}}
}

// Ensure implements access.Workloads.
func (w workloads) Ensure(controlPlane client.ObjectKey, kubeconfig []byte) access.Workload {
	return w.Connections.Ensure(controlPlane, kubeconfig)
}

// Known implements access.Workloads.
func (w workloads) Known(controlPlane client.ObjectKey, digest string) access.Workload {
	if known := w.Connections.Known(controlPlane, digest); known != nil {
		return known
	}
	return nil
}
