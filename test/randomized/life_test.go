// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name     = "life"
	identity = "portal-identity"
	// patience is how long a Cluster may make no progress before it counts as stuck. The provider retries after a refusal in 30
	// seconds, then in 60. endurance is how long a Cluster may take to settle: on a busy machine each round of a rollout takes
	// a minute.
	patience, endurance = 5 * time.Minute, 15 * time.Minute
)

// versions are the Kubernetes versions of a life, in order.
var versions = []string{"v1.34.9", "v1.35.6", "v1.36.3"}

// life is one Cluster and what happens to it.
type life struct {
	*environment
	seed      int64
	roll      *rand.Rand
	namespace string
	user      emulator.User
	number    int

	workload    client.WithWatch
	deployments []string // names, as users would list them
	version     int      // index in versions of the control plane's version
	templates   int      // created so far
	sequence    int
	mends       []func(context.Context) error // the functions that end the troubles of the sequence
	mismatched  string                        // the MachineDeployment whose template the portal cannot honor

	watcher

	logMu   sync.Mutex
	log     []string
	logFile *os.File // a copy of the log, nil without -dir
}

func newLife(e *environment, number int, seed int64) *life {
	return &life{
		environment: e, seed: seed, number: number, roll: rand.New(rand.NewPCG(uint64(seed), 0)),
		namespace: fmt.Sprintf("life-%d", number), user: suite.User("life", number),
	}
}

// logf adds a line to the history.
func (l *life) logf(format string, args ...any) {
	l.logMu.Lock()
	defer l.logMu.Unlock()
	line := fmt.Sprintf("%s %d: ", time.Now().Format("15:04:05.000"), l.sequence) + fmt.Sprintf(format, args...)
	l.log = append(l.log, line)
	if l.logFile != nil {
		_, _ = fmt.Fprintln(l.logFile, line) // the log still has the line
	}
}

// history returns the history so far.
func (l *life) history() string {
	l.logMu.Lock()
	defer l.logMu.Unlock()
	return strings.Join(l.log, "\n")
}

// live creates the Cluster, runs the sequences, and deletes the Cluster.
func (l *life) live(ctx context.Context, sequences int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if *keepIn != "" {
		var err error
		if l.logFile, err = os.Create(filepath.Join(*keepIn, fmt.Sprintf("%s-seed-%d.log", l.environment, l.seed))); err != nil {
			return err
		}
		defer l.logFile.Close()
	}
	if err := l.begin(ctx); err != nil {
		l.explain(ctx)
		return errors.Join(fmt.Errorf("creation: %w", err), l.delete(ctx))
	}
	for range sequences {
		if l.sequence > 0 && l.timeIsOver() {
			break
		}
		l.sequence++
		if err := l.happen(ctx); err != nil {
			l.explain(ctx)
			return errors.Join(err, l.delete(ctx))
		}
	}
	if err := l.delete(ctx); err != nil {
		l.explain(ctx)
		return fmt.Errorf("deletion: %w", err)
	}
	return nil
}

// begin creates the Cluster and waits until it is settled for the first time.
func (l *life) begin(ctx context.Context) error {
	l.sums.open()
	if err := l.watchMachines(ctx); err != nil {
		return err
	}
	if err := l.watchRecord(ctx); err != nil {
		return err
	}
	for _, o := range l.objects() {
		if err := l.client.Create(ctx, o); err != nil {
			return err
		}
	}
	for range 1 + l.roll.IntN(3) {
		if err := l.addDeployment(ctx, int32(1+l.roll.IntN(3))); err != nil {
			return err
		}
	}
	if l.roll.IntN(2) == 0 {
		if err := l.client.Create(ctx, l.healthCheck()); err != nil {
			return err
		}
		l.logf("with a MachineHealthCheck")
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	if err := errors.Join(l.watchNodes(ctx), l.runPods(ctx)); err != nil {
		return err
	}
	return l.settle(ctx)
}

// objects returns the objects of the Cluster without its MachineDeployments.
func (l *life) objects() []client.Object {
	o := suite.NewObjects(metav1.ObjectMeta{Namespace: l.namespace, Name: name}, identity)
	o.ControlPlane.Spec.Version = versions[0]
	secret := l.box.IdentitySecret(client.ObjectKey{Namespace: l.namespace, Name: identity})
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = l.user.Email, l.user.Password
	large := &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: foreignTemplate}}
	large.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "large", SSHKeyPair: "ops"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	return []client.Object{namespace, secret, large, o.Cluster, o.PortalCluster, o.ControlPlane}
}

