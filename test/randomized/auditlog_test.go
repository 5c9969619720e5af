// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers"
)

// managementPolicy logs every write to MachineDeployments, Machines, claims and PortalControlPlanes. For Machines and claims
// the log keeps the object after the write: the judges compare it with the object before, not with the request.
const managementPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: cluster.x-k8s.io, resources: [machines, machines/status]}
  - {group: infrastructure.cluster.x-k8s.io, resources: [portalmachines, portalmachines/status]}
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: cluster.x-k8s.io, resources: [machinedeployments, machinedeployments/status, machinedeployments/scale]}
  - {group: infrastructure.cluster.x-k8s.io, resources: [portalcontrolplanes, portalcontrolplanes/status]}
- level: None
`

// workloadPolicy logs every write to Nodes except to their status, and the creation, binding and eviction of Pods.
const workloadPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: "", resources: [nodes]}]
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [pods, pods/binding, pods/eviction]}]
- level: None
`

// testAgent is the user agent of this package's own requests.
const testAgent = "histories"

// auditEvent holds the fields of an Event of audit.k8s.io/v1 that the judges use.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Name  string              `json:"username"`
		Extra map[string][]string `json:"extra"`
	} `json:"user"`
	Agent string `json:"userAgent"`
	URI   string `json:"requestURI"`
	On    struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time       `json:"requestReceivedTimestamp"`
	Ended    time.Time       `json:"stageTimestamp"`
	Sent     json.RawMessage `json:"requestObject"`
	Answer   json.RawMessage `json:"responseObject"`

	version uint64 // see made
}

// auditObject holds the fields of an event's objects that the judges use.
type auditObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name              string            `json:"name"`
		ResourceVersion   string            `json:"resourceVersion"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		ProviderID    string `json:"providerID"`
		NodeName      string `json:"nodeName"`
		Unschedulable bool   `json:"unschedulable"`
		Node          struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"node"`
	} `json:"spec"`
	Status struct {
		NodeRef struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
	} `json:"status"`
	Target struct {
		Name string `json:"name"`
	} `json:"target"` // of a Binding
}

// succeeded reports whether the request changed the cluster: it had no error and was not a dry run.
func (e auditEvent) succeeded() bool {
	return e.Response.Code >= 200 && e.Response.Code < 300 && !strings.Contains(e.URI, "dryRun=")
}

// doubtful reports whether the outcome of the request is unknown: the client or the API server gave it up.
func (e auditEvent) doubtful() bool { return e.Response.Code >= 500 }

func (e auditEvent) object() string { return e.On.Resource + " " + e.On.Name }

func (e auditEvent) revision() string { return fmt.Sprintf("%s %d", e.object(), e.version) }

// credential identifies one process of our manager: each start has a certificate of its own.
func (e auditEvent) credential() string {
	return strings.Join(e.User.Extra["authentication.kubernetes.io/credential-id"], " ")
}

// Names of clients, returned by who.
const (
	provider = "provider" // our manager
	portal   = "portal"   // the emulated portal, in its own clusters
	core     = "core"     // Cluster API's manager
)

func (e auditEvent) who() string {
	switch {
	case e.Agent == controllers.UserAgent:
		return provider
	case e.Agent == workload.UserAgent:
		return portal
	case strings.Contains(e.Agent, "cluster-api-controller-manager"):
		return core
	}
	first, _, _ := strings.Cut(e.Agent, "/")
	return first
}

// answered returns the object in the API server's answer, if it is of that kind.
func (e auditEvent) answered(kind string) (o auditObject, found bool) {
	var head struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(e.Answer, &head) != nil || head.Kind != kind {
		return o, false
	}
	return o, json.Unmarshal(e.Answer, &o) == nil
}

// made returns the resourceVersion of the object in the answer, or 0 if the answer has none, for example because the write
// removed the object. Versions put the writes of one API server in the order in which they took effect.
func (e auditEvent) made() uint64 {
	var head struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(e.Answer, &head) != nil {
		return 0
	}
	version, err := strconv.ParseUint(head.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// auditLog reads an audit log while the API server appends to it.
type auditLog struct {
	path  string
	apart bool // several Clusters share the API server: keep events by namespace

	mu     sync.Mutex
	read   int64
	events map[string][]auditEvent // not yet taken
}

// take returns the events since the last call. From a log that several Clusters share it returns those of the namespace.
func (a *auditLog) take(namespace string) ([]auditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readOn(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	if !a.apart {
		namespace = ""
	}
	taken := a.events[namespace]
	delete(a.events, namespace)
	return taken, nil
}

// readOn reads the lines that are complete.
func (a *auditLog) readOn() error {
	file, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.read, io.SeekStart); err != nil {
		return err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	events, err := parseAudit(content)
	if err != nil {
		return err
	}
	a.read += int64(len(content))
	if a.events == nil {
		a.events = map[string][]auditEvent{}
	}
	for _, e := range events {
		namespace := ""
		if a.apart {
			namespace = e.On.Namespace
		}
		a.events[namespace] = append(a.events[namespace], e)
	}
	return nil
}

func parseAudit(content []byte) (events []auditEvent, err error) {
	for line := range bytes.Lines(content) {
		var e auditEvent
		err = errors.Join(err, json.Unmarshal(line, &e))
		e.version = e.made()
		events = append(events, e)
	}
	return events, err
}
