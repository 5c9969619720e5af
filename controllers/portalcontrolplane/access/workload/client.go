// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// callTimeout bounds a request of the client, and its answer.
	callTimeout = 10 * time.Second
	// watchTimeout bounds a list or a watch of Nodes. A reflector asks for watches of at most 10 minutes.
	watchTimeout = 11 * time.Minute
)

// kinds are the kinds that the provider and core's drain read and write in workload clusters. Nothing is asked to find out about
// others.
var kinds = newKinds()

func newKinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	mapper.Add(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot)
	return mapper
}

// newClients returns a client, and how a reflector reads the Nodes.
func newClients(config *rest.Config, through http.RoundTripper) (client.Client, *nodeLister, error) {
	calls, err := client.New(config, client.Options{
		Scheme: scheme.Scheme, Mapper: kinds, HTTPClient: &http.Client{Transport: through, Timeout: callTimeout},
	})
	if err != nil {
		return nil, nil, err
	}
	watches, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind("Node"), true, false, config, scheme.Codecs,
		&http.Client{Transport: through, Timeout: watchTimeout})
	return calls, &nodeLister{rest: watches, answered: func(error) {}}, err
}

// nodeLister lists and watches Nodes for a reflector. It gets all Nodes in one answer, whose size is bounded: a reflector would
// keep asking for further pages for as long as the API server names any.
type nodeLister struct {
	rest     rest.Interface
	answered func(error) // called after each list
}

var _ cache.ListerWatcherWithContext = &nodeLister{}

// ListWithContext implements cache.ListerWithContext.
func (l *nodeLister) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue != "" {
		return nil, errors.New("the API server returns its Nodes in pages, which are not read")
	}
	options.Limit = 0
	list := &corev1.NodeList{}
	err := l.rest.Get().Resource("nodes").VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
	l.answered(err)
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (l *nodeLister) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return l.rest.Get().Resource("nodes").VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// List implements cache.Lister.
func (l *nodeLister) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher.
func (l *nodeLister) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported makes a reflector list the Nodes: the size of a streamed list is never known.
func (*nodeLister) IsWatchListSemanticsUnSupported() bool { return true }
