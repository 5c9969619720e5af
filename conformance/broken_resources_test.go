// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var brokenResources = []broken{
	{name: "VPCs under another key", tell: renamed("/vpcs", "vpcs", "items"), noticed: []string{"endpoints/GET vpcs"}},
	{name: "no filter", ask: func(x *exchange) { x.path, _, _ = strings.Cut(x.path, "?") }, noticed: []string{"vpcs/filter by name"}},
	{name: "VPCs without id", tell: inResult("vpc", func(vpc map[string]any) { delete(vpc, "id") }), noticed: []string{"endpoints/POST vpcs"}},
	{name: "networks without id", tell: onSuccess("POST", "/networks", func(x *exchange) { x.body = map[string]any{} }),
		noticed: []string{"endpoints/POST networks", "status/201 carries the id", "gap/network creation"}},
	{name: "any cidr", ask: sentTo("/networks", func(x *exchange) { x.sent["cidr"] = "10.1.0.0/24" }),
		noticed: []string{"networks/cidr is required", "networks/cidr is in CIDR notation"}},
	{name: "no cluster", ask: func(x *exchange) {
		if x.is("POST", "/kubernetes-clusters") {
			x.status, x.body = http.StatusOK, map[string]any{}
		}
	}, noticed: []string{"endpoints/POST kubernetes-clusters", "create/without networkId there is an isolated network"}},
	{name: "defaults for all parameters", ask: sentTo("/kubernetes-clusters", func(x *exchange) {
		for name, value := range map[string]string{"name": "n", "description": "d", "zoneId": "z", "serviceOfferingId": "o", "sshKeyPair": "k"} {
			if text, ok := x.sent[name].(string); !ok || text == "" {
				x.sent[name] = value
			}
		}
		for _, name := range []string{"size", "controlNodes"} {
			if _, ok := x.sent[name].(float64); !ok {
				x.sent[name] = 1
			}
		}
	}), noticed: []string{"create/name is required", "create/description is required", "create/zoneId is required",
		"create/serviceOfferingId is required", "create/size is required", "create/controlNodes is required", "create/sshKeyPair is required"}},
	{name: "other fields are named", tell: func(x *exchange) {
		if at(x.body, "error", "field") != nil {
			x.object("error")["field"] = "something"
		}
	}, noticed: []string{"create/vpcId is required", "create/kubernetesVersionId is required", "errors/field names what is malformed"}},
	{name: "any version", tell: func(x *exchange) {
		if at(x.body, "error", "field") == "kubernetesVersionId" {
			x.status = http.StatusOK
		}
	}, noticed: []string{"create/kubernetesVersionId is one of the list"}},
	{name: "one worker more", ask: sentTo("/kubernetes-clusters", func(x *exchange) {
		if size, ok := x.sent["size"].(float64); ok {
			x.sent["size"] = size + 1
		}
	}), noticed: []string{"create/size workers and controlNodes control nodes", "clusters/40 workers and 3 control nodes fit into a /24",
		"clusters/scale up to size", "clusters/scale down to size", "limits/50 workers, not 51"}},
	{name: "40 workers at most", options: func(o *emulator.Options) { o.MaxWorkers = 40 }, noticed: []string{"limits/50 workers, not 51"}},
	{name: "60 workers at most", options: func(o *emulator.Options) { o.MaxWorkers = 60 }, noticed: []string{"limits/50 workers, not 51"}},
	{name: "networkId is not looked at", ask: sentTo("/kubernetes-clusters", func(x *exchange) { delete(x.sent, "networkId") }),
		noticed: []string{"clusters/nodes are placed in the given network", "create/vpcId is the VPC of the network"}},
	{name: "idempotency keys", ask: func(x *exchange) {
		if old, again := x.seen.answers[x.path]; again && strings.Contains(x.path, "#") {
			x.status, x.body = old.status, old.body
		}
	}, tell: func(x *exchange) { x.seen.answers[x.path] = *x }, noticed: []string{"create/an idempotency key changes nothing"}},
	{name: "409 for business rules", tell: statuses(422, 409), noticed: []string{"status/422 for a broken business rule"}},
	{name: "garbled kubeconfig", tell: onSuccess("GET", "/config", func(x *exchange) { x.object()["kubeconfig"] = "garbled" }),
		noticed: []string{"endpoints/GET kubernetes-clusters config"}},
	{name: "kubeconfig at once", tell: func(x *exchange) {
		if x.is("GET", "/config") {
			x.status, x.body = http.StatusOK, map[string]any{"kubeconfig": "early"}
		}
	}, noticed: []string{"states/no kubeconfig before Running", "clusters/delete removes the cluster"}},
	{name: "scale is done at once", tell: onSuccess("POST", "/scale", doneAtOnce), noticed: []string{"endpoints/POST kubernetes-clusters scale"}},
	{name: "upgrade is done at once", tell: onSuccess("POST", "/upgrade", doneAtOnce), noticed: []string{"endpoints/POST kubernetes-clusters upgrade"}},
	{name: "delete is done at once", tell: onSuccess("DELETE", "", doneAtOnce), noticed: []string{"endpoints/DELETE kubernetes-clusters"}},
	{name: "upgrade does nothing", ask: sentTo("/upgrade", func(x *exchange) {
		x.path = strings.Replace(x.path, "/upgrade", "/scale", 1)
		x.sent = map[string]any{"size": 2}
	}), noticed: []string{"clusters/upgrade moves the cluster to the version"}},
	{name: "scale upgrades, too", options: func(o *emulator.Options) {
		o.Versions = []emulator.Version{{ID: "old", SemanticVersion: "v1.35.1"}, {ID: "new", SemanticVersion: "v1.35.2"}}
	}, ask: sentTo("/scale", func(x *exchange) {
		x.more("POST", strings.Replace(x.path, "/scale", "/upgrade", 1), map[string]any{"kubernetesVersionId": "new"})
	}), noticed: []string{"clusters/scale leaves the control plane alone"}},
	{name: "upgrade of all nodes at once", options: func(o *emulator.Options) { o.Durations.Upgrade = time.Millisecond },
		noticed: []string{"clusters/upgrade is rolling"}},
	{name: "delete takes the volumes along", options: func(o *emulator.Options) { o.VolumesPerCluster = 0 },
		noticed: []string{"clusters/delete leaves the volumes"}},
	{name: "volumes stay", ask: func(x *exchange) {
		if x.is("DELETE", "/volumes/") {
			x.status, x.body = http.StatusOK, map[string]any{}
		}
	}, noticed: []string{"endpoints/DELETE volumes"}},
	{name: "instances are missing", tell: onSuccess("GET", "/instances", func(x *exchange) {
		if list, ok := at(x.body, "instances").([]any); ok && len(list) > 1 {
			x.object()["instances"] = list[1:]
		}
	}), noticed: []string{"endpoints/GET instances"}},
	{name: "another instance", tell: onSuccess("GET", "/instances/", func(x *exchange) { x.object()["id"] = "another" }),
		noticed: []string{"endpoints/GET instances one"}},
}

