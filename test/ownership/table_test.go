// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// row is one line of the table.
type row struct {
	// event describes what happens.
	event string
	// before are rows that use the same Cluster before, and leave it as it was.
	before []row
	// with changes the objects before the story applies them.
	with func(*story)
	// happens causes the event. The Cluster is available before.
	happens func(*story)
	// may is a request that the provider may send first.
	may string
	// sees are the conditions that the user sees.
	sees []sight
	// after is what a person does, or the test checks, once the line is that of the page. The provider must send no further requests.
	after func(*story)
}

// sight is one condition of one object. Without one, the object is gone.
type sight struct{ kind, condition string }

// Sights that several rows share.
var (
	available   = sight{"Cluster", clusterv1.ClusterAvailableCondition}
	provisioned = sight{"PortalControlPlane", infrav1.ProvisionedCondition}
	deleting    = sight{"PortalControlPlane", clusterv1.DeletingCondition}
)

// quiet is how long the provider must send no further requests at the end of a row. The garbage collector acts within seconds.
const quiet = 10 * time.Second

// page is the file with the lines of the table, in any order. -write writes them as they are after unhurried, which is also the longest time until
// a line that was disturbed during quiet is true again.
const (
	page      = "../../docs/development/ownership.md"
	unhurried = 2 * time.Minute
)

var pageMu sync.Mutex

// TestOwnership runs all rows. Rows that affect the whole management cluster come last, one after the other.
func TestOwnership(t *testing.T) {
	together, alone := slices.Concat(restores(), deletions(), moves()), slices.Concat(withoutPolicies(), uninstalls())
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, r := range slices.Concat(together, alone) {
		rows += 1 + len(r.before)
	}
	first, _, _ := strings.Cut(string(text), "## In virtual time")
	if lines := strings.Count(first, "\n| ") - 1; lines != rows {
		t.Fatalf("%s has %d rows, and the test has %d", page, lines, rows)
	}
	t.Run("together", func(t *testing.T) {
		for _, r := range together {
			t.Run(r.event, func(t *testing.T) {
				t.Parallel()
				r.live(t)
			})
		}
	})
	for _, r := range alone {
		t.Run(r.event, r.live)
	}
}

// live runs the row, after the rows before it.
func (r row) live(t *testing.T) {
	s := newStory(t)
	if r.with != nil {
		r.with(s)
	}
	s.settle()
	for _, one := range append(r.before, r) {
		s.settled(box)
		t.Log(one.event)
		one.play(s)
	}
}

// play causes the event, and checks what follows.
func (r row) play(s *story) {
	s.Helper()
	s.begin = len(box.Portal.RequestLog())
	r.happens(s)
	if *write {
		time.Sleep(unhurried)
		r.writeLine(s)
	} else {
		s.Eventually(func() string { return r.line(s) }).Should(Equal(r.wanted(s)))
	}
	asked := s.requests()
	if r.after != nil {
		r.after(s)
	}
	s.Consistently(s.requests, quiet, time.Second).Should(Equal(asked), "requests")
	if r.after == nil {
		s.Eventually(func() string { return r.line(s) }, unhurried).Should(Equal(r.wanted(s)), "what is left in the end")
	}
	s.Expect(s.PortalClusters()).To(Or(BeEmpty(), ConsistOf(HaveField("ID", s.id))), "portal clusters")
}

// line is the row as a line of the page, as it is now.
func (r row) line(s *story) string {
	var sees, texts []string
	asked := s.requests()
	if len(asked) > 0 && asked[0] == r.may {
		asked = asked[1:]
	}
	if len(asked) > 0 {
		sees = append(sees, "asked: `"+strings.Join(asked, "`, `")+"`")
	}
	if len(s.PortalClusters()) == 0 {
		sees = append(sees, "no portal cluster is left")
	}
	healthy := true
	for _, one := range r.sees {
		good, text := one.look(s)
		healthy, texts = healthy && good, append(texts, text)
	}
	if healthy {
		texts = []string{"healthy"}
	}
	return fmt.Sprintf("| %s | %s |", r.event, strings.Join(append(sees, texts...), ", "))
}

// onPage matches the line of the row on the page.
func (r row) onPage() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r.event) + ` \|.*$`)
}

func (r row) wanted(s *story) string {
	s.Helper()
	text, err := os.ReadFile(page)
	s.Expect(err).NotTo(HaveOccurred())
	return cmp.Or(r.onPage().FindString(string(text)), page+" has no such line")
}

func (r row) writeLine(s *story) {
	s.Helper()
	pageMu.Lock()
	defer pageMu.Unlock()
	text, err := os.ReadFile(page)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(os.WriteFile(page, []byte(r.onPage().ReplaceAllLiteralString(string(text), r.line(s))), 0o644)).To(Succeed())
}

// look describes what the user sees, and reports whether it is good.
func (w sight) look(s *story) (good bool, text string) {
	o := map[string]client.Object{
		"Cluster": &clusterv1.Cluster{}, "MachineDeployment": &clusterv1.MachineDeployment{},
		"PortalCluster": &infrav1.PortalCluster{}, "PortalControlPlane": &infrav1.PortalControlPlane{},
	}[w.kind]
	o.SetNamespace(s.Namespace)
	o.SetName(name)
	if s.Gone(o)() {
		return false, w.kind + " is gone"
	}
	status := s.Condition(o, w.condition)()
	getter, _ := o.(conditions.Getter)
	c := conditions.Get(getter, w.condition)
	if c == nil {
		return false, w.kind + ": " + status
	}
	if good = (c.Status == metav1.ConditionTrue) != (w.condition == clusterv1.DeletingCondition); good {
		return true, fmt.Sprintf("%s `%s=%s`", w.kind, w.condition, c.Status)
	}
	return false, fmt.Sprintf("%s `%s=%s` (`%s`)", w.kind, w.condition, c.Status, c.Reason)
}

// demolish removes all objects and portal clusters of the row, so that their API servers do not slow down other rows, and the CRDs can go.
func (s *story) demolish() {
	ctx := context.WithoutCancel(s.T.Context())
	left := func() (int, error) { return raze(ctx, box.Client, s.Namespace) }
	s.Eventually(left).Should(BeZero(), "objects in namespace %s", s.Namespace)
	portal := s.person()
	for _, c := range s.PortalClusters() {
		_, _ = portal.DeleteCluster(ctx, c.ID)
	}
}
