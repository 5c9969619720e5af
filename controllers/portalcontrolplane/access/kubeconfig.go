// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

// Retry is how often an API server that does not answer is asked again.
const Retry = 15 * time.Second

// Annotations of the kubeconfig Secret.
const (
	// FetchedAnnotation says when the kubeconfig was fetched from the portal.
	FetchedAnnotation = "infrastructure.cluster.x-k8s.io/fetched-at"
	// fetchedAfterAnnotation names the last upgrade that had ended by then.
	fetchedAfterAnnotation = "infrastructure.cluster.x-k8s.io/fetched-after"
)

// storedKubeconfig is the Secret with the kubeconfig.
type storedKubeconfig struct {
	*corev1.Secret
	missing bool
}

// content is the kubeconfig file. It is empty if there is none.
func (k storedKubeconfig) content() []byte { return k.Data[secret.KubeconfigDataName] }

// fetched returns when the kubeconfig was fetched. If the annotation cannot be read, that is when the Secret was created.
func (k storedKubeconfig) fetched() time.Time {
	if at, err := time.Parse(time.RFC3339, k.Annotations[FetchedAnnotation]); err == nil {
		return at
	}
	return k.CreationTimestamp.Time
}

// writtenByProvider reports whether the Secret holds the kubeconfig that the provider stored last. This is decided by the record,
// because users of the namespace can write the Secret.
func (k storedKubeconfig) writtenByProvider(record operation.Record) bool {
	return !k.missing && kubeconfig.Digest(k.content()) == record.KubeconfigDigest
}

// taken reports whether the Secret lacks the mark of a Secret that the provider wrote. A Secret with the mark may have been
// changed since, restored from an older backup, or stored by an earlier version of the provider. It is replaced and not used, so
// a user who forges the mark only loses the Secret.
func (k storedKubeconfig) taken(record operation.Record) bool {
	_, marked := k.Annotations[FetchedAnnotation]
	return !k.missing && !marked && !k.writtenByProvider(record)
}

// The reasons for a fetch besides an access that fails. Each has its own backoff, so that a portal that returns the same
// kubeconfig for one reason is still asked at once for another one.
const (
	whyUpgrade  = "upgrade"
	whyExpiring = "expiring"
	whyChanged  = string(kubeconfigChanged)
)

// Keep keeps the kubeconfig Secret (CAPI contract, Cluster kubeconfig management) and the endpoint. An existing
// kubeconfig is fetched again if it does not work, well before it expires, and after each upgrade, which may change it. A scale
// does not change the control plane.
func (k *Kubeconfigs) Keep(ctx context.Context, p *pass.Pass) (w Way, o outcome.Outcome) {
	stored, err := k.readKubeconfig(ctx, p)
	if err != nil {
		return w, outcome.Fail(fmt.Errorf("read kubeconfig Secret: %w", err))
	}
	switch {
	case kubeconfig.UserManaged(stored.Secret):
		return k.useUserManaged(ctx, p, stored)
	case stored.taken(p.Record):
		k.Secrets.Forget(secretKey(p))
		return w, takenSecret(stored)
	}
	owned := k.restoreOwner(ctx, p, &stored)
	w = k.connect(p, stored)
	why, again := w.whyFetch(p, stored)
	if why == "" {
		return w, owned.NoLaterThan(again)
	}
	o = k.fetchKubeconfig(ctx, p, &w, stored, why)
	switch {
	case why == pass.WhyMissing, o.IsDone(), o.Reason == infrav1.KubeconfigNotSharedReason:
		return w, o
	case !p.Gone.IsDone():
		return w, outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	case why == whyChanged || w.Health == kubeconfigExpired || w.Health == workload.Unusable:
		return w, w.unusable(why, o)
	}
	return w, owned.NoLaterThan(o.RequeueAfter) // the old one may still do
}

