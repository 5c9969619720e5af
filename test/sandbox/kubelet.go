// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// startTimeout is how long a manager may take until it is ready. Then the Kubelet starts another one.
	startTimeout = 2 * time.Minute
	// crashPause is the pause after a manager that did not get ready.
	crashPause = time.Second
)

// Runs is the program of an image that already runs in the sandbox: a Kubelet reports its Deployments as available and starts nothing.
const Runs = ""

// Pod is a manager that a Kubelet has started.
type Pod struct {
	Image          string
	Started, Ended time.Time // Ended is zero while it runs

	deployment types.UID
	end        context.CancelFunc
	ending     bool
	ready      bool
}

// Kubelet runs our managers as Deployments ask for them, in place of the Deployment controller and of kubelets, because the management cluster
// has no Nodes. A change of the Deployment's image is a rolling update: the new manager gets ready before the old one ends. A Deployment that is
// deleted or has no replicas ends its manager with SIGTERM, and another Deployment does not wait for that, as it would not for another one's Pods.
type Kubelet struct {
	box      *Sandbox
	programs map[string]string
	changed  chan struct{}
	starting sync.Mutex // one manager writes its kubeconfig at a time
	end      context.CancelFunc
	running  sync.WaitGroup

	mu   sync.Mutex
	pods []*Pod
	last error
}

// StartKubelet runs the programs of Deployments until Close: programs has the path of the program for each image, or Runs.
func (s *Sandbox) StartKubelet(ctx context.Context, programs map[string]string) (*Kubelet, error) {
	k := &Kubelet{box: s, programs: programs, changed: make(chan struct{}, 1)}
	ctx, k.end = context.WithCancel(context.WithoutCancel(ctx))
	informers, err := cache.New(s.Config, cache.Options{Scheme: s.Client.Scheme(), Mapper: s.Client.RESTMapper()})
	if err != nil {
		return nil, err
	}
	informer, err := informers.GetInformer(ctx, &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.signal() }, UpdateFunc: func(any, any) { k.signal() }, DeleteFunc: func(any) { k.signal() },
	}); err != nil {
		return nil, err
	}
	k.running.Go(func() { _ = informers.Start(ctx) }) // returns nil when ctx ends
	k.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.changed:
				if err := k.sync(ctx); err != nil { // such as a conflict
					k.note(func() { k.last = err })
					time.AfterFunc(crashPause, k.signal)
				}
			}
		}
	})
	return k, nil
}

// Close ends all managers, and returns when they have ended.
func (k *Kubelet) Close() {
	k.end()
	k.running.Wait()
}

// Pods returns all managers that the Kubelet has started, the oldest first.
func (k *Kubelet) Pods() (all []Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		all = append(all, *p)
	}
	return all
}

// Running returns the images of the managers that have not ended, the oldest first.
func (k *Kubelet) Running() (images []string) {
	for _, p := range k.Pods() {
		if p.Ended.IsZero() {
			images = append(images, p.Image)
		}
	}
	return images
}

// Problem returns the last error: a manager that did not get ready, or a request that failed.
func (k *Kubelet) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

func (k *Kubelet) signal() {
	select {
	case k.changed <- struct{}{}:
	default: // sync reads all Deployments
	}
}

// note makes a change that sync has to see.
func (k *Kubelet) note(change func()) {
	k.mu.Lock()
	change()
	k.mu.Unlock()
}

// sync starts and ends managers, and writes the status of all Deployments.
func (k *Kubelet) sync(ctx context.Context) error {
	list := &appsv1.DeploymentList{}
	if err := k.box.Client.List(ctx, list); err != nil {
		return err
	}
	k.mu.Lock()
	for _, p := range k.pods {
		if !slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return d.UID == p.deployment }) {
			p.stop()
		}
	}
	statuses := make([]appsv1.DeploymentStatus, len(list.Items))
	for i := range list.Items {
		statuses[i] = k.rollOut(ctx, &list.Items[i])
	}
	k.mu.Unlock()
	for i := range list.Items {
		d := &list.Items[i]
		if equality.Semantic.DeepEqual(d.Status, statuses[i]) {
			continue
		}
		d.Status = statuses[i]
		if err := client.IgnoreNotFound(k.box.Client.Status().Update(ctx, d)); err != nil {
			return err
		}
	}
	return nil
}