// foreignTemplate is a template for workers that the portal cluster does not have.
const foreignTemplate = "large"

// newTemplate creates another template for the same workers, and returns its name.
func (l *life) newTemplate(ctx context.Context) (string, error) {
	l.templates++
	template := &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: fmt.Sprintf("small-%d", l.templates),
	}}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	return template.Name, l.client.Create(ctx, template)
}

// addDeployment creates another MachineDeployment, and draws its strategy, its deletion order and whether its drains end early.
func (l *life) addDeployment(ctx context.Context, replicas int32) error {
	_, _, err := l.addDeploymentOf(ctx, "", replicas)
	return err
}

// addDeploymentOf creates a MachineDeployment and a new template. The MachineDeployment uses the template other if it is not
// empty, and the new one otherwise. addDeploymentOf returns the names of the MachineDeployment and of the new template.
func (l *life) addDeploymentOf(ctx context.Context, other string, replicas int32) (deployment, template string, err error) {
	if template, err = l.newTemplate(ctx); err != nil {
		return "", "", err
	}
	strategies := []clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
		{MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0))},
		{MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromInt32(1))},
		{MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromString("25%"))},
	}
	orders := []clusterv1.MachineSetDeletionOrder{clusterv1.RandomMachineSetDeletionOrder,
		clusterv1.NewestMachineSetDeletionOrder, clusterv1.OldestMachineSetDeletionOrder}
	strategy, order := strategies[l.roll.IntN(len(strategies))], orders[l.roll.IntN(len(orders))]
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprintf("d%d", l.templates)}}
	md.Spec = clusterv1.MachineDeploymentSpec{
		ClusterName: name,
		Replicas:    &replicas,
		Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: order},
		Rollout: clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType, RollingUpdate: strategy,
		}},
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: versions[l.version],
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachineTemplate", Name: cmp.Or(other, template),
			},
		}},
	}
	if l.roll.IntN(3) == 0 {
		md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](5)
		l.seen.Lock()
		l.hasty[md.Name] = true
		l.seen.Unlock()
	}
	l.logf("new MachineDeployment %s: %d replicas, surge %s, unavailable %s, deletes %s, drains end early: %t", md.Name, replicas,
		strategy.MaxSurge, strategy.MaxUnavailable, order, md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds != nil)
	l.deployments = append(l.deployments, md.Name)
	return md.Name, template, l.sums.change(md.Name, int(replicas), func() error { return l.client.Create(ctx, md) })
}

// healthCheck returns a MachineHealthCheck that remediates Machines whose Node has been not Ready or in trouble for 3 seconds.
func (l *life) healthCheck() *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	check.Spec.ClusterName = name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: name}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		check.Spec.Checks.UnhealthyNodeConditions = append(check.Spec.Checks.UnhealthyNodeConditions,
			clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: status, TimeoutSeconds: ptr.To[int32](3)})
	}
	check.Spec.Checks.UnhealthyNodeConditions = append(check.Spec.Checks.UnhealthyNodeConditions,
		clusterv1.UnhealthyNodeCondition{Type: trouble, Status: corev1.ConditionTrue, TimeoutSeconds: ptr.To[int32](3)})
	return check
}

// connect waits for the kubeconfig of the portal cluster and makes a client with it.
func (l *life) connect(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := within(ctx, patience, func() error {
		return l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: name + "-kubeconfig"}, secret)
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return err
	}
	config.QPS, config.Burst, config.UserAgent = 50, 100, testAgent
	l.workload, err = client.NewWithWatch(config, client.Options{})
	return err
}

// delete deletes the Cluster, and waits until the Cluster and the portal cluster are gone.
func (l *life) delete(ctx context.Context) error {
	l.judging.Store(false)
	l.mend(ctx)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	if err := l.client.Delete(ctx, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	return within(ctx, patience, func() error {
		switch err := l.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); {
		case err == nil:
			return errors.New("the Cluster still exists")
		case !apierrors.IsNotFound(err):
			return err
		case l.portalCluster() != nil:
			return errors.New("the portal cluster still exists")
		}
		return nil
	})
}

// portalCluster returns the portal cluster of this life, or nil if the portal has none.
func (l *life) portalCluster() *emulator.Cluster {
	for _, c := range l.box.Portal.Clusters() {
		if c.Account == l.user.Account {
			return &c
		}
	}
	return nil
}

// within calls try until it succeeds. After the limit it returns the last error.
func within(ctx context.Context, limit time.Duration, try func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}
