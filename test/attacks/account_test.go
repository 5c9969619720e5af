// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// tarPits points identities to servers that accept connections and never answer. While workers of the manager wait for some of them, another
// tenant creates a cluster. In a plain queue, its identity would wait until workers have taken all identities of the attacker.
func tarPits(t *tenant) string {
	const pits, workers = 60, 10 // the default of --portalcluster-concurrency
	pit, err := net.Listen("tcp", loopback+":0")
	t.must(err)
	defer pit.Close()
	var held atomic.Int32
	go func() {
		for {
			connection, err := pit.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			held.Add(1)
		}
	}()
	home := newCluster(t.namespace, "home").Cluster
	t.must(t.client.Create(t.Context(), home))
	for i := range pits {
		t.identity(home, fmt.Sprintf("pit-%d", i), "https://"+pit.Addr().String())
	}
	t.await("half of the workers wait", func() bool { return held.Load() >= workers/2 })

	namespace := fmt.Sprintf("victim-%d", t.number)
	victim := t.inNamespace(namespace)
	t.must(victim.Create(t.Context(), t.secret(namespace, person)))
	theirs := newCluster(namespace, "prod")
	t.must(victim.Create(t.Context(), theirs.Cluster))
	t.must(victim.Create(t.Context(), theirs.PortalCluster))
	for ; !conditions.IsTrue(fetched(t, theirs.PortalCluster), infrav1.IdentityReadyCondition); time.Sleep(5 * poll) {
		all, tried := &infrav1.PortalClusterList{}, 0
		t.must(box.Client.List(t.Context(), all, client.InNamespace(t.namespace)))
		for i := range all.Items {
			if conditions.Has(&all.Items[i], infrav1.IdentityReadyCondition) {
				tried++
			}
		}
		if tried > pits-workers {
			return fmt.Sprintf("the manager gave up on %d of %d identities before it looked at that of another tenant", tried, pits)
		}
	}
	return ""
}

// identity creates an identity Secret, and a PortalCluster that uses it. The tenant assigns all of them to one Cluster.
func (t *tenant) identity(home *clusterv1.Cluster, name, baseURL string) {
	t.Helper()
	secret := t.secret(t.namespace, attacker)
	secret.Name = name
	secret.StringData[infrav1.IdentityBaseURL] = baseURL
	secret.StringData[infrav1.IdentityEmail] = name + "@portal.example"
	t.must(t.client.Create(t.Context(), secret))
	c := newCluster(t.namespace, name).PortalCluster
	c.Spec.IdentityRef.Name = name
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(home, clusterv1.GroupVersion.WithKind("Cluster"))}
	t.must(t.client.Create(t.Context(), c))
}
