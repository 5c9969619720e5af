// SPDX-License-Identifier: Apache-2.0

package world

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// page has the table of events that may cost a portal cluster. Its second part is that of the rows here, and says what their lives show.
const (
	page     = "../../docs/development/ownership.md"
	pagePart = "## In virtual time"
)

var write = flag.Bool("write", false, "write the lines of the second part of docs/development/ownership.md")

// row is an event in Kubernetes or at the portal that must neither cost a portal cluster nor make a second one.
type row struct {
	event   string
	with    func(*Manifest) // changes the objects before
	happens func(*rowTale)
	sees    []sight
	after   func(*rowTale) // what a person does then. The portal is asked for no change
}

// sight is a condition that the user sees, or an object that is gone, which has none.
type sight struct{ kind, condition, name, namespace string }

// rowTale is the life of a row.
type rowTale struct {
	*World
	begin int // length of the portal's request log when the event happens
	id    string
}

// TestOwnership lives each row, and compares what the user sees with the page, for an hour.
func TestOwnership(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, second, _ := strings.Cut(string(content), pagePart)
	rows := slices.Concat(restores(), clones(), deletions(), changes())
	if lines := strings.Count(second, "\n| ") - 1; lines != len(rows) {
		t.Fatalf("%s has %d rows, and the test has %d", page, lines, len(rows))
	}
	for _, r := range rows {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r.event) + ` \|.*$`)
		t.Run(r.event, func(t *testing.T) {
			want := line.Find(content)
			if want == nil {
				t.Fatalf("%s has no line for this event", page)
			}
			if *write {
				want = nil
			}
			tale(t, func(w *World) { content = line.ReplaceAllLiteral(content, []byte(r.live(w, string(want)))) }, otherUser)
		})
	}
	if *write && !t.Failed() {
		if err := os.WriteFile(page, content, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// mostWrites is how many writes of all controllers count as rest in an hour. Two objects that take turns with one portal cluster write thousands.
const mostWrites = 300

// live lives the row, and returns its line of the page. want is the line that there should be, or empty.
func (r row) live(w *World, want string) string {
	m := NewManifest(2)
	if r.with != nil {
		r.with(m)
	}
	w.Apply(m)
	w.Settle(2)
	s := &rowTale{World: w, begin: len(w.Portal.RequestLog()), id: w.Portal.Clusters()[0].ID}
	r.happens(s)
	if want != "" {
		w.Until(r.event, Patience, func() string { return diff(r.line(s), want) })
	}
	before := w.management.store.now()
	w.Let(time.Hour)
	if writes := w.management.store.now() - before; writes > mostWrites {
		w.Errorf("%d writes in the hour after it", writes)
	}
	line := r.line(s)
	if want != "" {
		Equal(w, "an hour later", line, want)
	}
	if r.after != nil {
		before := s.requests()
		r.after(s)
		Equal(w, "requests in the end", s.requests(), before)
	}
	if clusters := w.Portal.Clusters(); len(clusters) > 1 || len(clusters) == 1 && clusters[0].ID != s.id {
		w.Fatalf("portal clusters: %v", clusters)
	}
	return line
}

// line is the row as a line of the page, as it is now.
func (r row) line(s *rowTale) string {
	var sees []string
	if asked := s.requests(); len(asked) > 0 {
		sees = append(sees, "asked: `"+strings.Join(asked, "`, `")+"`")
	}
	if len(s.Portal.Clusters()) == 0 {
		sees = append(sees, "no portal cluster is left")
	}
	healthy, texts := true, []string(nil)
	for _, one := range r.sees {
		good, text := one.look(s.World)
		healthy, texts = healthy && good, append(texts, text)
	}
	if healthy {
		texts = []string{"healthy"}
	}
	return fmt.Sprintf("| %s | %s |", r.event, strings.Join(append(sees, texts...), ", "))
}

// requests are the changes that the cluster's account was asked for since the event. Another account does not know its portal cluster.
func (s *rowTale) requests() (all []string) {
	for _, e := range s.Portal.RequestLog()[s.begin:] {
		if e.IsChange() && e.User != otherUser.ID {
			all = append(all, fmt.Sprintf("%s %s → %d", e.Method, e.Route, e.Status))
		}
	}
	return all
}

// look describes what the user sees, and reports whether it is good.
func (one sight) look(w *World) (good bool, text string) {
	o := map[string]client.Object{
		"Cluster": theCluster(), "MachineDeployment": theWorkers(), "PortalCluster": thePortalCluster(), "PortalControlPlane": theControl(),
	}[one.kind]
	who := one.kind
	if one.name != "" {
		o.SetName(one.name)
		who += " " + one.name
	}
	if one.namespace != "" {
		o.SetNamespace(one.namespace)
		who += " of the other namespace"
	}
	if !w.there(o) {
		return false, who + " is gone"
	}
	c := conditions.Get(o.(conditions.Getter), one.condition)
	if c == nil {
		return false, who + " has no condition " + one.condition
	}
	if good = (c.Status == metav1.ConditionTrue) != (one.condition == clusterv1.DeletingCondition); good {
		return true, fmt.Sprintf("%s `%s=%s`", who, one.condition, c.Status)
	}
	return false, fmt.Sprintf("%s `%s=%s` (`%s`)", who, one.condition, c.Status, c.Reason)
}

// Sights that rows share.
var (
	available   = sight{kind: "Cluster", condition: clusterv1.ClusterAvailableCondition}
	provisioned = sight{kind: "PortalControlPlane", condition: infrav1.ProvisionedCondition}
	deleting    = sight{kind: "PortalControlPlane", condition: clusterv1.DeletingCondition}
	noCluster   = sight{kind: "Cluster"}
	noControl   = sight{kind: "PortalControlPlane"}
)

// otherUser has another portal account.
var otherUser = emulator.User{ID: "other", Email: "owner@other.example", Password: password, Role: emulator.RoleAdministrator, Account: "other"}
