// SPDX-License-Identifier: Apache-2.0

// Package emulator emulates the cloud portal: a server with the REST API of the specification, its jobs, limits and faults, which
// refuses every request that the specification does not allow. It depends neither on the client nor on Kubernetes.
//
// # Use
//
//	p, err := emulator.New(emulator.Options{})       // starts nothing
//	defer p.Close()                                  // ends jobs, waits for them, deletes workload clusters
//	email, password := p.Credentials()
//	client := &http.Client{Transport: p.Transport()} // in-process: works in testing/synctest bubbles
//	err = p.Listen("127.0.0.1:0")                    // or over TLS: p.URL(), p.CAPEM()
//
// [Portal.RequestLog] lists what happened. The present state is in [Portal.Clusters], [Portal.Jobs], [Portal.Instances],
// [Portal.Networks], [Portal.VPCs] and [Portal.Volumes]. [Portal.Violations] are the requests that a correct client
// would not have sent: tests of a client assert that there are none. All waits use package time, and all
// randomness but secrets comes from [Options.Seed].
//
// A request goes, in this order, through: the endpoint table (route.go), TLS and body (call.go), whose budget it
// uses (token.go), the rate limit (ratelimit.go), faults that come before the work (effect.go), the token
// (token.go), its endpoint, faults that come after the work, and the request log. A handler changes the
// state under one lock and never waits. Work that takes time is a job.
//
// # States
//
// A job is pending, running, then succeeded or failed. Nothing interrupts it: there is no endpoint that could. A
// stuck job (a fault) stays running until the fault is removed, or until the portal's operator ends it ([Portal.Repair]).
// [Portal.Close] leaves jobs where they are.
//
//	cluster    from          by                       what may be called then
//	Creating   -             POST /kubernetes-clusters  nothing: RESOURCE_BUSY, config OPERATION_NOT_ALLOWED
//	Running    any below     job ended                everything
//	Scaling    Running       scale                    config. The rest is RESOURCE_BUSY
//	Upgrading  Running       upgrade                  config. The rest is RESOURCE_BUSY
//	Alert      Scaling,      job failed with the      config, DELETE. The rest is OPERATION_NOT_ALLOWED
//	           Upgrading     fault alert, or a trait
//	           Running       scan (a trait)
//	Deleting   Running,      DELETE                   nothing, as Creating
//	           Failed, Alert
//	Failed     Creating      create job failed        DELETE. The rest is OPERATION_NOT_ALLOWED
//	                         half way
//	(gone)     Deleting      job succeeded            404
//
// A failed scale, upgrade or delete job leads back to Running (a delete of a cluster in Failed or Alert, to that state). An upgrade
// that failed half way leaves the nodes that it upgraded. A new upgrade to the same version does the rest. From Alert,
// [Portal.Repair] leads back to Running. With [Traits.ScanInterval], the portal does both by itself: a scan interrupts Running and Alert, and
// nothing else. With [Traits.DeletionsCollected], a failed deletion stays in Deleting, where only another DELETE may be called, until the
// portal finishes it.
//
// A pre-MFA token lives 10 minutes, ends when it is exchanged, and after 5 wrong codes. A full-access token lives 8
// hours ([Options.TokenLifetime]) and ends early with a password reset or the fault RevokeToken. A login does not
// end earlier tokens. A reset link lives an hour and works once.
//
// # Chosen where the specification is silent
//
// Errors. The status of each code is in defaultStatus (error.go). A well-formed request that breaks a rule gets 422, even with
// the code INVALID_PARAMETER. Codes beyond the common ones: INVALID_CREDENTIALS (401, login), FORBIDDEN (403,
// role), INTERNAL_ERROR (500), SERVICE_UNAVAILABLE (503). An unknown path is 404 RESOURCE_NOT_FOUND, a known path with
// another method 405 OPERATION_NOT_ALLOWED with Allow. Unknown, repeated, misspelled or mistyped JSON members, unknown query
// parameters, a body where none is documented, and another content type than application/json are 400
// INVALID_PARAMETER. A plain HTTP request is 400 OPERATION_NOT_ALLOWED.
//
// Rate limit. A bucket of the burst (50) that fills at the rate (300 a minute: one every 200 ms). Refused requests cost
// nothing. Every answer has the X-RateLimit headers. Remaining is the content of the bucket, Reset is when it is full, and
// Retry-After, on 429, when the next request is admitted, rounded up to seconds. Logins and password resets count
// against the account of their e-mail or link. Callers that belong to no account share one budget.
//
// Login and MFA. E-mails are compared without case. MFA is TOTP (6 digits, 30 seconds, one step of tolerance), each code
// counts once, send-otp has to precede verify-otp, and a wrong code is INVALID_PARAMETER of otp. POST
// /admin/mfa/disable/{idp} turns MFA off for the account's users of that identity provider. POST /reset-password gives the
// same answer for known and unknown addresses. Mails go to [Portal.Mailbox].
//
// VPCs and networks. The body of POST /vpcs is name and, optionally, cidr. The body of POST /networks is cidr and, optionally,
// name and vpcId. CIDRs are IPv4 without host bits and with at least one usable address. Five addresses of each
// network are not usable, which gives the specification's 251 and 507. The nodes of a network's clusters have to fit
// (the specification only advises). A network joins the VPC of its first cluster. The isolated network of a cluster
// without networkId is a /16 and goes with the cluster. There are VPCs called "default" from the start.
//
// Clusters. All create parameters but networkId are required and not empty, vpcId and description included, since the
// specification calls them the minimum set. Names are DNS labels (RFC 1123), and not unique. From 1 to 7 control nodes, because etcd
// advises no more members. Sizes from [Options.MinWorkers] (0) to
// [Options.MaxWorkers] (50), beyond which it is QUOTA_EXCEEDED. The kubeconfig exists from the first Running until the
// deletion. A size or version that the cluster has already is a job with nothing to do. A lower version is refused. Minors
// may be skipped. The API server changes its version with the first control node. New workers have the cluster's
// version. Job results carry the record with its id, a deletion's an empty object.
//
// Control nodes carry node-role.kubernetes.io/control-plane as a label and as a taint. [Options.ControlMarks] leaves out one of them, or both.
//
// Instances are the machines of nodes. One that is starting or being removed is Stopped. Volumes come from options or [Portal.AddVolume],
// lose their cluster when it is deleted, and are deleted at once. The deletion is refused while a cluster uses them.
//
// [Shapes] chooses other forms of answers, [Traits] the behavior of one engine, and [Options] all other behavior.
//
// # Left out
//
// Endpoints whose paths are not shown: instances (create, start, stop, reboot, destroy), volumes (create, attach, detach,
// resize), tiers, backups, bulk calls, further MFA endpoints. Events, pagination, port forwards, the CSI driver. OTPs
// by e-mail or SMS. Higher tiers per account: [Options.RateLimit] is for all. Nothing is kept on disk.
//
// # Things that go wrong
//
// A [Fault] is data: which calls it selects, and what happens to them, to their job, or to the account. Faults come
// with [Options], from a file of the command portal-emulator ([ParseFaults]), through [Portal.Inject], or over the
// admin listener ([Portal.ListenAdmin]), which is plain HTTP on loopback, apart from the portal. Package page shows a browser
// all of this, and arms faults by a click. A busy resource, a full platform or an exhausted quota is a fault with that Code.
//
// A portal that goes wrong for a long time is a fault with a Count or a duration (For). Scale limits the fault to
// requests for fewer workers, or for more. So these scale-downs are refused twice, then fail for five minutes, and then
// remove one node each and fail. Later ones work:
//
//	[{"path": "/kubernetes-clusters/*/scale", "scale": "down", "count": 2, "code": "OPERATION_NOT_ALLOWED"},
//	 {"path": "/kubernetes-clusters/*/scale", "scale": "down", "nth": 3, "for": "5m", "job": "failed"},
//	 {"path": "/kubernetes-clusters/*/scale", "scale": "down", "nth": 3, "for": "8m", "job": "failed-halfway", "jobNodes": 1}]
//
// Some portals refuse to change a cluster after a failed job until an operator repairs it. That is the fault alert, with a refusal that
// selects the state Alert. The operator's part is [Portal.Repair], which the admin listener offers:
//
//	curl -d '{"path": "/kubernetes-clusters/*/scale", "drain": "60s", "alert": true}' http://127.0.0.1:8444/faults
//	curl -X POST http://127.0.0.1:8444/clusters/<id>/repair
//
// # The likeliest engine
//
// The words of the specification (zone, service offering, tier) are those of Apache CloudStack. What a portal over its Kubernetes Service
// does, and what the specification leaves open, is in [Traits]: an upgrade begins again with the first node, drains fail at a Pod without a
// controller, rules are checked in the job, the state Alert comes and goes without a job, and a deletion ends long after its job. The profile
// cloudstack has all of them, with answers that take up to two minutes. [Portal.StopMachine] is the failure of a host.
//
// A portal that changes how a running cluster is reached is no fault of a call, but a [Portal.Rotate], which the admin listener offers
// too. It replaces the credentials of the kubeconfig (old ones get 401), moves the API server to another port, or gives it a certificate
// of another authority:
//
//	curl -d '{"credentials": true, "endpoint": true}' http://127.0.0.1:8444/clusters/<id>/rotate
//
// With [Options.KubeconfigLifetime] credentials expire by themselves.
//
// # Pods on removed machines
//
// Without the fault drain or [Traits.DrainTime], the portal drains nothing: a machine that it removes takes its Pods with it. The request
// log's entry of a removed node has a [Removal], if there are real workload clusters: which job removed it, whether its Node was
// cordoned, and which Pods a drain
// would still have had to evict at that moment. Judges of a client read it: a scale-down that removes a machine with Pods has
// killed them.
package emulator