var brokenJobs = []broken{
	{name: "another job", tell: onSuccess("GET", "/jobs/", func(x *exchange) { x.object()["jobId"] = "another" }),
		noticed: []string{"endpoints/GET jobs"}},
	{name: "jobs are done", tell: onSuccess("GET", "/jobs/", func(x *exchange) {
		if at(x.body, "status") == "succeeded" {
			x.object()["status"] = "done"
		}
	}), noticed: []string{"jobs/an accepted operation is polled to its end"}},
	{name: "jobs are queued", tell: onSuccess("GET", "/jobs/", func(x *exchange) {
		if at(x.body, "status") == "pending" {
			x.object()["status"] = "queued"
		}
	}), noticed: []string{"jobs/status is one of four"}},
	{name: "202 without status", tell: accepted(func(x *exchange) { delete(x.object(), "status") }),
		noticed: []string{"jobs/202 carries jobId and status"}},
	{name: "jobs without result", tell: onSuccess("GET", "/jobs/", func(x *exchange) { delete(x.object(), "result") }),
		noticed: []string{"jobs/result of a succeeded job"}},
	{name: "failed jobs without error", tell: onSuccess("GET", "/jobs/", func(x *exchange) { delete(x.object(), "error") }),
		noticed: []string{"jobs/error of a failed job", "gap/job error"}},
	{name: "jobs start running", tell: accepted(func(x *exchange) { x.object()["status"] = "running" }),
		noticed: []string{"states/a job starts as pending", "jobs/always asynchronous: vpc create", "jobs/always asynchronous: cluster create",
			"jobs/always asynchronous: cluster scale", "jobs/always asynchronous: cluster upgrade", "jobs/always asynchronous: cluster delete"}},
	{name: "jobs never run", tell: onSuccess("GET", "/jobs/", func(x *exchange) {
		if at(x.body, "status") == "running" {
			x.object()["status"] = "pending"
		}
	}), noticed: []string{"states/a job in progress is running"}},
	{name: "202 after the work", tell: accepted(func(x *exchange) { x.late = func() { time.Sleep(time.Minute) } }),
		noticed: []string{"jobs/202 comes before the work is done"}},
	{name: "busy forever", ask: func(x *exchange) {
		if x.is("POST", "/scale") {
			if x.seen.count++; x.seen.count > 1 {
				x.status, x.body = http.StatusConflict, map[string]any{}
			}
		}
	}, noticed: []string{"states/a busy cluster is free again when the job has ended"}},
}

func doneAtOnce(x *exchange) { x.status = http.StatusOK }

// sentTo changes the bodies of POST requests.
func sentTo(path string, change func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if x.is("POST", path) && x.sent != nil {
			change(x)
		}
	}
}

// accepted changes every 202 answer.
func accepted(change func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if x.status == http.StatusAccepted {
			change(x)
		}
	}
}

// inResult changes the created record in a job's result.
func inResult(key string, change func(map[string]any)) func(*exchange) {
	return onSuccess("GET", "/jobs/", func(x *exchange) { change(x.object("result", key)) })
}
