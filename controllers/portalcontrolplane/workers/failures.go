// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const (
	// maxUnanswered is how many writes of a pass may fail without an answer of the API server. Each may take as long as a request may, and
	// other clusters wait in the meantime.
	maxUnanswered = 3
	// failuresShown is how many objects a condition names.
	failuresShown = 3
)

// failures are the Machines and Nodes that could not be written in a pass. The other writes that concern them are left out, because a write is
// harmless only after those that come before it in the plan. What concerns other nodes goes on.
type failures struct {
	texts      []string
	concerned  []string // Machines and Nodes
	unanswered int
}

func (f *failures) add(w claims.Write, err error) {
	what := "Node " + w.Node.Seen.Name
	if w.Machine.Seen.Name != "" {
		what = "Machine " + w.Machine.Seen.Name
	}
	f.texts = append(f.texts, fmt.Sprintf("%s cannot be changed: %s", what, err))
	f.concerned = append(f.concerned, concernedBy(w)...)
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		f.unanswered++
	}
}

// concern reports whether the write is about an object that could not be written, or relies on it.
func (f *failures) concern(w claims.Write) bool {
	return slices.ContainsFunc(concernedBy(w), func(object string) bool { return slices.Contains(f.concerned, object) })
}

// node reports whether one of the objects that could not be written is the Node, or a Machine that has it.
func (f *failures) node(name string) bool { return slices.Contains(f.concerned, "Node "+name) }

// concernedBy returns the Machine and the Nodes that a write is about. A Machine that moves is about two.
func concernedBy(w claims.Write) (objects []string) {
	m, n := w.Machine, w.Node.Seen.Name
	for _, node := range []string{n, m.Seen.Claim.Name, m.Want.Claim.Name, m.Seen.NodeRef, m.Want.NodeRef} {
		if node != "" {
			objects = append(objects, "Node "+node)
		}
	}
	if m.Seen.Name != "" {
		objects = append(objects, "Machine "+m.Seen.Name)
	}
	return objects
}

// in names the objects in an outcome, and tries again.
func (f *failures) in(o outcome.Outcome) outcome.Outcome {
	if len(f.texts) == 0 || o.Kind == outcome.Retry || o.Kind == outcome.Failed {
		return o
	}
	shown := f.texts[:min(len(f.texts), failuresShown)]
	text := strings.Join(shown, "; ")
	if more := len(f.texts) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	text += ". The provider tries again. If a policy or a webhook of the cluster refuses the change, allow it"
	if o.IsDone() {
		return outcome.WaitFor(access.Retry, infrav1.InternalErrorReason, "%s", text)
	}
	return o.With(text).NoLaterThan(access.Retry)
}