// rollOut starts and ends the managers of a Deployment, and returns its status.
func (k *Kubelet) rollOut(ctx context.Context, d *appsv1.Deployment) appsv1.DeploymentStatus {
	image, wanted := d.Spec.Template.Spec.Containers[0].Image, ptr.Deref(d.Spec.Replicas, 1)
	if !d.DeletionTimestamp.IsZero() {
		wanted = 0
	}
	path, known := k.programs[image]
	switch {
	case !known:
		return statusOf(d, 0, 0, 0, "no program is known for image "+image)
	case path == Runs:
		return statusOf(d, wanted, wanted, wanted, "")
	}
	current := func(p *Pod) bool { return p.Image == image && !p.ending }
	if wanted > 0 && !slices.ContainsFunc(k.of(d), current) {
		k.start(ctx, d, path)
	}
	replaced := slices.ContainsFunc(k.of(d), func(p *Pod) bool { return current(p) && p.ready })
	var total, ready, updated int32
	for _, p := range k.of(d) {
		if wanted == 0 || replaced && p.Image != image {
			p.stop()
		}
		total++
		if p.ready && !p.ending {
			ready++
		}
		if current(p) {
			updated++
		}
	}
	return statusOf(d, total, ready, updated, "")
}

// of returns the managers of the Deployment that have not ended.
func (k *Kubelet) of(d *appsv1.Deployment) (all []*Pod) {
	for _, p := range k.pods {
		if p.deployment == d.UID && p.Ended.IsZero() {
			all = append(all, p)
		}
	}
	return all
}

// statusOf returns the status that the Deployment controller would write.
func statusOf(d *appsv1.Deployment, total, ready, updated int32, problem string) appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: total, ReadyReplicas: ready, AvailableReplicas: ready, UpdatedReplicas: updated,
	}
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable", Message: problem,
	}
	if ready >= ptr.Deref(d.Spec.Replicas, 1) {
		available.Status, available.Reason = corev1.ConditionTrue, "MinimumReplicasAvailable"
	}
	progressing := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated"}
	if total == updated && updated == ready {
		progressing.Reason = "NewReplicaSetAvailable"
	}
	for _, c := range []appsv1.DeploymentCondition{available, progressing} {
		c.LastUpdateTime, c.LastTransitionTime = metav1.Now(), metav1.Now()
		for _, old := range d.Status.Conditions {
			if old.Type == c.Type && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
				c = old
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
	return status
}

func (p *Pod) stop() {
	p.ending = true
	p.end()
}

// start runs a manager with the Deployment's flags until its context ends. Its addresses are the sandbox's, because it has none of its own.
func (k *Kubelet) start(ctx context.Context, d *appsv1.Deployment, path string) {
	container, account := d.Spec.Template.Spec.Containers[0], client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Template.Spec.ServiceAccountName}
	flags := slices.DeleteFunc(slices.Clone(container.Args), func(flag string) bool {
		return strings.HasPrefix(flag, "--diagnostics-address=") || strings.HasPrefix(flag, "--insecure-diagnostics")
	})
	if slices.Contains(flags, "--leader-elect") {
		flags = append(flags, leaderElection(account.Namespace)...)
	}
	p := &Pod{Image: container.Image, Started: time.Now(), deployment: d.UID}
	ctx, p.end = context.WithCancel(ctx)
	k.pods = append(k.pods, p)
	k.running.Go(func() {
		defer k.signal()
		defer k.note(func() { p.Ended = time.Now() })
		if err := k.live(ctx, p, path, account, flags); err != nil {
			k.note(func() { k.last = fmt.Errorf("%s: %w", p.Image, err) })
			<-afterPause(ctx)
		}
	})
}

func (k *Kubelet) live(ctx context.Context, p *Pod, path string, account client.ObjectKey, flags []string) error {
	k.starting.Lock()
	patience, cancel := context.WithTimeout(ctx, startTimeout)
	process, _, err := k.box.startManagerAs(patience, path, account, flags)
	cancel()
	k.starting.Unlock()
	if err != nil {
		return err
	}
	k.note(func() { p.ready = true })
	k.signal()
	select {
	case <-ctx.Done():
		process.Stop()
		return nil
	case <-process.Done():
		return fmt.Errorf("it ended by itself: %v", process.Err())
	}
}

// afterPause returns a channel that is closed after the pause, or with the context.
func afterPause(ctx context.Context) <-chan struct{} {
	ctx, cancel := context.WithTimeout(ctx, crashPause)
	context.AfterFunc(ctx, cancel)
	return ctx.Done()
}
