// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// The acts of this file once harmed Pods or Machines: long failures of the portal, scale-downs while no Machine holds some
// nodes, upgrades whose answer is lost, and health checks of a condition that a new Machine does not cure.

// hardships are faults of the portal that last for longer than one request.
var hardships = []struct {
	name  string
	fault emulator.Fault
}{
	{"scale-downs are not allowed", emulator.Fault{Code: emulator.CodeOperationNotAllowed}},
	{"scale-downs exceed a quota", emulator.Fault{Code: emulator.CodeQuotaExceeded}},
	{"scale-downs fail", emulator.Fault{Job: emulator.JobFails, JobMessage: "an image is being copied"}},
	{"scale-downs remove one node and fail", emulator.Fault{Job: emulator.JobFailsHalfway, JobNodes: 1}},
	{"scale-downs remove half and leave Node objects", emulator.Fault{Job: emulator.JobFailsHalfway, LeaveNodes: true}},
	{"scale-downs are forgotten", emulator.Fault{Job: emulator.JobForgotten, JobDelay: 5 * time.Second}},
	{"answers to scale-downs are lost", emulator.Fault{Cut: true, After: true, JobDelay: 5 * time.Second}},
	{"scale-downs fail, and the cluster needs a repair", emulator.Fault{Job: emulator.JobFails, Alert: true}},
	{"the portal drains too, and a drain in vain needs a repair", emulator.Fault{Drain: 5 * time.Second, Alert: true}},
}

// hardship makes scale-downs go wrong for up to 90 seconds. The sequence waits for the end of the fault. Then the portal's operator repairs the
// cluster, if that is needed.
func (l *life) hardship(context.Context) (string, error) {
	drawn, lasts := hardships[l.roll.IntN(len(hardships))], l.drawTime(20*time.Second, 90*time.Second)
	f := drawn.fault
	f.Method, f.Path, f.Scale = "POST", "/kubernetes-clusters/*/scale", emulator.ScaleDown
	err := l.inject(f, time.Now().Add(lasts))
	l.mends = append(l.mends, func(context.Context) error {
		cluster := l.portalCluster()
		if cluster == nil || cluster.State != emulator.ClusterAlert {
			return nil
		}
		l.count("repairs by the portal's operator")
		return l.box.Portal.Repair(cluster.ID)
	})
	return fmt.Sprintf("%s for %s", drawn.name, lasts), err
}

// drawTime draws a duration between least and most, in whole seconds.
func (l *life) drawTime(least, most time.Duration) time.Duration {
	return (least + time.Duration(l.roll.Int64N(int64(most-least)))).Round(time.Second)
}

// inject arms a fault for this account. The end of the sequence removes the fault, but not before until.
func (l *life) inject(f emulator.Fault, until time.Time) error {
	f.Account = l.user.Account
	f.ID = fmt.Sprintf("%s-%d-%d", l.namespace, l.sequence, len(l.mends))
	l.mends = append(l.mends, func(ctx context.Context) error {
		if err := waitUntil(ctx, until); err != nil {
			return err
		}
		for _, state := range l.box.Portal.Faults() {
			if state.Fault.ID == f.ID && state.Hits > 0 {
				l.count("portal faults that struck")
			}
		}
		l.box.Portal.RemoveFault(f.ID)
		return nil
	})
	return l.box.Portal.Inject(f)
}

func waitUntil(ctx context.Context, until time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(until)):
		return nil
	}
}

// upgradeStyles are the styles that slowUpgrade draws from. Other upgrades have the environment's style.
var upgradeStyles = []emulator.UpgradeStyle{emulator.UpgradeInPlace, emulator.UpgradeRecreate, emulator.UpgradeReplace, emulator.UpgradeSurge}

// slowUpgrade slows the next upgrade down and draws its style, so that the judges see the time between two nodes. Half of these
// upgrades lose their answer, and some of the others fail half way.
func (l *life) slowUpgrade(ctx context.Context) (string, error) {
	if l.version == len(versions)-1 {
		return "", nil
	}
	f := emulator.Fault{
		Method: "POST", Path: "/kubernetes-clusters/*/upgrade", Count: 1,
		UpgradeStyle: upgradeStyles[l.roll.IntN(len(upgradeStyles))], JobDelay: l.drawTime(20*time.Second, 60*time.Second),
	}
	details := fmt.Sprintf(", slowly (%s, %s)", f.UpgradeStyle, f.JobDelay)
	if l.roll.IntN(2) == 0 {
		f.Cut, f.After = true, true
		details += ", answer lost"
	}
	if l.roll.IntN(4) == 0 && !f.Cut { // with both faults the provider would wait half an hour for the outcome, longer than a sequence may take
		f.Job = emulator.JobFailsHalfway
		details += ", fails half way"
	}
	if err := l.inject(f, time.Now().Add(30*time.Second)); err != nil {
		return "", err
	}
	what, err := l.upgrade(ctx)
	return what + details, err
}

