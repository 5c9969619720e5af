// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers"
)

// User agents in audit logs.
const (
	ours   = controllers.UserAgent
	theirs = workload.UserAgent
	cores  = "capi-core-manager/v1.14.2 cluster-api-controller-manager (linux/amd64) cluster.x-k8s.io/abcdef"
	kubes  = "kubectl/v1.36.3 (linux/amd64) kubernetes/abcdef"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(second float64) time.Time { return noon.Add(time.Duration(second * float64(time.Second))) }

// line returns an audit event: at a second, a client sent a request for an object. The body is the answer or, for Pods, the
// request. The verb may have the client's certificate in front ("first!patch") and a query behind it ("patch?dryRun=All").
func line(second float64, agent, verb, object, body string) string {
	resource, name, _ := strings.Cut(object, " ")
	resource, subresource, _ := strings.Cut(resource, "/")
	field := "responseObject"
	if resource == "pods" {
		field = "requestObject"
	}
	credential, did, several := strings.Cut(verb, "!")
	if !several {
		credential, did = "the only one", verb
	}
	did, _, _ = strings.Cut(did, "?")
	return fmt.Sprintf(`{"verb":%q,"userAgent":%q,"user":{"username":"u","extra":{"authentication.kubernetes.io/credential-id":[%q]}},`+
		`"requestURI":%q,"objectRef":{"resource":%q,"subresource":%q,"namespace":"default","name":%q},"responseStatus":{"code":200},`+
		`"requestReceivedTimestamp":%q,"stageTimestamp":%q,%q:%s}`+"\n",
		did, agent, credential, "/"+verb, resource, subresource, name,
		at(second).Format(time.RFC3339Nano), at(second+0.01).Format(time.RFC3339Nano), field, body)
}

// brokenOff returns an event of a request that the client gave up. The server answers 504, whether or not it carried the
// request out.
func brokenOff(second float64, agent, verb, object, sent string) string {
	text := line(second, agent, verb, object, `{"kind":"Status"}`)
	return asked(text, 504, sent)
}

// sent returns an event of a patch that includes the request body. The API server took a second to answer.
func sent(second float64, agent, object, patch, answer string) string {
	text := line(second, agent, "patch", object, answer)
	text = strings.Replace(text, at(second).Format(time.RFC3339Nano), at(second-1).Format(time.RFC3339Nano), 1)
	return asked(text, 200, patch)
}

// asked puts the request body and the status code of the answer into an event.
func asked(text string, code int, request string) string {
	return strings.Replace(text, `"code":200}`, fmt.Sprintf(`"code":%d},"requestObject":%s`, code, request), 1)
}

// Hooks of a Machine.
const (
	both      = `"` + infrav1.PreDrainHook + `":"","` + infrav1.PreTerminateHook + `":""`
	terminate = `"` + infrav1.PreTerminateHook + `":""`
)

func machine(version int, node, hooks string) string {
	return fmt.Sprintf(`{"kind":"Machine","metadata":{"name":"m1","resourceVersion":"%d","annotations":{%s}},"status":{"nodeRef":{"name":%q}}}`,
		version, hooks, node)
}

func claimOn(version int, providerID string) string {
	return fmt.Sprintf(`{"kind":"PortalMachine","metadata":{"name":"m1","resourceVersion":"%d"},"spec":{"providerID":%q}}`, version, providerID)
}

func aNode(version int, cordoned bool) string {
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":"c-w-1","resourceVersion":"%d"},"spec":{"unschedulable":%t}}`, version, cordoned)
}

// begun returns the logs that all cases begin with: Machine m1 holds Node c-w-1, on which Pod p runs, and the portal runs size
// workers.
func begun(size int) (management, workload string, entries []emulator.LogEntry) {
	return line(1, ours, "patch", "machines m1", machine(1, "", both)) + line(2, cores, "patch", "machines/status m1", machine(2, "c-w-1", both)),
		line(0, theirs, "create", "nodes c-w-1", aNode(1, false)) + line(1, kubes, "create", "pods/binding p", `{"target":{"name":"c-w-1"}}`),
		[]emulator.LogEntry{
			{Time: at(0.5), Object: "node", ID: "c-w-1", To: "added"},
			{Time: at(0.6), Object: "cluster", To: "Running", Detail: fmt.Sprintf("size=%d version=v1.36.3", size)},
		}
}

const (
	deleted = `{"kind":"Status","status":"Success"}`
	evicted = `{"kind":"Eviction"}`
)

// wanted is how many workers users want in all cases.
const wanted = 2

// auditCase holds the logs of the API servers and of the portal, and the violation that the judges must find in them.
type auditCase struct {
	name                 string
	size                 int // workers that the portal runs
	management, workload string
	entries              []emulator.LogEntry
	want                 string // part of the only violation, empty if there is none
}

var auditCases = []auditCase{
	{name: "quiet"},

	{name: "the portal deletes a Node", workload: line(5, theirs, "delete", "nodes c-w-1", deleted)},
	{name: "core deletes the Node of a machine that runs", workload: line(5, cores, "delete", "nodes c-w-1", deleted),
		want: `core has deleted Node "c-w-1", and the portal still ran its machine`},
	{name: "core deletes a Node when the portal has removed its machine", workload: line(5, cores, "delete", "nodes c-w-1", deleted),
		entries: []emulator.LogEntry{{Time: at(4), Object: "node", ID: "c-w-1", To: "removed"}}},
	{name: "core deletes the Node of another machine that had its name", workload: line(5, cores, "delete", "nodes c-w-1", deleted),
		entries: []emulator.LogEntry{{Time: at(-1), Object: "node", ID: "c-w-1", To: "removed"}}, want: "still ran its machine"},
	{name: "core deletes a Node too early", workload: line(5, cores, "delete", "nodes c-w-1", deleted),
		entries: []emulator.LogEntry{{Time: at(6), Object: "node", ID: "c-w-1", To: "removed"}}, want: "still ran its machine"},
	{name: "we delete all Nodes at once", workload: line(5, ours, "deletecollection", "nodes", deleted), want: "provider has deleted Node"},

	{name: "a drain with a surplus", size: 3, management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(4, cores, "patch", "nodes c-w-1", aNode(4, true)) + line(5, cores, "create", "pods/eviction p", evicted)},
	{name: "a drain without a surplus", size: 2, management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(5, cores, "create", "pods/eviction p", evicted), want: "eviction of Pod p on Node \"c-w-1\": its drain had begun without a surplus"},
	{name: "an eviction without a drain", size: 3, workload: line(5, cores, "create", "pods/eviction p", evicted),
		want: "eviction of Pod p on Node \"c-w-1\": no drain of it had begun"},
	{name: "an eviction before the drain", size: 3, management: line(6, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(5, cores, "create", "pods/eviction p", evicted), want: "no drain of it had begun"},
	{name: "an eviction of a Pod on some other Node", size: 3, management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(5, cores, "create", "pods/eviction q", evicted), want: `on Node "": no drain`},
	{name: "an eviction right after the drain is called off", size: 3,
		management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)) + line(4, ours, "patch", "machines/status m1", machine(4, "", terminate)),
		workload:   line(5, cores, "create", "pods/eviction p", evicted)},
	{name: "an eviction long after the drain is called off", size: 3,
		management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)) + line(4, ours, "patch", "machines/status m1", machine(4, "", terminate)),
		workload:   line(25, cores, "create", "pods/eviction p", evicted), want: "its drain was over"},
	{name: "an eviction on a Node that came back under the name of a drained one", size: 3,
		management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(4, theirs, "delete", "nodes c-w-1", deleted) + line(4.5, theirs, "create", "nodes c-w-1", aNode(4, false)) +
			line(5, cores, "create", "pods/eviction p", evicted), want: "no drain of it had begun"},
	{name: "somebody else evicts", size: 3, management: line(3, ours, "patch", "machines m1", machine(3, "c-w-1", terminate)),
		workload: line(5, kubes, "create", "pods/eviction p", evicted), want: "is by kubectl"},
	{name: "a cordon without a drain", size: 3, workload: line(4, cores, "patch", "nodes c-w-1", aNode(4, true)), want: "cordon of Node c-w-1"},

	{name: "core takes a hook", management: line(3, cores, "patch", "machines m1", machine(3, "c-w-1", terminate)), size: 3,
		want: "core has changed the hooks of Machine m1"},
	{name: "a user takes the hooks through the metadata alone", want: "kubectl has changed the hooks of Machine m1", management: line(3, kubes, "patch",
		"machines m1", `{"kind":"PartialObjectMetadata","metadata":{"name":"m1","resourceVersion":"3"}}`)},
	{name: "core takes a hook in a dry run", management: line(3, cores, "patch?dryRun=All", "machines m1", machine(3, "c-w-1", terminate))},
	{name: "core sets a nodeRef once more that it has not seen yet", management: line(3, cores, "patch", "machines/status m1", machine(3, "c-w-2", both))},
	{name: "core moves a nodeRef", management: line(20, cores, "patch", "machines/status m1", machine(3, "c-w-2", both)),
		want: `core has changed the nodeRef of Machine m1 from "c-w-1" to "c-w-2"`},
	{name: "we move a nodeRef", management: line(3, ours, "patch", "machines/status m1", machine(3, "c-w-2", both))},
	{name: "we take a nodeRef, a user sets it", management: line(3, ours, "patch", "machines/status m1", machine(3, "", both)) +
		line(4, kubes, "patch", "machines/status m1", machine(4, "c-w-1", both)), want: "kubectl has changed the nodeRef"},
	{name: "we bind a claim", management: line(3, ours, "patch", "portalmachines m1", claimOn(3, "portal://1"))},
	{name: "core binds a claim", management: line(3, cores, "patch", "portalmachines m1", claimOn(3, "portal://1")),
		want: `core has changed the claim m1 from "" to "portal://1"`},
	{name: "written first, logged last", size: 3, management: line(3.2, cores, "patch", "machines m1", machine(4, "c-w-1", terminate)) +
		line(3.4, ours, "patch", "machines m1", machine(3, "c-w-1", terminate))},

	{name: "we take a hook, and core, which changes nothing, is answered first", size: 3,
		management: line(3.1, cores, "patch", "machines m1", machine(3, "c-w-1", terminate)) +
			sent(3.2, ours, "machines m1", `{"metadata":{"annotations":{}}}`, machine(3, "c-w-1", terminate))},
	{name: "core takes a hook, and we, who change nothing, are answered later", size: 3, want: "core has changed the hooks",
		management: line(3.1, cores, "patch", "machines m1", machine(3, "c-w-1", terminate)) +
			sent(3.2, ours, "machines m1", `{"metadata":{"labels":{}}}`, machine(3, "c-w-1", terminate))},
	{name: "we take a hook and do not wait for the answer", size: 3,
		management: brokenOff(3, ours, "patch", "machines m1", `{"metadata":{"annotations":{}}}`) + line(4, cores, "patch", "machines m1", machine(4, "c-w-1", terminate)),
		workload:   line(5, cores, "create", "pods/eviction p", evicted)},
	{name: "we bind a claim and do not wait for the answer", management: brokenOff(3, ours, "patch", "portalmachines m1", `{"spec":{"providerID":"a"}}`) +
		line(4, cores, "patch", "portalmachines m1", claimOn(4, "a"))},
	{name: "core takes a hook when we have done something else", size: 3, want: "core has changed the hooks",
		management: brokenOff(3, ours, "patch", "machines m1", `{"status":{"nodeRef":{}}}`) + line(4, cores, "patch", "machines m1", machine(4, "c-w-1", terminate))},
	{name: "core takes a hook when what we did is known", size: 3, want: "core has changed the hooks",
		management: brokenOff(3, ours, "patch", "machines m1", `{"metadata":{"annotations":{}}}`) + line(3.5, ours, "patch", "machines m1", machine(3, "c-w-1", both)) +
			line(4, cores, "patch", "machines m1", machine(4, "c-w-1", terminate))},
	{name: "core takes a hook before we try", size: 3, want: "core has changed the hooks",
		management: line(3, cores, "patch", "machines m1", machine(3, "c-w-1", terminate)) + brokenOff(4, ours, "patch", "machines m1", `{"metadata":{"annotations":{}}}`)},

	{name: "one manager after the other", management: line(3, ours, "first!patch", "portalmachines m1", claimOn(3, "a")) +
		line(4, ours, "second!patch", "portalmachines m1", claimOn(4, "b"))},
	{name: "two managers", management: line(3, ours, "first!patch", "portalmachines m1", claimOn(3, "a")) +
		line(4, ours, "second!patch", "portalmachines m1", claimOn(4, "b")) + line(5, ours, "first!patch", "portalmachines m1", claimOn(5, "c")),
		want: "another one had begun to write"},

	{name: "many writes", management: many(loopWrites, 1)},
	{name: "too many writes", management: many(loopWrites+1, 1), want: fmt.Sprintf("wrote portalcontrolplanes c %d times within 1m0s", loopWrites+1)},
	{name: "as many, but slowly", management: many(loopWrites+1, 2)},
}

