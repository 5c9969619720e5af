// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// office is a management cluster whose objects have operations in flight.
type office struct {
	bench
	store   client.Client
	elected chan struct{}
	count   int
}

func newOffice(t *testing.T, filter string) *office {
	t.Helper()
	scheme := schemes.Of(t, infrav1.AddToScheme)
	o := &office{bench: bench{T: t, registry: prometheus.NewPedanticRegistry()}, elected: make(chan struct{})}
	o.store = fake.NewClientBuilder().WithScheme(scheme).Build()
	jobDuration.Reset()
	if err := Register(o.registry, &o.accounts, &Operations{Reader: o.store, WatchFilterValue: filter, Elected: o.elected}); err != nil {
		t.Fatal(err)
	}
	return o
}

// add puts an object with the operation, begun so many seconds after 2000, into the store.
func (o *office) add(obj client.Object, op *operation.Operation, seconds int) client.Object {
	o.Helper()
	o.count++
	obj.SetNamespace("default")
	obj.SetName(fmt.Sprintf("o-%d", o.count))
	obj.SetLabels(map[string]string{clusterv1.WatchLabel: fmt.Sprintf("filter-%d", o.count%2)})
	if op != nil {
		op.Time = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, seconds, 0, time.UTC))
	}
	obj.SetAnnotations(map[string]string{"other": "annotation"})
	operation.State{Record: operation.Record{Size: operation.SizeUnknown}, Last: op}.Put(obj)
	if err := o.store.Create(o.Context(), obj); err != nil {
		o.Fatal(err)
	}
	return obj
}

func (o *office) furnish() client.Object {
	controlPlane := func() client.Object { return &infrav1.PortalControlPlane{} }
	o.add(controlPlane(), nil, 0)
	o.add(controlPlane(), &operation.Operation{Type: operation.Scale}, 0) // under way, and not accepted yet
	o.add(controlPlane(), &operation.Operation{Type: operation.Scale, JobID: "a"}, 30)
	last := o.add(controlPlane(), &operation.Operation{Type: operation.Scale, JobID: "b"}, 20)
	o.add(controlPlane(), &operation.Operation{Type: operation.Create, JobID: "c", Unknown: "gone"}, 10)
	o.add(controlPlane(), &operation.Operation{Type: operation.Create, Unknown: "cut off"}, 10)
	o.add(&infrav1.PortalCluster{}, &operation.Operation{Type: operation.CreateNetwork, JobID: "d"}, 10)
	spoilt := o.add(controlPlane(), nil, 0)
	spoilt.GetAnnotations()[infrav1.OperationAnnotation] = "{"
	if err := o.store.Update(o.Context(), spoilt); err != nil {
		o.Fatal(err)
	}
	return last
}

// TestOperations: the metrics follow the operations in the annotations at once.
func TestOperations(t *testing.T) {
	o := newOffice(t, "")
	last := o.furnish()
	o.samples("jobs_in_flight", "") // by then another manager may be the one that acts
	close(o.elected)
	o.samples("jobs_in_flight", `
		jobs_in_flight{operation="create"} 0
		jobs_in_flight{operation="create-network"} 1
		jobs_in_flight{operation="create-vpc"} 0
		jobs_in_flight{operation="delete"} 0
		jobs_in_flight{operation="scale"} 2
		jobs_in_flight{operation="upgrade"} 0
	`)
	o.samples("oldest_job", `
		oldest_job_start_timestamp_seconds{operation="create-network"} 9.4668481e+08
		oldest_job_start_timestamp_seconds{operation="scale"} 9.4668482e+08
	`)
	o.samples("kubeconfig_expires", "")
	controlPlane := &infrav1.PortalControlPlane{}
	if err := o.store.Get(t.Context(), client.ObjectKeyFromObject(last), controlPlane); err != nil {
		t.Fatal(err)
	}
	controlPlane.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
	controlPlane.Status.KubeconfigExpires = ptr.To(metav1.Unix(1_900_000_000, 0))
	if err := o.store.Update(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	o.samples("kubeconfig_expires", `kubeconfig_expires_timestamp_seconds{cluster="`+last.GetNamespace()+`/prod"} 1.9e+09`)
	o.samples("unknown_outcomes", `
		unknown_outcomes{operation="create"} 2
		unknown_outcomes{operation="create-network"} 0
		unknown_outcomes{operation="create-vpc"} 0
		unknown_outcomes{operation="delete"} 0
		unknown_outcomes{operation="scale"} 0
		unknown_outcomes{operation="upgrade"} 0
	`)
	if err := o.store.Delete(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	o.samples(`jobs_in_flight{operation="scale"`, `jobs_in_flight{operation="scale"} 1`)
	o.samples(`oldest_job_start_timestamp_seconds{operation="scale"`, `oldest_job_start_timestamp_seconds{operation="scale"} 9.4668483e+08`)
}

// TestOperationsOfOthers: of two managers that share the objects by --watch-filter each counts its own.
func TestOperationsOfOthers(t *testing.T) {
	o := newOffice(t, "filter-1")
	o.furnish()
	close(o.elected)
	o.samples(`jobs_in_flight{operation="scale"`, `jobs_in_flight{operation="scale"} 1`)
	o.samples(`unknown_outcomes{operation="create"`, `unknown_outcomes{operation="create"} 1`)
}

// TestOperationsWithoutACache: if the cache cannot be read, these metrics are missing, but not the others.
func TestOperationsWithoutACache(t *testing.T) {
	b := &bench{T: t, registry: prometheus.NewPedanticRegistry()}
	elected := make(chan struct{})
	close(elected)
	unable := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build() // does not know our kinds
	if err := Register(b.registry, &b.accounts, &Operations{Reader: unable, Elected: elected}); err != nil {
		t.Fatal(err)
	}
	b.samples("jobs_in_flight", "")
}

func TestJobEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		JobEnded(operation.Scale, false, 40*time.Second)
		JobEnded(operation.Scale, false, 2*time.Hour)
		JobEnded(operation.Scale, true, time.Second)
		b.samples("job_duration_seconds_count", `
			job_duration_seconds_count{operation="scale",outcome="failed"} 1
			job_duration_seconds_count{operation="scale",outcome="succeeded"} 2
		`)
		b.samples("job_duration_seconds_sum", `
			job_duration_seconds_sum{operation="scale",outcome="failed"} 1
			job_duration_seconds_sum{operation="scale",outcome="succeeded"} 7240
		`)
		b.samples(`job_duration_seconds_bucket{operation="scale",outcome="succeeded",le="60"`,
			`job_duration_seconds_bucket{operation="scale",outcome="succeeded",le="60"} 1`)
	})
}