// deleteAndShrink deletes a Machine and lowers the replicas of its MachineDeployment, at once or a moment later.
func (l *life) deleteAndShrink(ctx context.Context) (string, error) {
	deployment, pause, i := l.drawDeployment(), time.Duration(l.roll.Int64N(int64(4*time.Second))), l.roll.IntN(1000)
	l.seen.Lock()
	var names []string
	for name, m := range l.machines {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] == deployment && m.DeletionTimestamp.IsZero() {
			names = append(names, name)
		}
	}
	l.seen.Unlock()
	replicas := l.sums.of(deployment)
	if len(names) == 0 || replicas == 0 {
		return "", nil
	}
	slices.Sort(names)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: names[i%len(names)]}}
	if err := client.IgnoreNotFound(l.client.Delete(ctx, machine)); err != nil {
		return "", err
	}
	if i%2 == 0 {
		time.Sleep(pause)
	}
	return fmt.Sprintf("delete Machine %s, and %s to %d", machine.Name, deployment, replicas-1), l.scaleTo(ctx, deployment, int32(replicas-1))
}

// onThePages adds workers as a person does on the portal's own pages. Soon after, a user lowers the replicas.
func (l *life) onThePages(ctx context.Context) (string, error) {
	deployment, more, pause := l.drawDeployment(), 1+l.roll.IntN(2), time.Duration(l.roll.Int64N(int64(6*time.Second)))
	replicas, cluster := l.sums.of(deployment), l.portalCluster()
	if replicas == 0 || cluster == nil || cluster.State != emulator.ClusterRunning {
		return "", nil
	}
	user := suite.User(person, l.number)
	pages, err := cloud.New(cloud.Config{
		BaseURL: l.box.Portal.URL(), CABundle: l.box.Portal.CAPEM(), Wait: true, Email: user.Email, Password: user.Password,
	})
	if err != nil {
		return "", err
	}
	size := cluster.Size + more
	if _, err := pages.ScaleCluster(ctx, cluster.ID, size); err != nil {
		return "", nil //nolint:nilerr // the portal is busy, or a fault struck this request
	}
	time.Sleep(pause)
	return fmt.Sprintf("a person scales to %d, and %s to %d", size, deployment, replicas-1), l.scaleTo(ctx, deployment, int32(replicas-1))
}

// budget forbids the eviction of ordinary Pods for a while, half of the time with two budgets. The API server answers an eviction
// that two budgets match with an error of its own.
func (l *life) budget(ctx context.Context) (string, error) {
	lasts, budgets := l.drawTime(5*time.Second, 40*time.Second), 1+l.roll.IntN(2)
	var err error
	for i := range budgets {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("ordinary-%d", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: ptr.To(intstr.FromInt32(0)),
				Selector:       &metav1.LabelSelector{MatchLabels: ordinary},
			}}
		created := within(ctx, time.Minute, func() error { return l.workload.Create(ctx, budget) })
		if apierrors.IsAlreadyExists(created) {
			return "", err // once in a sequence
		}
		err = errors.Join(err, created)
		until := time.Now().Add(lasts)
		l.mends = append(l.mends, func(ctx context.Context) error {
			if err := waitUntil(ctx, until); err != nil {
				return err
			}
			return client.IgnoreNotFound(l.workload.Delete(ctx, budget))
		})
	}
	return fmt.Sprintf("no evictions of ordinary Pods for %s (budgets: %d)", lasts, budgets), err
}

// troubleNode sets a node condition that a MachineHealthCheck looks at and that a new Machine does not cure.
func (l *life) troubleNode(ctx context.Context) (string, error) {
	names := l.workers()
	i, lasts := l.roll.IntN(1000), l.drawTime(10*time.Second, 40*time.Second)
	if len(names) == 0 {
		return "", nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[i%len(names)]}}
	set := func(ctx context.Context, status corev1.ConditionStatus) error {
		return within(ctx, time.Minute, func() error {
			if err := l.workload.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return client.IgnoreNotFound(err)
			}
			before := node.DeepCopy()
			node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == trouble })
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: trouble, Status: status, Reason: testAgent})
			return client.IgnoreNotFound(l.workload.Status().Patch(ctx, node, client.StrategicMergeFrom(before)))
		})
	}
	until := time.Now().Add(lasts)
	l.mends = append(l.mends, func(ctx context.Context) error {
		if err := waitUntil(ctx, until); err != nil {
			return err
		}
		return set(ctx, corev1.ConditionFalse)
	})
	return fmt.Sprintf("node %s in trouble for %s", node.Name, lasts), set(ctx, corev1.ConditionTrue)
}

// mismatch adds a MachineDeployment whose template the portal cannot honor. After the acts of the sequence, the MachineDeployment
// gets a template that the portal can honor. Until then its replicas may or may not count for the size.
func (l *life) mismatch(ctx context.Context) (string, error) {
	if len(l.deployments) >= 3 || l.mismatched != "" {
		return "", nil
	}
	replicas := int32(1 + l.roll.IntN(2))
	l.sums.allowWithout(int(replicas))
	deployment, right, err := l.addDeploymentOf(ctx, foreignTemplate, replicas)
	l.mismatched = deployment
	l.mends = append(l.mends, func(ctx context.Context) error {
		l.sums.allowWithout(0)
		l.mismatched = ""
		if !slices.Contains(l.deployments, deployment) {
			return nil // another act dropped it
		}
		return l.changeDeployment(ctx, deployment, func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.InfrastructureRef.Name = right
		})
	})
	return fmt.Sprintf("new %s with %d of a template that the portal cannot honor", deployment, replicas), err
}
