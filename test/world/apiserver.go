// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
)

const maxBody = 3 << 20

// handler answers requests as a real API server answers those about custom resources, with that server's code: schemas, defaults, pruning,
// CEL, server-side apply, generations, finalizers, preconditions and subresources. It keeps nothing: each request says in its
// context whose objects it is about, so all API servers of a world share one handler.
type handler struct {
	http.Handler
	crds   []*apiextensionsv1.CustomResourceDefinition
	mapper meta.RESTMapper
	info   apirequest.RequestInfoFactory
}

type crdInformer struct {
	lister   listers.CustomResourceDefinitionLister
	informer cache.SharedIndexInformer
}

// Informer implements the informer of CRDs.
func (c crdInformer) Informer() cache.SharedIndexInformer { return c.informer }

// Lister implements the informer of CRDs.
func (c crdInformer) Lister() listers.CustomResourceDefinitionLister { return c.lister }

// newHandler makes a handler for one bubble: its WaitGroup belongs to the bubble of its first request.
func newHandler() (*handler, error) {
	crds, err := customKinds()
	if err != nil {
		return nil, err
	}
	served := append(slices.Clone(crds), builtinKinds()...)
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, crd := range served {
		if err := indexer.Add(crd); err != nil {
			return nil, err
		}
	}
	notFound := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such path: "+r.URL.Path, http.StatusNotFound)
	})
	allow := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	informer := crdInformer{listers.NewCustomResourceDefinitionLister(indexer), controllertest.NewFakeInformer(controllertest.Synced)}
	inner, err := apiserver.NewCustomResourceDefinitionHandler(nil, nil, informer, notFound, restOptions{}, admissionHooks{}, nil, nil, nil, 1, allow,
		time.Hour, time.Hour, map[string]*spec.Schema{}, maxBody)
	if err != nil {
		return nil, err
	}
	return &handler{
		Handler: inner, crds: crds, mapper: newMapper(served),
		info: apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
	}, nil
}

// restOptions give every resource the storage in memory.
type restOptions struct{}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{ // dry runs copy with the codec
			Config: storagebackend.Config{Codec: unstructured.UnstructuredJSONScheme}, GroupResource: resource,
		},
		EnableGarbageCollection: true, DeleteCollectionWorkers: 1, ResourcePrefix: prefix(resource),
		Decorator: func(
			*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return memory{}, func() {}, nil
		},
	}, nil
}

// server is one API server: the common handler, and what it keeps.
type server struct {
	*handler
	name     string
	store    *store
	caches   []*informers            // that see its changes
	webhooks map[string]http.Handler // by path
	evict    func(namespace, pod string) *apierrors.StatusError
	requests int
}

func newServer(h *handler, name string, changed func(change)) *server {
	s := &server{handler: h, name: name, store: &store{objects: map[string]*unstructured.Unstructured{}}}
	s.store.changed = func(c change) {
		for _, one := range s.caches {
			one.enqueue(c)
		}
		changed(c)
	}
	return s
}

// attach lets the cache see the changes from now on.
func (s *server) attach(c *informers) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.caches = append(s.caches, c)
}

func (s *server) detach(c *informers) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.caches = slices.DeleteFunc(s.caches, func(other *informers) bool { return other == c })
}

// put stores an object as it is, past the handler.
func (s *server) put(resource schema.GroupResource, key string, obj *unstructured.Unstructured) {
	s.store.swap(prefix(resource)+"/"+key, nil, obj)
}

type webhooksKey struct{}

// transport carries the requests of one client to the server.
type transport struct {
	server *server
	rights rights // nil: all
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}}
	ctx := context.WithValue(context.WithValue(r.Context(), storeKey{}, t.server.store), webhooksKey{}, t.server.webhooks)
	t.server.serve(w, r.WithContext(ctx), t.rights)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body := bytes.ReplaceAll(w.body.Bytes(), []byte(`"apiVersion":"`+coreGroup+`/v1"`), []byte(`"apiVersion":"v1"`))
	w.header.Del("Content-Length")
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, rights rights) {
	s.requests++
	r = toCoreGroup(r)
	info, err := s.info.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if rights != nil && !rights.allow(info) {
		refuse(w, apierrors.NewForbidden(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, errNoRule(info)))
		return
	}
	if info.Subresource == "eviction" {
		if err := s.evict(info.Namespace, info.Name); err != nil {
			refuse(w, err)
			return
		}
		writeStatus(w, metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
		return
	}
	if info.Resource == "namespaces" {
		info.Namespace = ""
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	ctx := apirequest.WithUser(apirequest.WithRequestInfo(audit.WithAuditContext(r.Context()), info), &user.DefaultInfo{Name: "world"})
	s.ServeHTTP(w, r.WithContext(ctx))
}

// toCoreGroup changes a request for the group "". Core changes Nodes by strategic merge patches, which custom resources do not know. Without
// directives they are merge patches.
func toCoreGroup(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok {
		return r
	}
	r = r.Clone(r.Context())
	r.URL.Path = "/apis/" + coreGroup + "/" + rest
	if r.Body != nil && r.Method != http.MethodDelete {
		body, _ := io.ReadAll(r.Body)
		body = bytes.ReplaceAll(body, []byte(`"apiVersion":"v1"`), []byte(`"apiVersion":"`+coreGroup+`/v1"`))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if r.Header.Get("Content-Type") == string(types.StrategicMergePatchType) && !bytes.Contains(body, []byte(`"$`)) {
			r.Header.Set("Content-Type", string(types.MergePatchType))
		}
	}
	return r
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) { writeStatus(w, err.Status()) }

func writeStatus(w http.ResponseWriter, status metav1.Status) {
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// answer is a response that is being written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {}
