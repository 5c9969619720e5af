{{- define "tables" -}}
# Reference

- [Conditions](#conditions), [reasons](#reasons), [events](#events), [alert rules](#alert-rules)
- [Annotations](#annotations), [flags of the manager](#flags), [rights of the manager](#rights-of-the-manager)
- [Who sets which field](#who-sets-which-field)
- [Metrics](#metrics), [dashboards](#dashboards)
- [portalctl](#portalctl), the portal's API on the command line
- [Kinds](#kinds), with every field

`make manifests` generates this page: the tables from `hack/release/reference/tables.tpl`, the kinds from the Go types.

## Conditions

These are conditions of the PortalControlPlane, unless the table names another kind:

| Type | True means |
| --- | --- |
| `Ready` | `Available`, `VersionUpToDate` and `WorkersReady` are True |
| `Ready` of a PortalCluster | `IdentityReady` and `NetworkReady` are True |
| `Ready` of a PortalClusterIdentity | its Secret is complete |
| `Ready` of a PortalMachine or PortalMachinePool | the object has its nodes |
| `IdentityReady` | of a PortalCluster: the portal has accepted the login |
| `NetworkReady` | of a PortalCluster: VPC and network are known |
| `Available` | `Provisioned` and `Connected` are True |
| `Provisioned` | the portal cluster exists |
| `KubeconfigReady` | the Secret `<cluster>-kubeconfig` has the kubeconfig |
| `Connected` | the API server of the portal cluster answers |
| `VersionUpToDate` | the portal cluster runs `spec.version` |
| `WorkersReady` | Machines and worker nodes are one to one |
| `TopologyUpgradable` | an upgrade of `spec.topology.version` would reach the MachineDeployments |
| `OperationInProgress` | an operation runs at the portal, or the portal's answer to it is lost |
| `RollingOut` | an upgrade runs at the portal |
| `ScalingUp` | a scale to more workers runs at the portal |
| `ScalingDown` | a scale to fewer workers runs at the portal |
| `Deleting` | the object is being deleted |
| `Paused` | the object is [paused](credentials.md#pause) |

`Ready` and `Available` have the reason and message of the first condition that is not True. A wait for the [rate limit](fleet.md#the-rate-limit)
changes no condition.

## Reasons

Good states, and reasons to wait:

| Reason | Meaning |
| --- | --- |
| `Ready`, `Idle` | the good state |
| `NotDeleting`, `NotRollingOut`, `NotScalingUp`, `NotScalingDown`, `NotPaused` | the good state of a condition that is False |
| `Paused` | [end the pause](credentials.md#pause) |
| `NotYetReported` | the condition that `Ready` or `Available` needs does not exist yet |
| `Creating`, `Upgrading`, `ScalingUp`, `ScalingDown`, `Draining`, `Deleting`, `Released`, `WaitingForOperation` | the operation or deletion that the message names is under way |
| `WaitingForDependency` | see the condition or the object that the message names |
| `WaitingForNodes` | nodes have to join, become Ready or go |

Reasons that may need you:

| Reason | Meaning, and what to do |
| --- | --- |
| `WaitingForObject` | an object or field is missing. Create it, or wait if core does |
| `PortalUnavailable` | the portal [cannot be reached](troubleshooting.md#the-portal-or-the-way-to-it), or something else answers |
| `PortalBusy` | another operation runs, perhaps started by a person at the portal. Wait |
| `Unauthorized`, `MFARequired` | the portal refuses [the login](troubleshooting.md#the-portal-or-the-way-to-it) |
| `IdentityInvalid` | create the Secret, or correct the [key](getting-started.md#2-prepare) that the message names |
| `IdentityNotReady`, `IdentityNotAllowed` | ask the administrator of the [PortalClusterIdentity](tenants.md#share-an-account) |
| `AccountChanged` | the Secret has a [user or portal](troubleshooting.md#the-portal-or-the-way-to-it) that does not know the cluster |
| `AnnotationUnreadable` | someone changed an annotation of the provider. [Restore it](troubleshooting.md#the-portal-or-the-way-to-it) |
| `Refused` | the portal refuses the request. Correct what the message names: spec, rights of the portal user or quota. With the portal's code `OPERATION_NOT_ALLOWED`, the portal may [need a repair](troubleshooting.md#the-portal-needs-a-repair) |
| `InsufficientCapacity` | the zone has no room. The provider tries again. A creation can also go to [another zone](flavors.md) |
| `JobFailed` | the message has the portal's error. If it does not say what to change, ask the portal's support |
| `OperationStopped` | jobs failed three times. The provider repeats the operation [when you allow it](troubleshooting.md#an-operation-has-stopped) |
| `JobStuck` | no progress for [30 minutes](troubleshooting.md#a-scale-or-an-upgrade-does-not-end) |
| `AnswerLost` | the portal's answer to a scale, an upgrade, a deletion or the creation of a VPC [was lost](troubleshooting.md#an-answer-was-lost). The provider finds out what happened |
| `OutcomeUnknown` | the portal's answer to a creation was lost. [Look at the portal](restore.md#a-creation-whose-outcome-is-unknown) |
| `OwnedByAnother` | another object owns the portal cluster. Delete this Cluster, or [hand over](restore.md#if-the-old-manager-still-runs). Of a PortalMachinePool: the Cluster has two MachinePools. Delete one |
| `RestoredObject` | the object is a copy, or from a backup. [Decide](restore.md#restoredobject) |
| `CreationsHeld` | the identity [holds creations](restore.md#start-from-the-portal-and-git). Set `spec.clusterID`, or allow them |
| `PortalClusterGone` | the portal does not know [the cluster](restore.md#the-portal-cluster-is-gone) |
| `VersionNotOffered` | set `spec.version` to one of the versions in the message |
| `UpgradeHeld` | [correct what may stop the upgrade](upgrade.md#before-an-upgrade) |
| `TopologyNotUpgradable` | one of [three causes](upgrade.md#topologyupgradable-is-false) |
| `KubeconfigInvalid` | the kubeconfig names a file, a command, a proxy or a password. [What is allowed](credentials.md#private-control-planes) |
| `KubeconfigRefused` | the portal's kubeconfig has expired, or does not match the server. Ask the portal's support |
| `KubeconfigNotShared` | the provider works with a kubeconfig that Cluster API and users do not find. Correct the quota or policy that refuses the Secret, or set the label of your own Secret |
| `ConnectionDown` | the API server does not answer. Normal after a creation, and in an upgrade with one control node. Else check that the manager's Pod reaches the address in the message |
| `SecretTaken` | delete the Secret in the message, or mark a kubeconfig [as yours](credentials.md#private-control-planes) |
| `TemplateNotHonored` | revert the template: a cluster has [one size of node](workers.md) |
| `NodesNotReady`, `NodesUnclaimed`, `NodesDiffer`, `WorkersUnrecognized` | see [Nodes](troubleshooting.md#nodes) |
| `OrderUnknown` | [every node that may go is to be drained](scale.md#which-node-goes), and that is any of the workers |
| `ScaleDownDisabled` | of `WorkersReady`, which is True: [the autoscaler removes no nodes](troubleshooting.md#the-autoscaler-removes-no-nodes) |
| `TooManyNodes` | lower the replicas to [500](limits.md#numbers). Of `Connected`: remove workers at the portal, or delete Node objects of machines that are gone |
| `DeletionProtected` | the deletion is [refused or held](deletion.md#protect-a-cluster) |
| `DeletionNotConfirmed` | the deletion is [held](deletion.md#a-deletion-is-held). Of `WorkersReady`: [MachineDeployments are being deleted](troubleshooting.md#workers-are-kept) |
| `InternalError` | an unexpected error. See the [log](troubleshooting.md#logs) |

## Events

[An afternoon](afternoon.md) shows how to read events. When a condition begins to wait for a person, or an answer was lost, a Warning has the
condition's reason and message. Other events:

| Reason | What happened, and what to do |
| --- | --- |
| `OperationStarted`, `OperationSucceeded` | the portal accepted or finished an operation |
| `OperationFailed` | a job failed, or a person abandoned it. After failed creations, the deletion of the object has another such event. It names clusters that may remain: delete them at the portal |
| `PortalClusterAdopted` | the object has the portal cluster of `spec.clusterID`. The message says what a deletion does |
| `UpgradeObstacles` | the portal accepted an upgrade, and the message names [what may stop it](upgrade.md#before-an-upgrade) |
| `NodeDrainStarted` | the drain of a Node that the portal is expected to remove begins |
| `NodeDrainEnded` | the drain of the Node has ended, because its Pods are gone or its time is over. Or the Node stays, and takes Pods again: the message says which |
| `NodeDrainBlocked` | the Pods in the message cannot be evicted. [A drain blocks](troubleshooting.md#a-drain-blocks) |
| `MachineMoved` | a Machine got another Node. The message has the reason |
| `UnexpectedWorkersRemoved` | the portal removed other workers than expected, perhaps with their Pods. [Set the order](scale.md#which-node-goes) |
| `UndrainedWorkersRemoved` | the portal removed nodes that were not drained, so Pods are lost. [Rule it out](scale.md#which-node-goes) |
| `NetworkRemains`, `NetworkMayRemain` | a network or VPC [remains](deletion.md), or may remain |
| `VolumesRemain`, `VolumesMayRemain` | volumes [remain](deletion.md), billed, or the provider cannot name all of them |
| `PortalClusterRetained` | the object is gone, and the portal cluster stays, billed |
| `OwnershipGivenUp` | two objects had claimed one portal cluster, and the younger one gave it up |
| `AnotherManager` | another management cluster [manages the portal cluster too](restore.md#if-the-old-manager-still-runs) |
| `ProtectionIncomplete` | only one of Cluster and PortalControlPlane is [protected](deletion.md#protect-a-cluster). Annotate both |
| `DeletionHeld` | [the deletion waits for a person](deletion.md#a-deletion-is-held) |

## Annotations

The names begin with `infrastructure.cluster.x-k8s.io/`. You set these:

| Annotation | On | Value |
| --- | --- | --- |
| `cluster-id` | PortalControlPlane, or `spec.topology.controlPlane.metadata` of the Cluster | the id of its portal cluster, for Git: without `spec.clusterID`, [nothing is created](restore.md#start-from-the-portal-and-git) |
| `deletion-protection` | Cluster and PortalControlPlane | every value but `""` and `"false"` [refuses their deletion](deletion.md#protect-a-cluster) |
| `decision` | PortalControlPlane, PortalCluster | `retry:`, `abandon:` or `delete:` and an id, or `trust:` and a portal's address. The condition's message has the command |
| `autoscaler-removes-nodes` | MachinePool | `"true"`: its cluster autoscaler [is 1.37 or later](autoscaler.md#machinepool) |
| `user-managed` | the kubeconfig Secret | `"true"`: the kubeconfig [is yours](credentials.md#private-control-planes) |

The provider sets `portal-*` on its objects and on Machines, and these on Nodes, mostly with a time:

| Annotation | Meaning |
| --- | --- |
| `drain-started` | the provider drains this cordoned Node |
| `volume-detach-started` | its Pods are gone, and the provider waits until its volumes are detached |
| `drained` | the Node is drained and waits for the portal. No Machine is bound to it |
| `batch` | the operation of the portal that made the Node. [A batch has no order](scale.md#which-node-goes) |
| `drain-rules` | the rules for a drain, from the last Machine on the Node |
| `scale-down-disabled` | the provider has set the [autoscaler's annotation](autoscaler.md#what-it-can-remove) of that name |

**To let another system manage a PortalCluster**, create it with core's annotation `cluster.x-k8s.io/managed-by`. The provider then does not change the
PortalCluster. The other system sets `status.initialization.provisioned`, `status.vpcID` and, for a network that exists, `status.networkID`. Do not set the
annotation later: the deletion of the PortalCluster would then hang until you remove the annotation.

## Who sets which field

The fourth column has what the provider sets. `portal-*` are annotations with the prefix `infrastructure.cluster.x-k8s.io/`.

| Kind | You set | Filled in if you leave it out | The provider sets | Core sets |
| --- | --- | --- | --- | --- |
| `PortalCluster` | `spec.identityRef` `spec.zoneID` `spec.vpc` `spec.network` | | `finalizers` `portal-*` `status` | `labels` `ownerReferences` |
| `PortalControlPlane` | `spec.version` `spec.replicas` `spec.description` `spec.removalOrder` `spec.drainBeforeScaleDown` `spec.upgradePrecheck` `spec.workerNodeSelector` `spec.workers` | `spec.clusterName` `spec.clusterID` `spec.controlPlaneEndpoint` `spec.deletionPolicy` | `finalizers` `portal-*` `status` | `labels` `ownerReferences` |
| `PortalMachineTemplate` | `spec.template` | | `status` | `ownerReferences` |
| `PortalMachine` | | | `spec.providerID` `spec.node` `status` | `spec.serviceOfferingID` `spec.sshKeyPair` `labels` `ownerReferences` |
| `PortalMachinePoolTemplate` | `spec.template` | | | `ownerReferences` |
| `PortalMachinePool` | `spec.serviceOfferingID` `spec.sshKeyPair` | | `spec.providerIDList` `status` `finalizers` | `ownerReferences` |
| `PortalBootstrapConfig` | | | `status` | `labels` `ownerReferences` |
| `PortalClusterIdentity` | `spec.secretRef` `spec.allowedNamespaces` | | `finalizers` `status` | |
| `PortalClusterTemplate` | `spec.template` | | | `ownerReferences` |
| `PortalControlPlaneTemplate` | `spec.template` | | | `ownerReferences` |
| `PortalBootstrapConfigTemplate` | `spec.template` | | | `ownerReferences` |

Objects may also have the annotation `clusterctl.cluster.x-k8s.io/block-move`, and MachinePools `cluster.x-k8s.io/paused: portal-upgrade`. The provider's
field manager is `cluster-api-provider-portal`.

## Flags

`manager --help` lists all. [How to set them](install.md#change-flags-and-manifests):

| Flag | Does |
| --- | --- |
| `--namespace` | looks after [one namespace](tenants.md#a-manager-for-one-namespace) |
| `--watch-filter` | looks after objects with this value of the label `cluster.x-k8s.io/watch-filter` |
| `--portal-host` | limits the [portals that identities may name](security.md#which-portals-identities-may-name) |
| `--account-share` | divides an account among [several managers](fleet.md#several-managers-on-one-account) |
| `--max-open-mutations` | limits [what a crash leaves in doubt](fleet.md#what-a-crash-leaves-in-doubt) |
| `--portalcontrolplane-concurrency`, … | how many objects of a kind are reconciled at a time |
| `--kube-api-qps`, `--workload-client-qps`, and their `-burst` | limit the requests to the API servers of the management and workload clusters |
| `--leader-elect-namespace` | namespace of the lease, if several managers run in one namespace. It needs copies of the Role and RoleBinding `capportal-leader-election-…` |
| `--logging-format=json`, `-v` | the log. More than `-v=7` counts as 7 |

The clusterctl variables `CAPI_DIAGNOSTICS_ADDRESS` (default `:8443`) and `CAPI_INSECURE_DIAGNOSTICS` set the address of metrics and profiles, and
serve them in plain HTTP to everyone.

## Metrics

The manager also has the metrics of controller-runtime and of the Go runtime.

### Calls to the portal

These metrics count since the manager's start. `endpoint` is for example `POST /kubernetes-clusters/{cluster_id}/scale`.

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
| `capportal_portal_requests_total` | counter | `code`, `endpoint`, `status` | Requests sent, with logins and repetitions. `status` is the HTTP status, or `none` without an answer. `code` is the portal's error code, if the specification lists it. |
| `capportal_portal_request_duration_seconds` | histogram | `endpoint` | Time from the request until the end of the answer. |
| `capportal_portal_logins_total` | counter | `outcome` | Logins: `succeeded`, `refused` (credentials or code) or `failed` (no usable answer). |
| `capportal_rate_limit_wait_seconds` | histogram | `class` | How long requests had waited for the rate limit before they were sent. The 5 seconds between two polls of a job do not count. `class` is `mutation`, `creation`, `read`, `poll` or `login`: the changes, creations, lookups, polls and logins of [fleet.md](fleet.md#the-rate-limit). |

### Accounts and their rate limits

The label `account` names the identity that uses the account: a Secret as `namespace/name`, or a `PortalClusterIdentity/name`. If several identities
share the tokens of an account, `account` is the first of their names in alphabetical order. Only the active manager, which holds the lease, has these
series. They end at most an hour after the last use of the account.

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
| `capportal_account_info` | gauge | `account`, `identity`, `portal` | Always 1. `identity` is one of the identities that use the account, and `portal` is the portal's host. |
| `capportal_account_requests_total` | counter | `account` | Requests sent, since the manager first used the account. |
| `capportal_account_rate_limited_total` | counter | `account` | Requests that the portal refused with 429. |
| `capportal_account_limit_requests_per_second` | gauge | `account` | Rate that the portal allows. The standard tier has 5 (300 a minute). |
| `capportal_account_share_ratio` | gauge | `account` | The part of the limit that the manager uses at most: `--account-share` (1 by default). It is less for a while after a 429. |
| `capportal_account_tokens` | gauge | `account` | Requests that could be sent now. Below 1, requests wait. |
| `capportal_account_waiting_requests` | gauge | `account`, `class` | Requests that wait for the rate limit. |
| `capportal_account_requests_in_flight` | gauge | `account` | Requests without an answer yet. |
| `capportal_account_closed` | gauge | `account` | 1 while nothing is sent because of a 429, else 0. |

### Operations

`operation` is `create`, `scale`, `upgrade`, `delete`, `create-network` or `create-vpc`. The manager reads the gauges from the objects, so a restart
does not change them. Only the active manager reports them.

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
| `capportal_jobs_in_flight` | gauge | `operation` | Jobs whose end the manager has not seen yet. |
| `capportal_oldest_job_start_timestamp_seconds` | gauge | `operation` | When the oldest job in flight was requested, as a Unix time. Absent if no job is in flight. |
| `capportal_undrained_workers_removed_total` | counter | `name`, `namespace` | Nodes of the control plane that the portal removed although they were not drained. |
| `capportal_job_duration_seconds` | histogram | `operation`, `outcome` | Time from the request until the manager saw the end of the job. `outcome` is `succeeded` or `failed`. |
| `capportal_unknown_outcomes` | gauge | `operation` | Creations that wait for a person ([`OutcomeUnknown`](restore.md#a-creation-whose-outcome-is-unknown)). |

### Kubeconfigs

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
| `capportal_kubeconfig_expires_timestamp_seconds` | gauge | `cluster` | When the client certificate in a kubeconfig expires, as a Unix time. Absent unless that is [soon](troubleshooting.md#a-kubeconfig-expires). `cluster` is `namespace/name` of the Cluster. Only the active manager reports it. |

### The manager itself

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
| `capportal_build_info` | gauge | `commit`, `go_version`, `version` | Always 1. |

### Reach the metrics

The manager serves `/metrics` over HTTPS on port 8443. Bind the ClusterRole `capportal-metrics-reader` to the ServiceAccount of your Prometheus, here
`prometheus` in the namespace `monitoring`. Run the third command when the second prints *Forwarding*:

```console
$ kubectl create clusterrolebinding capportal-metrics-prometheus \
    --clusterrole=capportal-metrics-reader --serviceaccount=monitoring:prometheus
$ kubectl port-forward -n capportal-system deployment/capportal-controller-manager 8443 &
$ curl --insecure https://localhost:8443/metrics \
    --header "Authorization: Bearer $(kubectl create token -n monitoring prometheus)" | grep ^capportal_
```

401 means no valid token, 403 no right. Prometheus finds the endpoint by the Service `capportal-metrics`. There are
[components](install.md#change-flags-and-manifests) for the Prometheus operator, and for a certificate of cert-manager.

### Metrics of objects: kube-state-metrics

`kube-state-metrics-config.yaml` of a release configures series for the conditions, workers and versions of each object, such as
`capi_portalcontrolplane_*`. Mount the file into kube-state-metrics, with the flag `--custom-resource-state-config-file=<path>`, and let it read the
objects:

```console
$ kubectl apply -f kube-state-metrics-role.yaml
$ kubectl create clusterrolebinding capportal-kube-state-metrics \
    --clusterrole=capportal-kube-state-metrics --serviceaccount=monitoring:kube-state-metrics
```

Have Prometheus keep the label `namespace` of these series (`honor_labels: true`).

## Alert rules

Alerts about conditions need kube-state-metrics, and are silent without it. The rules are files of the release, and `make release-manifests` writes them to
`out/`. To find the object behind an alert, run `kubectl get portalclusters,portalcontrolplanes -A`.

```console
$ promtool check rules prometheus-rules.yaml       # then add the file to rule_files
$ kubectl apply -f prometheusrule.yaml             # with the operator; add the labels by which your Prometheus selects rules
```

| Alert | What it means, and what to do |
| --- | --- |
| `PortalUndrainedWorkersRemoved` | [Which node goes](scale.md#which-node-goes) |
| `PortalOperationStopped` | jobs failed three times: [An operation has stopped](troubleshooting.md#an-operation-has-stopped) |
| `PortalJobStuck` | [A scale or an upgrade does not end](troubleshooting.md#a-scale-or-an-upgrade-does-not-end) |
| `PortalOutcomeUnknown` | a lost creation waits for a [person](restore.md#a-creation-whose-outcome-is-unknown) |
| `PortalUnreachable` | see [`PortalUnavailable`](troubleshooting.md#the-portal-or-the-way-to-it) |
| `PortalLoginRefused` | see [`Unauthorized` and `MFARequired`](troubleshooting.md#the-portal-or-the-way-to-it) |
| `PortalClusterGone` | see [The portal cluster is gone](restore.md#the-portal-cluster-is-gone) |
| `PortalDrainBlocked` | nodes have been draining for an hour. No scale-down and no upgrade begins: [A drain blocks](troubleshooting.md#a-drain-blocks) |
| `PortalDeletionHeld` | a deletion waits for a person: [Deletion hangs](troubleshooting.md#deletion-hangs) |
| `PortalWorkersAtRisk` | MachineDeployments are being deleted, perhaps by mistake. Create others at once: [`DeletionNotConfirmed`](troubleshooting.md#workers-are-kept) |
| `PortalAccountChanged`, `PortalAnnotationUnreadable` | see [the reason](troubleshooting.md#the-portal-or-the-way-to-it) |
| `PortalNodesNotReady` | nodes have not been Ready for 15 minutes: [Nodes](troubleshooting.md#nodes) |
| `PortalAutoscalerCannotScaleDown` | see [The autoscaler removes no nodes](troubleshooting.md#the-autoscaler-removes-no-nodes) |
| `PortalKubeconfigExpires` | the portal issues no new certificate: [A kubeconfig expires](troubleshooting.md#a-kubeconfig-expires) |
| `PortalRateLimited` | the portal answered more than 1 % of an account's requests with 429, because others use the account too. Use another account, or ask for a higher [limit](fleet.md#the-rate-limit) |
| `PortalReconcileErrors` | more than 10 % of a controller's passes end in an unexpected error. See the [log](troubleshooting.md#logs), and objects with `InternalError` |
| `PortalNoActiveManager` | no manager reports metrics, so the other alerts are silent. Is a Pod the leader (`kubectl get pods,leases -n capportal-system`)? Can Prometheus [read its metrics](#reach-the-metrics)? |

## Dashboards

Import the files `dashboard-*.json` into Grafana, or let Grafana's sidecar find them. All but `dashboard-accounts.json` need kube-state-metrics:

```console
$ kubectl create configmap -n monitoring capportal-dashboards $(printf -- '--from-file=%s ' dashboard-*.json)
$ kubectl label configmap -n monitoring capportal-dashboards grafana_dashboard=1
```

This was tried with Prometheus 2.42 and kube-state-metrics v2.18.0, but not with Grafana or the Prometheus operator.

## Rights of the manager

A [test](../test/docs/rights_test.go) compares this table with the roles and the code. *Where* is

- `namespace`: in the namespaces of your Clusters
- `cluster`: in the whole management cluster, because a Role cannot grant the right
- `shared`: likewise, but not with [`config/namespaced`](tenants.md#a-manager-for-one-namespace)
- `own`: in the manager's namespace
- `default`: in the namespace `default`.

| Group | Resources | Verbs | Where | For what |
| --- | --- | --- | --- | --- |
| core | `secrets` | `get` | namespace | read identities, kubeconfigs and bootstrap Secrets |
| core | `secrets` | `list`, `watch` | namespace | notice changes. The manager asks for metadata only, but RBAC cannot grant less than the content |
| core | `secrets` | `create` | namespace | kubeconfigs, and the empty bootstrap Secret that core wants of every Machine |
| core | `secrets` | `patch` | namespace | kubeconfigs, finalizer and move label of identities, owner references after a restore |
| core | `namespaces` | `get` | namespace | find out whether the namespace is being deleted, and whether a PortalClusterIdentity allows it |
| core, `events.k8s.io` | `events` | `create`, `patch` | namespace | Events |
| core, `events.k8s.io` | `events` | `create`, `patch` | default | Events about namespaces: the volumes of a deleted cluster |
| core, `events.k8s.io` | `events` | `create`, `patch` | own | Events of leader election |
| `apiextensions.k8s.io` | `customresourcedefinitions`: `clusters.cluster.x-k8s.io`, `portalcontrolplanes.infrastructure.cluster.x-k8s.io` | `get` | cluster | find out whether a kind is being removed, or only an object deleted |
| `authentication.k8s.io` | `tokenreviews` | `create` | cluster | find out who asks for metrics |
| `authorization.k8s.io` | `subjectaccessreviews` | `create` | cluster | find out whether that user may read metrics |
| `cluster.x-k8s.io` | `clusters`, `machinedeployments`, `machinedrainrules` | `get`, `list`, `watch` | namespace | the wanted state |
| `cluster.x-k8s.io` | `machines`, `machinepools`, `machinesets` | `get`, `list`, `watch`, `patch` | namespace | the wanted state; hooks and annotations of Machines; pause a MachinePool during an upgrade; owner references after a restore |
| `cluster.x-k8s.io` | `machines/status`, `machinepools/status` | `patch` | namespace | remove nodeRefs to nodes that a Machine gave back or that are gone |
| `infrastructure.cluster.x-k8s.io` | `portalclusters`, `portalcontrolplanes`, `portalmachinepools`, `portalmachines` | `get`, `list`, `watch`, `patch` | namespace | its own objects |
| `infrastructure.cluster.x-k8s.io` | `portalbootstrapconfigs`, `portalmachinetemplates` | `get`, `list`, `watch` | namespace | its own objects |
| `infrastructure.cluster.x-k8s.io` | `portalbootstrapconfigs/status`, `portalclusters/status`, `portalcontrolplanes/status`, `portalmachinepools/status`, `portalmachines/status`, `portalmachinetemplates/status` | `patch` | namespace | status |
| `infrastructure.cluster.x-k8s.io` | `portalbootstrapconfigs/finalizers`, `portalcontrolplanes/finalizers` | `update` | namespace | write owner references that block a deletion |
| `infrastructure.cluster.x-k8s.io` | `portalcontrolplanes` | `adopt` | cluster | write `spec.clusterID` and its annotations ([who else](tenants.md#the-right-to-adopt)) |
| `infrastructure.cluster.x-k8s.io` | `portalclusteridentities` | `get`, `list`, `watch`, `patch` | shared | shared accounts, and their finalizer |
| `infrastructure.cluster.x-k8s.io` | `portalclusteridentities/status` | `patch` | shared | status |
| `coordination.k8s.io` | `leases` | `create` | own | leader election |
| `coordination.k8s.io` | `leases`: `controller-leader-election-capportal` | `get`, `update` | own | leader election |

The policy `capportal-manager-secrets` lets the manager write only kubeconfigs, empty bootstrap Secrets, its finalizers and clusterctl's move label.

## portalctl

`portalctl` is the portal's API on the command line, with the provider's client, login and rate limit. `make build` puts it into `bin/`. See [getting
started](getting-started.md#1-check-the-portal) for the first commands.

Do not use it to change clusters that the provider manages. The provider restores their number of workers, but cannot go back to an earlier version.

`--help` describes each command:

| For | Commands |
|---|---|
| the portal user | `login`, `doctor`, `identity`, `password reset`, `password complete`, `mfa disable` |
| lookups | `versions` or `versions list`, `vpcs list`, `instances list`, `instances get` |
| clusters | `clusters create`, `clusters find` (by name), `clusters config` (the kubeconfig), `clusters scale`, `clusters upgrade`, `clusters delete` |
| networks and volumes | `vpcs create`, `networks create`, `volumes delete` |
| jobs | `jobs get` (one look), `jobs wait` (until the job has ended) |
| a management cluster | `page` (its Clusters in a browser) |
| the program | `completion`, `version` |

- `doctor` only reads, and says whether the provider can work with the portal and the user.
- `identity` prints the [Secret](getting-started.md#2-prepare) that the provider reads. `--check` logs in first.
- `clusters delete`, `volumes delete` and `mfa disable` ask first, unless you set `--yes`.
- `volumes delete` takes several ids, or `-` for a list on standard input. You can repeat it.
- `portalctl` cannot list networks, volumes or all clusters, because the API cannot.
- `mfa disable` turns MFA off for all users of an identity provider.
- `page` needs no portal, and asks it for nothing. It shows the Clusters of a namespace (`-n`), or of all (`-A`): those with problems first, conditions,
  Machines with the nodes that they claim, and on a timeline what the events of the last hour tell. It reads with the rights of the Role
  [portal-reader](tenants.md), writes nothing, and serves on this machine only (`--listen`). For all namespaces, bind the same rules in a ClusterRole.

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="images/fleet-dark.png">
  <img src="images/fleet-light.png" alt="Ten of 30 Clusters in the browser: the one with a problem comes first, with its conditions and its timeline">
</picture>

### Which portal, and as whom

| Flag | Environment | |
|---|---|---|
| `--url` | `PORTAL_URL` | base URL of the API, `https://` only |
| `--email` | `PORTAL_EMAIL` | the portal user |
| `--ca-file` | `PORTAL_CA_FILE` | PEM file of the only authorities to trust. By default, the system's authorities are trusted |
| `--password-stdin` | `PORTAL_PASSWORD` | the password. If neither is set, `portalctl` asks |
| | `PORTAL_TOTP_SEED` | base32 seed of a user with MFA. Without it, `portalctl` asks for the one-time code |

No flag takes a secret, because every process can read flags. Only `identity` and `clusters config` print secrets. Each command logs in, and keeps
nothing on disk. With a seed, each command may wait up to half a minute for the next one-time code.

### Output

`-o json` and `-o yaml` have everything that the portal sent. Commands that start a job wait for it and print it: `.jobId`, `.status`, `.error.code`,
and the created resource in `.result`. `--no-wait` prints the job's id instead, if there is a job. `-v` shows each request. Results go to standard output, everything
else to standard error.

### Exit codes

| Code | Meaning |
|---|---|
| 0 | done |
| 1 | another failure, such as a file that cannot be written; or a question was answered with no |
| 2 | wrong command line or configuration; nothing was sent |
| 3 | the login was refused, or the account has MFA and no one-time code was given |
| 4 | no such thing in this account |
| 5 | refused: invalid, not allowed in this state, or not allowed to this user |
| 6 | not now: busy, over quota, no capacity, or rate limited |
| 7 | the job has failed |
| 8 | the portal's answer was lost; whether it did the work is not known |
| 9 | the portal cannot be reached, is down, or does not speak this API |
| 10 | the job still ran when --timeout was over |
| 130 | interrupted; a job that was started runs on |

**Never repeat `clusters create` or `networks create` in a loop.** The API has no idempotency keys. After exit code 8, the message says how to find
out what happened. You can repeat `scale`, `upgrade` and the deletions. Ctrl-C and `--timeout` end every wait. A job runs on.

`source <(portalctl completion bash)` completes commands, flags and ids.

**A forgotten password.** `portalctl password reset` has the portal mail you a link. `portalctl password complete` asks for the token, the last part
of the link.

## Kinds

{{ end -}}