// restoreOwner makes the control plane the owner of the Secret again, after a move or a restore. A refusal is not repeated at once, and ends
// nothing else.
func (k *Kubeconfigs) restoreOwner(ctx context.Context, p *pass.Pass, stored *storedKubeconfig) outcome.Outcome {
	if stored.missing {
		return outcome.Outcome{}
	}
	return p.Backoff.Do("kubeconfig owner", stored.ResourceVersion, func() outcome.Outcome {
		restored := stored.DeepCopy()
		switch _, err := ownerref.RestoreSecret(ctx, k.Client, p.ControlPlane, p.Cluster.Name, restored); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return outcome.RetryAfter(0) // it was changed a moment ago: look at it
		case err != nil:
			return notShared(restored.Name, err)
		}
		stored.Secret = restored
		return outcome.Outcome{}
	})
}

// notShared is the outcome if the management cluster refuses to store the Secret. The provider uses the kubeconfig all the same.
func notShared(name string, err error) outcome.Outcome {
	if outcome.IsTransient(err) {
		return outcome.RetryAfter(Retry)
	}
	return outcome.StallFor(0, infrav1.KubeconfigNotSharedReason, "Secret %s cannot be written: %v. Correct what refuses it, for example a quota or a "+
		"policy. The provider has a kubeconfig and tries again, but Cluster API and users may have none, or an old one", name, err)
}

// Forget drops what is known of the kubeconfig Secret of a control plane that goes.
func (k *Kubeconfigs) Forget(p *pass.Pass) {
	if p.Cluster != nil {
		k.Secrets.Forget(secretKey(p))
	}
}

// readKubeconfig returns the kubeconfig Secret, which may be changed. It is read only if it may have changed.
func (k *Kubeconfigs) readKubeconfig(ctx context.Context, p *pass.Pass) (storedKubeconfig, error) {
	key := secretKey(p)
	missing := storedKubeconfig{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, missing: true}
	if k.Secrets.Absent(ctx, key) {
		return missing, nil // if one was created a moment ago, creating ours fails
	}
	known, err := k.Secrets.Get(ctx, key)
	if err != nil {
		return missing, client.IgnoreNotFound(err)
	}
	return storedKubeconfig{Secret: known.DeepCopy()}, nil
}

func secretKey(p *pass.Pass) client.ObjectKey {
	return client.ObjectKey{Namespace: p.Cluster.Namespace, Name: secret.Name(p.Cluster.Name, secret.Kubeconfig)}
}

// whyFetch returns the reason to fetch the kubeconfig now, or "" and the time until it has to be renewed.
func (w Way) whyFetch(p *pass.Pass, stored storedKubeconfig) (why string, again time.Duration) {
	switch {
	case stored.missing || !p.ControlPlane.Spec.ControlPlaneEndpoint.IsValid():
		return pass.WhyMissing, 0
	case !stored.writtenByProvider(p.Record):
		return whyChanged, 0
	case w.Health.Failing():
		return string(w.Health), 0
	case p.Record.UpgradeID != "" && stored.Annotations[fetchedAfterAnnotation] != p.Record.UpgradeID:
		return whyUpgrade, 0
	}
	again, due := renewIn(w.expires, stored.fetched(), time.Now())
	if due {
		return whyExpiring, 0
	}
	return "", again
}

// unusable is the outcome if the stored kubeconfig cannot be used and the portal returned no other one.
func (w Way) unusable(why string, fetch outcome.Outcome) outcome.Outcome {
	reason, state := infrav1.KubeconfigRefusedReason, "the credentials in the stored kubeconfig have expired"
	advice := ", and the portal returns no newer ones. Ask the portal's support for new credentials"
	switch {
	case w.Health == workload.Unusable:
		reason, state = infrav1.KubeconfigInvalidReason, "the content of the kubeconfig Secret is not an allowed kubeconfig"
	case why == whyChanged:
		reason, state = infrav1.KubeconfigInvalidReason, "the kubeconfig Secret does not hold the kubeconfig that the provider fetched last, so it is not used"
		advice = ". The provider fetches the kubeconfig again"
	}
	if fetch.Kind != outcome.Retry && fetch.Message != "" {
		advice = ", and a new one cannot be fetched: " + fetch.Message
	}
	o := outcome.StallFor(fetch.RequeueAfter, reason, "%s%s", state, advice)
	o.Cause = fetch.Cause
	return o
}

