// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// CreateClusterRequest holds the create parameters of a managed Kubernetes cluster (specification, "Kubernetes
// cluster"). All are required but NetworkID, VPCID and SSHKeyPair.
type CreateClusterRequest struct {
	Name                string `json:"name"`
	Description         string `json:"description"`
	ZoneID              string `json:"zoneId"`
	KubernetesVersionID string `json:"kubernetesVersionId"`
	ServiceOfferingID   string `json:"serviceOfferingId"`
	Size                int    `json:"size"`         // worker nodes
	ControlNodes        int    `json:"controlNodes"` // 3 for high availability
	NetworkID           string `json:"networkId,omitempty"`
	VPCID               string `json:"vpcId,omitempty"` // of the tier in NetworkID
	SSHKeyPair          string `json:"sshKeyPair,omitempty"`
}

// Cluster is a record of the undocumented list of clusters.
type Cluster struct {
	ID    string
	Name  string
	State string
	Raw   json.RawMessage // the record as the portal sent it
}

// Runs reports whether the cluster runs, and not only exists: its creation may still fail, or have failed. Running is the one state that the
// specification names. If the record shows no state, the kubeconfig tells, which a portal returns for a running cluster.
func (r Cluster) Runs(ctx context.Context, portal *Client) (bool, error) {
	if r.State != "" {
		return strings.EqualFold(r.State, "Running"), nil
	}
	_, err := portal.Kubeconfig(ctx, r.ID)
	if IsNotAllowed(err) || IsBusy(err) || IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// CreateCluster starts the creation of a cluster. There are no idempotency keys: after an error that
// IsUnknownOutcome, calling it again may make a second cluster.
func (c *Client) CreateCluster(ctx context.Context, r CreateClusterRequest) (Job, error) {
	return c.startJob(ctx, routeCreateCluster, "", r)
}

// FindClusters asks for the clusters of exactly that name. The specification has no such endpoint, so a portal may
// answer anything: unless the answer is a list of clusters the error IsUnsupported. Only a refusal by the rate limit,
// and a connection without an answer, are what they are elsewhere.
func (c *Client) FindClusters(ctx context.Context, name string) ([]Cluster, error) {
	ask := func() ([]Cluster, error) {
		return list(ctx, c, routeFindClusters, url.Values{"name": {name}}, "kubernetesClusters", func(r record) Cluster {
			return Cluster{ID: string(r.ID), Name: string(r.Name), State: string(r.State), Raw: r.raw}
		})
	}
	all, err := ask()
	if isLookupAnswer(err) && (asError(err).Status == http.StatusUnauthorized || IsUnauthorized(err) || IsMFARequired(err)) {
		// A documented read replaces the token if the portal does not take it. If the login is refused then, the session remembers that,
		// and the second question gets that refusal.
		if _, err := c.KubernetesVersions(ctx); IsRateLimited(err) || IsUnavailable(err) {
			return nil, err // nothing was found out about the token
		}
		all, err = ask()
	}
	if isLookupAnswer(err) && !IsRateLimited(err) {
		c.note(gapFind, findUnknown)
		asError(err).kind = kindUnsupported
	}
	if err != nil {
		return nil, err
	}
	c.note(gapFind, findListed)
	// A portal that does not know the parameter lists them all.
	return filter(all, func(cluster Cluster) bool { return cluster.Name == name }), nil
}

// isLookupAnswer reports whether the error is the portal's answer to the undocumented question.
func isLookupAnswer(err error) bool {
	e := asError(err)
	return e != nil && e.Endpoint == routeFindClusters.String() && e.Status != 0
}

// Kubeconfig fetches the cluster's kubeconfig file, available once the cluster is Running.
func (c *Client) Kubeconfig(ctx context.Context, clusterID string) ([]byte, error) {
	request, a, err := c.ask(ctx, routeKubeconfig, clusterID, nil)
	if err != nil {
		return nil, err
	}
	kubeconfig, ok := parseKubeconfig(a.body)
	if !ok {
		return nil, unreadable(request, a, "no kubeconfig")
	}
	return kubeconfig, nil
}

func parseKubeconfig(body []byte) ([]byte, bool) {
	var v struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	err := json.Unmarshal(body, &v)
	return []byte(v.Kubeconfig), err == nil && v.Kubeconfig != ""
}

// ScaleCluster asks for a number of worker nodes. The number is absolute, so the call may be repeated.
func (c *Client) ScaleCluster(ctx context.Context, clusterID string, size int) (Job, error) {
	return c.startJob(ctx, routeScaleCluster, clusterID, map[string]int{"size": size})
}

// UpgradeCluster moves control nodes, then workers, to a version from KubernetesVersions.
func (c *Client) UpgradeCluster(ctx context.Context, clusterID, kubernetesVersionID string) (Job, error) {
	return c.startJob(ctx, routeUpgradeCluster, clusterID, map[string]string{"kubernetesVersionId": kubernetesVersionID})
}

// DeleteCluster removes all nodes, the control plane and the record. Volumes stay. See DeleteVolume.
func (c *Client) DeleteCluster(ctx context.Context, clusterID string) (Job, error) {
	return c.startJob(ctx, routeDeleteCluster, clusterID, nil)
}

// DeleteVolume deletes a volume. A cluster's volumes outlive the cluster. The specification does not show whether the deletion is
// synchronous. If it is, the Job has succeeded and has no ID.
func (c *Client) DeleteVolume(ctx context.Context, volumeID string) (Job, error) {
	request, a, err := c.ask(ctx, routeDeleteVolume, volumeID, nil)
	if err != nil {
		return Job{}, err
	}
	job := startedJob(request, a)
	if job.ID == "" {
		if a.status == http.StatusAccepted {
			return Job{}, unreadable(request, a, "no jobId")
		}
		job.Status = JobSucceeded
	}
	return job, nil
}
