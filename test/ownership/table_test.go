// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// before is the event of a row that uses the same Cluster after this row, which leaves the Cluster as it was. If it is empty, the row has a
	// Cluster of its own.
	before string
	// with changes the objects before the story applies them.
	with func(*story)
	// happens causes the event. The Cluster is available before.
	happens func(*story)
	// asked are the provider's requests since the event that change something at the portal.
	asked []string
	// early are requests that the provider may send before those. The first one differs from the first one of asked.
	early []string
	// clusters is the number of portal clusters afterwards.
	clusters int
	// sees are the conditions that the user sees.
	sees []sight
	// after is what a person does, or the test checks, once all conditions are as in sees. The provider must send no further requests.
	after func(*story)
}

// sight is one condition of one object, or says that the object is gone.
type sight struct {
	kind      string // of infrav1 or clusterv1
	condition string // empty: the object is gone
	status    metav1.ConditionStatus
	// reason is checked unless it is empty.
	reason string
}

const (
	deleteRequest = "DELETE /kubernetes-clusters/{cluster_id} → 202"
	scaleRequest  = "POST /kubernetes-clusters/{cluster_id}/scale → 202"

	// either is for a condition whose status a row does not specify. If it is not True, it must have a reason and a message.
	either metav1.ConditionStatus = "either"

	// quiet is how long the provider must send no further requests at the end of a row. The garbage collector acts within seconds.
	quiet = 10 * time.Second
)

// results are the reasons that the rows have noted for the page, by event: one for each sight, empty if the status says it all.
var (
	resultsMu sync.Mutex
	results   = map[string][]string{}
)

// TestOwnership runs all rows. Rows that delete the provider's namespace or CRDs, which affect the whole management cluster, come last, one after
// the other.
func TestOwnership(t *testing.T) {
	t.Run("together", func(t *testing.T) {
		for _, r := range slices.Concat(restores(), deletions(), changes(), moves()) {
			if r.before == "" {
				t.Run(r.event, func(t *testing.T) {
					t.Parallel()
					r.live(t)
				})
			}
		}
	})
	for _, r := range uninstalls() {
		t.Run(r.event, r.live)
	}
}

// rows returns all rows, in the order of the page.
func rows() []row {
	return slices.Concat(restores(), moves(), deletions(), uninstalls(), changes())
}

// chain returns the rows that run on the Cluster of this row, in order.
func (r row) chain() (all []row) {
	for _, one := range rows() {
		if one.before == r.event {
			all = append(all, one)
		}
	}
	return append(all, r)
}

// live runs the row, after the rows before it.
func (r row) live(t *testing.T) {
	s := newStory(t)
	chain := r.chain()
	for _, one := range chain {
		if one.with != nil {
			one.with(s)
		}
	}
	s.settle()
	for i, one := range chain {
		if i > 0 {
			s.settled(box)
		}
		t.Log(one.event)
		one.play(s)
	}
}

// play causes the event, checks what follows, and notes the reasons of the conditions.
func (r row) play(s *story) {
	s.Helper()
	s.begin = len(box.Portal.RequestLog())
	r.happens(s)
	s.Eventually(func(g Gomega) {
		asked := s.requests()
		if !begins(r.expected(asked), asked) {
			StopTrying(fmt.Sprintf("the provider has sent the requests %v, and should send %v", asked, r.expected(asked))).Now()
		}
		g.Expect(asked).To(HaveExactElements(r.expected(asked)), "requests")
		for _, want := range r.sees {
			reason, status, got := want.look(s)
			if want.status != either {
				g.Expect(status).To(Equal(want.status), "%s: %s", want, got)
			}
			if want.reason != "" {
				g.Expect(reason).To(Equal(want.reason), "%s: %s", want, got)
			}
		}
	}).Should(Succeed())
	r.note(s)
	if r.after != nil {
		r.after(s)
	}
	s.Consistently(s.requests, quiet, time.Second).Should(HaveExactElements(r.expected(s.requests())), "requests")
	s.Eventually(s.PortalClusters).Should(HaveLen(r.clusters), "portal clusters")
}