func many(writes int, gap float64) (log string) {
	for i := range writes {
		log += line(3+gap*float64(i), ours, "patch", "portalcontrolplanes/status c", `{}`)
	}
	return log
}

// TestAuditJudges checks that each judge reports violations and accepts everything else.
func TestAuditJudges(t *testing.T) {
	for _, c := range slices.Concat(auditCases, markCases) {
		t.Run(c.name, func(t *testing.T) {
			var wrongs []string
			a := newAuditor(func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) })
			management, workload, entries := begun(c.size)
			a.books = books{entries: append(entries, c.entries...), sums: &sums{spans: []span{{sum: wanted, from: at(-100)}}}}
			a.judge(parsed(t, management+c.management), parsed(t, workload+c.workload))
			switch {
			case c.want == "" && len(wrongs) > 0, c.want != "" && (len(wrongs) != 1 || !strings.Contains(wrongs[0], c.want)):
				t.Errorf("violations: %q, want %q", wrongs, c.want)
			}
		})
	}
}

func parsed(t *testing.T, log string) []auditEvent {
	t.Helper()
	events, err := parseAudit([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestAuditLogIsReadAsItGrows checks that each event is returned once, for its own namespace, and only after its line is
// complete.
func TestAuditLogIsReadAsItGrows(t *testing.T) {
	event := func(namespace, name string) string {
		return fmt.Sprintf(`{"objectRef":{"namespace":%q,"name":%q}}`, namespace, name) + "\n"
	}
	log := &auditLog{path: filepath.Join(t.TempDir(), "audit.log"), apart: true}
	for _, step := range []struct{ grows, namespace, want string }{
		{event("a", "1") + event("b", "2") + event("a", "3")[:9], "a", "1"},
		{event("a", "3")[9:], "a", "3"},
		{"", "a", ""},
		{event("b", "4"), "b", "2 4"},
	} {
		file, err := os.OpenFile(log.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.grows); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		events, err := log.take(step.namespace)
		var names []string
		for _, e := range events {
			names = append(names, e.On.Name)
		}
		if got := strings.Join(names, " "); got != step.want || err != nil {
			t.Errorf("got %q, error %v, want %q", got, err, step.want)
		}
	}
	if _, err := (&auditLog{path: "not there"}).take(""); err == nil {
		t.Error("no error for a log that does not exist")
	}
}
