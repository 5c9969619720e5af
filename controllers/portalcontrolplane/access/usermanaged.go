// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// A kubeconfig Secret with the annotation user-managed belongs to a user. The provider connects with it and never replaces it. It
// still asks the portal for its own kubeconfig in two cases: once, because the answer proves that the account has the portal
// cluster, and when the connection is lost, because a 404 proves that the portal cluster is gone.
const whyUserManaged = "user-managed"

// takenSecret is the outcome if someone else's Secret has the name of the kubeconfig Secret.
func takenSecret(stored storedKubeconfig) outcome.Outcome {
	return outcome.StallFor(0, infrav1.SecretTakenReason, "Secret %s was not written by the provider, so it is not used. Delete the Secret, "+
		"and the provider stores the portal's kubeconfig. Or make the provider use yours: kubectl annotate secret %s -n %s %s=true",
		stored.Name, stored.Name, stored.Namespace, infrav1.UserManagedAnnotation)
}

// useUserManaged keeps the endpoint, and finds out how the API server reacts to the user's kubeconfig.
func (k *Kubeconfigs) useUserManaged(ctx context.Context, p *pass.Pass, stored storedKubeconfig) (w Way, o outcome.Outcome) {
	endpoint, err := endpointOf(stored.content())
	if err == nil {
		err = k.Hosts.CheckServer(p.Identity.BaseURL, endpoint.Host)
	}
	if err != nil {
		return w, outcome.StallFor(0, infrav1.KubeconfigInvalidReason, "the kubeconfig in the user-managed Secret %s cannot be used: %v. %s",
			stored.Name, err, correctUserManaged)
	}
	if p.Record.UserID == "" {
		if o := p.AskKubeconfig(ctx, pass.WhyMissing, func([]byte) outcome.Outcome { return outcome.Outcome{} }); !o.IsDone() {
			return w, o
		}
	}
	if o := recordCluster(ctx, p, endpoint, p.Record.KubeconfigDigest); !o.IsDone() {
		return w, o
	}
	w = k.connect(p, stored)
	w.UserManaged = stored.Name
	if w.Health.Failing() {
		p.AskKubeconfig(ctx, whyUserManaged, func([]byte) outcome.Outcome {
			return outcome.WaitFor(0, infrav1.ReadyReason, "") // asked again ever more slowly
		})
	}
	switch {
	case !p.Gone.IsDone():
		return w, outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	case w.Health == kubeconfigExpired:
		return w, outcome.StallFor(0, infrav1.KubeconfigRefusedReason, "the credentials in the user-managed Secret %s have expired. %s",
			stored.Name, correctUserManaged)
	}
	if _, labeled := stored.Labels[clusterv1.ClusterNameLabel]; !labeled {
		return w, outcome.StallFor(0, infrav1.KubeconfigNotSharedReason, "Cluster API does not find the user-managed Secret %s without its label: "+
			"kubectl label secret %s -n %s %s=%s", stored.Name, stored.Name, stored.Namespace, clusterv1.ClusterNameLabel, p.Cluster.Name)
	}
	return w, outcome.Outcome{}
}

const correctUserManaged = "Correct the Secret, or delete it, and the provider stores the portal's kubeconfig"

// refusedUserManaged reports that a user's kubeconfig gives no connection, with one message for every cause. The user who writes
// the Secret chooses the host, and must not learn what listens there.
func (w Way) refusedUserManaged(p *pass.Pass) outcome.Outcome {
	return outcome.WaitFor(Retry, infrav1.ConnectionDownReason, "the API server at %s, which the user-managed Secret %s names, does not answer, "+
		"is not trusted or refuses the credentials. %s", p.Endpoint(), w.UserManaged, correctUserManaged)
}
