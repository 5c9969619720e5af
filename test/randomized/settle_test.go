// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// atRest is how long a Cluster must stay settled.
const atRest = 3 * time.Second

// settle ends all troubles and waits until the Cluster has settled.
func (l *life) settle(ctx context.Context) error {
	l.mend(ctx)
	var since time.Time
	var stuck error
	reason, news := "", time.Now()
	err := within(ctx, endurance, func() error {
		if l.hasGoneWrong() {
			return nil // judge returns the violations
		}
		if err := l.allow(ctx); err != nil {
			return err
		}
		if err := l.settled(ctx); err != nil {
			since = time.Time{}
			if reason != err.Error() {
				reason, news = err.Error(), time.Now()
				l.logf("not settled: %v", err)
			}
			if l.startedSince(news) {
				news = time.Now()
			}
			if time.Since(news) > patience {
				stuck = err
				return nil
			}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < atRest {
			return errors.New("it has just settled")
		}
		return nil
	})
	if stuck != nil {
		return fmt.Errorf("does not settle, and nothing has changed for %s: %w", patience, stuck)
	}
	if err != nil {
		return fmt.Errorf("does not settle in %s: %w", endurance, err)
	}
	l.logf("settled")
	return nil
}

// allow has the user allow the next job of an operation that failed after it had worked on nodes. By itself, the provider would wait for hours.
func (l *life) allow(ctx context.Context) error {
	cp := &infrav1.PortalControlPlane{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: name}, cp); err != nil {
		return err
	}
	record, err := operation.LoadRecord(cp)
	for _, failed := range record.Failures {
		if !infrav1.DecisionRetry.MadeOn(cp, failed.ID) {
			return change(ctx, l.client, cp, func(cp *infrav1.PortalControlPlane) {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(failed.ID))
			})
		}
	}
	return err
}

// settled returns an error that names what has not settled yet.
func (l *life) settled(ctx context.Context) error {
	wanted, cluster := l.sums.now(), l.portalCluster()
	if cluster == nil {
		return errors.New("the portal has no cluster")
	}
	if cluster.State != emulator.ClusterRunning || cluster.Size != wanted {
		return fmt.Errorf("the portal cluster is %s with %d workers, %d are wanted", cluster.State, cluster.Size, wanted)
	}
	nodes, leftovers, err := l.runningWorkers(ctx, cluster)
	if err != nil {
		return err
	}
	if err := l.oneToOne(ctx, nodes, wanted); err != nil {
		return err
	}
	return l.controlPlaneSettled(ctx, leftovers)
}

// runningWorkers returns the worker Nodes whose machines the portal runs. It returns an error unless each of these machines has
// a Node that is Ready and schedulable. leftovers is the number of Node objects whose machines are gone.
func (l *life) runningWorkers(ctx context.Context, cluster *emulator.Cluster) (running map[string]bool, leftovers int, err error) {
	list := &corev1.NodeList{}
	if err := l.workload.List(ctx, list); err != nil {
		return nil, 0, err
	}
	machines := map[string]bool{}
	for _, n := range cluster.Nodes {
		if !n.ControlPlane && !n.Gone {
			machines[n.ID] = true
		}
	}
	running = map[string]bool{}
	for _, n := range list.Items {
		switch {
		case !isWorker(&n):
		case !machines[n.Status.NodeInfo.MachineID]:
			leftovers++
		case n.Spec.Unschedulable:
			return nil, 0, fmt.Errorf("node %s is cordoned", n.Name)
		case metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation), metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation),
			metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation):
			return nil, 0, fmt.Errorf("node %s is marked: %v", n.Name, n.Annotations)
		case !isReady(&n):
			return nil, 0, fmt.Errorf("node %s is not Ready", n.Name)
		default:
			running[n.Name] = true
		}
	}
	if len(running) != len(machines) {
		return nil, 0, fmt.Errorf("%d of the portal's %d workers have a Node", len(running), len(machines))
	}
	return running, leftovers, nil
}

// oneToOne checks that each Machine is Ready on a Node of its own, and that each MachineDeployment has as many Machines as
// replicas.
func (l *life) oneToOne(ctx context.Context, nodes map[string]bool, wanted int) error {
	list := &clusterv1.MachineList{}
	if err := l.client.List(ctx, list, client.InNamespace(l.namespace)); err != nil {
		return err
	}
	left := map[string]int{}
	l.sums.mu.Lock()
	for deployment, replicas := range l.sums.replicas {
		left[deployment] = replicas
	}
	l.sums.mu.Unlock()
	holder := map[string]string{}
	for _, m := range list.Items {
		node := m.Status.NodeRef.Name
		switch {
		case !m.DeletionTimestamp.IsZero():
			return fmt.Errorf("machine %s is being deleted", m.Name)
		case !conditions.IsTrue(&m, clusterv1.MachineReadyCondition):
			return fmt.Errorf("machine %s is not Ready", m.Name)
		case conditions.GetReason(&m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason:
			return fmt.Errorf("machine %s is of an old revision", m.Name)
		case !nodes[node] || holder[node] != "":
			return fmt.Errorf("machine %s has Node %q, which does not run or which Machine %q holds", m.Name, node, holder[node])
		}
		holder[node] = m.Name
		left[m.Labels[clusterv1.MachineDeploymentNameLabel]]--
	}
	if len(list.Items) != wanted {
		return fmt.Errorf("%d Machines exist, %d are wanted", len(list.Items), wanted)
	}
	for deployment, n := range left {
		if n != 0 {
			return fmt.Errorf("MachineDeployment %s wants %d more Machines", deployment, n)
		}
	}
	return nil
}

// controlPlaneSettled checks that the conditions of the PortalControlPlane are True and that no operation is in flight. While
// Node objects of removed machines are left, the provider reports too many nodes, so WorkersReady may be False.
func (l *life) controlPlaneSettled(ctx context.Context, leftovers int) error {
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	if err := l.client.Get(ctx, client.ObjectKeyFromObject(controlPlane), controlPlane); err != nil {
		return err
	}
	wanted := []string{infrav1.AvailableCondition, infrav1.VersionUpToDateCondition, infrav1.WorkersReadyCondition}
	if leftovers > 0 {
		wanted = wanted[:2]
	}
	for _, condition := range wanted {
		if c := conditions.Get(controlPlane, condition); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("condition %s of the PortalControlPlane is %+v", condition, c)
		}
	}
	state, err := operation.Load(controlPlane)
	if op := state.Op(); op != nil {
		err = fmt.Errorf("the %s is in flight", op)
	}
	return err
}

// explain adds the objects of the Cluster and the portal's request log to the history.
func (l *life) explain(ctx context.Context) {
	l.logf("%s", l.box.Describe(ctx, l.namespace, l.user.Account))
}
