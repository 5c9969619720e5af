// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

const (
	// lookupTimeout bounds the request for the version of an API server.
	lookupTimeout = 2 * time.Second
	// lookupPause is how long an answer counts before the API server is asked again. Many events wake a pass.
	lookupPause = 5 * time.Second
	// lookupAge is how long an answer is used while the API server is asked again. It is half of versionPoll, so a lost upgrade
	// is never judged by the answer of an earlier poll.
	lookupAge = versionPoll / 2
)

// versionLookups asks API servers for their versions outside of passes, so a pass never waits for an API server that does not
// answer. It sends at most one request at a time for each cluster. The zero value is ready to use.
type versionLookups struct {
	mu    sync.Mutex
	last  map[client.ObjectKey]*versionLookup
	woken chan event.GenericEvent
}

type versionLookup struct {
	question string
	config   *rest.Config // used to reach the API server. A new connection may lead to another one
	version  string       // empty if the API server did not answer
	at       time.Time
	asking   bool
}

// answered reports whether the answer may be used.
func (l versionLookup) answered() bool { return l.version != "" && time.Since(l.at) <= lookupAge }

// failed reports whether the API server did not answer the last time.
func (l versionLookup) failed() bool { return l.version == "" && !l.at.IsZero() }

// source wakes control planes whose API server has answered.
func (l *versionLookups) source() source.Source {
	l.woken = make(chan event.GenericEvent)
	return source.Channel(l.woken, &handler.EnqueueRequestForObject{})
}

// findVersion finds the version of the API server in the answers so far. It is not done until an answer from after the last
// upgrade has arrived.
func (r *Reconciler) findVersion(ctx context.Context, s *scope) outcome.Outcome {
	config, err := r.ClusterCache.GetRESTConfig(ctx, s.clusterKey())
	switch {
	case errors.Is(err, clustercache.ErrClusterNotConnected): // not any more
		return s.connecting()
	case err != nil:
		return outcome.Fail(err)
	}
	found := r.serverVersions.answer(ctx, s.controlPlane.DeepCopy(), config, s.versionKey())
	switch {
	case found.answered():
		s.serverVersion = found.version
		return outcome.Outcome{}
	case found.failed():
		return outcome.WaitFor(connectionRetry, infrav1.ConnectionDownReason, "the API server at %s does not report its version. The provider tries again", s.endpoint())
	}
	return s.connecting()
}

// versionKey names the portal cluster and the upgrade that was the last operation, because its start and its end change the
// answer. No other operation does.
func (s *scope) versionKey() string {
	question := string(s.controlPlane.UID) + " " + s.controlPlane.Spec.ClusterID
	if s.last.Is(operation.Upgrade) {
		question += fmt.Sprint(" ", s.last.ID, s.last.Result)
	}
	return question
}

// answer returns the last answer to the question. If it is not new, the API server is asked again.
func (l *versionLookups) answer(ctx context.Context, who client.Object, config *rest.Config, question string) versionLookup {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(who)
	last := l.last[key]
	if last == nil || last.question != question || last.config.Host != config.Host || last.config.BearerToken != config.BearerToken {
		last = &versionLookup{question: question, config: rest.CopyConfig(config)}
		if l.last == nil {
			l.last = map[client.ObjectKey]*versionLookup{}
		}
		l.last[key] = last
	}
	if !last.asking && time.Since(last.at) > lookupPause {
		last.asking = true
		go l.ask(context.WithoutCancel(ctx), who, rest.CopyConfig(last.config), last)
	}
	return *last
}

// ask asks one API server, and wakes the control plane if a pass waits for the answer or the answer has changed.
func (l *versionLookups) ask(ctx context.Context, who client.Object, config *rest.Config, into *versionLookup) {
	config.Timeout = lookupTimeout
	answer := ""
	if d, err := discovery.NewDiscoveryClientForConfig(config); err == nil {
		if version, err := d.ServerVersion(); err == nil {
			answer = version.GitVersion
		} else {
			ctrl.LoggerFrom(ctx).V(4).Info("The API server did not report its version", "err", err)
		}
	}
	l.mu.Lock()
	changed := into.version != answer || !into.answered()
	into.version, into.at, into.asking = answer, time.Now(), false
	l.mu.Unlock()
	if changed && l.woken != nil {
		l.woken <- event.GenericEvent{Object: who}
	}
}

// forget drops the answers for a control plane that is gone.
func (l *versionLookups) forget(who client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, who)
}