// expected returns all requests that the provider should send if it has sent these.
func (r row) expected(sent []string) []string {
	if len(r.early) > 0 && len(sent) > 0 && sent[0] == r.early[0] {
		return slices.Concat(r.early, r.asked)
	}
	return r.asked
}

// begins reports whether got are the first of the wanted requests, or all of them.
func begins(want, got []string) bool {
	return len(got) <= len(want) && slices.Equal(want[:len(got)], got)
}

// note keeps the reasons for the page. It checks that a condition that needs the user has a reason and a message.
func (r row) note(s *story) {
	s.Helper()
	seen := make([]string, len(r.sees))
	for i, want := range r.sees {
		reason, status, message := want.look(s)
		if want.troubles(status) {
			s.Expect(reason).NotTo(BeEmpty(), "reason of %s", want)
			s.Expect(message).NotTo(BeEmpty(), "message of %s", want)
		}
		if want.status == either || want.troubles(status) {
			seen[i] = reason
		}
	}
	resultsMu.Lock()
	defer resultsMu.Unlock()
	results[r.event] = seen
}

// troubles reports whether a condition with this status needs the user.
func (w sight) troubles(status metav1.ConditionStatus) bool {
	switch w.condition {
	case "", clusterv1.PausedCondition:
		return false
	case clusterv1.DeletingCondition:
		return status == metav1.ConditionTrue
	}
	return status != metav1.ConditionTrue
}

// isGood reports whether the row expects a condition in its good state.
func (w sight) isGood() bool {
	return w.condition != "" && w.status != either && !w.troubles(w.status)
}

func (w sight) String() string {
	if w.condition == "" {
		return w.kind + " is gone"
	}
	if w.status == either {
		return fmt.Sprintf("%s `%s`", w.kind, w.condition)
	}
	return fmt.Sprintf("%s `%s=%s`", w.kind, w.condition, w.status)
}

// look reads the condition. If the object is gone, the status is empty.
func (w sight) look(s *story) (reason string, status metav1.ConditionStatus, message string) {
	o := w.object(s)
	err := box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return "", "", "does not exist"
	}
	if err != nil {
		return "", metav1.ConditionUnknown, err.Error()
	}
	getter, _ := o.(conditions.Getter)
	if c := conditions.Get(getter, w.condition); c != nil {
		return c.Reason, c.Status, c.Message
	}
	return "", metav1.ConditionUnknown, "no such condition"
}

func (w sight) object(s *story) client.Object {
	objects := map[string]client.Object{
		"Cluster": &clusterv1.Cluster{}, "MachineDeployment": &clusterv1.MachineDeployment{},
		"PortalCluster": &infrav1.PortalCluster{}, "PortalControlPlane": &infrav1.PortalControlPlane{},
	}
	o := objects[w.kind]
	o.SetNamespace(s.Namespace)
	o.SetName(name)
	return o
}

// isTrue reports whether a condition of the object is True.
func isTrue(s *story, o client.Object, condition string) bool {
	if box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o) != nil {
		return false
	}
	getter, ok := o.(conditions.Getter)
	return ok && conditions.IsTrue(getter, condition)
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

// Sights that several rows share.
var (
	available   = sight{kind: "Cluster", condition: clusterv1.ClusterAvailableCondition, status: metav1.ConditionTrue}
	provisioned = sight{kind: "PortalControlPlane", condition: infrav1.ProvisionedCondition, status: metav1.ConditionTrue}
	held        = sight{kind: "PortalControlPlane", condition: clusterv1.DeletingCondition, status: metav1.ConditionTrue}
	notDeleting = sight{kind: "PortalControlPlane", condition: clusterv1.DeletingCondition, status: metav1.ConditionFalse}
)