// fetchKubeconfig fetches and stores the kubeconfig. The digest is recorded before the Secret is written. A manager that stops in
// between leaves a Secret that does not match, which is fetched again.
func (k *Kubeconfigs) fetchKubeconfig(ctx context.Context, p *pass.Pass, w *Way, stored storedKubeconfig, why string) outcome.Outcome {
	return p.AskKubeconfig(ctx, why, func(config []byte) outcome.Outcome {
		endpoint, err := endpointOf(config)
		if err == nil {
			err = k.Hosts.CheckServer(p.Identity.BaseURL, endpoint.Host)
		}
		if err == nil {
			config, err = kubeconfig.Minimal(config)
		}
		if err != nil {
			return outcome.StallFor(0, infrav1.KubeconfigInvalidReason, "the portal's kubeconfig cannot be used: %v", err)
		}
		same := bytes.Equal(stored.content(), config) && stored.writtenByProvider(p.Record)
		if o := recordCluster(ctx, p, endpoint, kubeconfig.Digest(config)); !o.IsDone() {
			return o
		}
		name, err := stored.Name, k.storeKubeconfig(ctx, p, stored, config)
		switch {
		case stored.missing && apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			return outcome.RetryAfter(0) // it was created or deleted a moment ago: look at it
		case err == nil && same && why != pass.WhyMissing:
			return outcome.WaitFor(0, infrav1.ReadyReason, "") // asked again ever more slowly
		}
		*w = Way{Connection: k.Workloads.Ensure(client.ObjectKeyFromObject(p.ControlPlane), config), Health: workload.Connecting}
		if err != nil {
			return notShared(name, err)
		}
		return outcome.Outcome{}
	})
}

// storeKubeconfig creates or updates the Secret as the contract requires.
func (k *Kubeconfigs) storeKubeconfig(ctx context.Context, p *pass.Pass, stored storedKubeconfig, config []byte) (err error) {
	before, obj := stored.DeepCopy(), stored.Secret
	obj.Data = map[string][]byte{secret.KubeconfigDataName: config}
	metav1.SetMetaDataLabel(&obj.ObjectMeta, clusterv1.ClusterNameLabel, p.Cluster.Name)
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, FetchedAnnotation, time.Now().UTC().Format(time.RFC3339))
	if p.Record.UpgradeID != "" {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, fetchedAfterAnnotation, p.Record.UpgradeID)
	}
	if err := controllerutil.SetControllerReference(p.ControlPlane, obj, k.Client.Scheme()); err != nil {
		return fmt.Errorf("kubeconfig Secret %s: %w", obj.Name, err)
	}
	if stored.missing {
		obj.Type = clusterv1.ClusterSecretType
		err = k.Client.Create(ctx, obj)
	} else {
		err = k.Client.Patch(ctx, obj, client.MergeFrom(before))
	}
	if k.Secrets.Forget(secretKey(p)); err == nil {
		k.Secrets.Put(obj.DeepCopy())
	}
	return err
}

// recordCluster stores the endpoint, the digest of the kubeconfig and, for an adopted cluster, the user that knows it. An
// endpoint that the user chose stays.
func recordCluster(ctx context.Context, p *pass.Pass, endpoint clusterv1.APIEndpoint, digest string) outcome.Outcome {
	userID := p.Record.UserID
	if userID == "" {
		var err error
		if userID, err = p.Identity.Portal.UserID(ctx); err != nil {
			return outcome.FromPortalError(err)
		}
	}
	inSpec := endpoint
	if p.EndpointChosen() {
		inSpec = p.ControlPlane.Spec.ControlPlaneEndpoint
	}
	if p.ControlPlane.Spec.ControlPlaneEndpoint == inSpec && p.Record.Endpoint == endpoint && p.Record.UserID == userID && p.Record.KubeconfigDigest == digest {
		return outcome.Outcome{}
	}
	err := p.Change(ctx, func(next *operation.State) {
		p.ControlPlane.Spec.ControlPlaneEndpoint = inSpec
		next.Record.UserID, next.Record.KubeconfigDigest, next.Record.Endpoint = userID, digest, endpoint
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}
