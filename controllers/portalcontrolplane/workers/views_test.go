// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"cmp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestTimeIn checks that an annotation with an invalid time, which a person has written, counts as long ago.
func TestTimeIn(t *testing.T) {
	created := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for title, test := range map[string]struct {
		value *string
		want  time.Time
	}{
		"none":         {nil, time.Time{}},
		"a time":       {ptr.To("2026-01-01T10:00:00Z"), created.Add(time.Hour)},
		"another zone": {ptr.To("2026-01-01T12:00:00+02:00"), created.Add(time.Hour)},
		"a word":       {ptr.To("true"), created.Add(time.Second)},
	} {
		n := nodeWith(func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(created) }, note("another", "2026-01-01T11:00:00Z"))
		if test.value != nil {
			note(infrav1.DrainedAnnotation, *test.value)(n)
		}
		if got := timeIn(n, infrav1.DrainedAnnotation); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", title, got, test.want)
		}
	}
	unborn := nodeWith(func(n *corev1.Node) { n.CreationTimestamp = metav1.Time{} }, note(infrav1.DrainedAnnotation, "yes"))
	if timeIn(unborn, infrav1.DrainedAnnotation).IsZero() {
		t.Error("a word on a Node without a creation time counts as no annotation")
	}
}

// TestNotReadySince checks since when a Node counts as not Ready.
func TestNotReadySince(t *testing.T) {
	moment := metav1.NewTime(time.Unix(1000, 0))
	for title, test := range map[string]struct {
		conditions []corev1.NodeCondition
		want       time.Time
	}{
		"Ready":            {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: moment}}, time.Time{}},
		"not Ready":        {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: moment}}, moment.Time},
		"a heartbeat":      {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: moment}}, time.Time{}},
		"no condition":     {nil, time.Time{}},
		"another, not yet": {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastTransitionTime: moment}}, time.Time{}},
		"after another": {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: moment}}, moment.Time},
	} {
		n := nodeWith()
		n.Status.Conditions = test.conditions
		if got := notReadySince(n, 0); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", title, got, test.want)
		}
	}
}

// TestNodeViews checks what a plan sees of a Node.
func TestNodeViews(t *testing.T) {
	created, moment := time.Unix(0, 0), time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	stamp := moment.Format(time.RFC3339)
	plain := func(change func(*claims.Node)) claims.Node {
		view := claims.Node{NodeID: claims.NodeID{Name: "w", UID: "uid-w"}, Created: created}
		change(&view)
		return view
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(moment)})
		}
	}
	tests := map[string]struct {
		node   *corev1.Node
		pinned bool
		want   claims.Node
	}{
		"Ready":                     {nodeWith(condition(corev1.NodeReady, corev1.ConditionTrue)), false, plain(func(n *claims.Node) { n.Ready = true })},
		"not Ready":                 {nodeWith(condition(corev1.NodeReady, corev1.ConditionUnknown)), false, plain(func(n *claims.Node) { n.NotReadySince = moment })},
		"cordoned":                  {nodeWith(cordon), false, plain(func(n *claims.Node) { n.Cordoned = true })},
		"with a providerID":         {nodeWith(func(n *corev1.Node) { n.Spec.ProviderID = "cloud://w" }), false, plain(func(n *claims.Node) { n.ProviderID = "cloud://w" })},
		"held by a Machine before":  {nodeWith(note(clusterv1.OwnerNameAnnotation, "a-1")), false, plain(func(n *claims.Node) { n.LastOwner = "a-1" })},
		"tainted by the autoscaler": {nodeWith(taint(autoscalerTaint)), false, plain(func(n *claims.Node) { n.TaintedByAutoscaler = true })},
		"not initialized":           {nodeWith(taint(uninitializedTaint)), false, plain(func(n *claims.Node) { n.Uninitialized = true })},
		"being drained":             {nodeWith(note(infrav1.DrainStartedAnnotation, stamp)), false, plain(func(n *claims.Node) { n.DrainStarted = moment })},
		"drained":                   {nodeWith(note(infrav1.DrainedAnnotation, stamp)), false, plain(func(n *claims.Node) { n.Drained = moment })},
		"pinned by a Pod":           {nodeWith(), true, plain(func(n *claims.Node) { n.Pinned = true })},
		"protected by the provider": {nodeWith(note(scaleDownDisabled, "true"), note(infrav1.ScaleDownDisabledAnnotation, "")), false,
			plain(func(n *claims.Node) { n.ScaleDownDisabled = true })},
		"pinned by the user's true": {nodeWith(note(scaleDownDisabled, "true")), false, plain(func(n *claims.Node) { n.ScaleDownSetByUser, n.Pinned = true, true })},
		"the user's false pins not": {nodeWith(note(scaleDownDisabled, "false")), false, plain(func(n *claims.Node) { n.ScaleDownSetByUser = true })},
		"but a Pod still does":      {nodeWith(note(scaleDownDisabled, "false")), true, plain(func(n *claims.Node) { n.ScaleDownSetByUser, n.Pinned = true, true })},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			pinned := map[string]bool{"w": test.pinned, "another": true}
			if diff := gocmp.Diff([]claims.Node{test.want}, nodeViews([]corev1.Node{*test.node}, pinned, nil, 0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoteOrigins checks which owner's Machine last held a Node, and which operation made it.
func TestNoteOrigins(t *testing.T) {
	machine := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		clusterv1.MachineSetNameLabel: "a-1", clusterv1.MachineDeploymentNameLabel: "a",
	}}}
	last := &operation.Operation{ID: "op2", Type: operation.Scale, Before: []removal.NodeSnapshot{{UID: "u1", Created: 1, Batch: "op1"}}}
	node := func(uid string, created int64, owner, noted string) claims.Node {
		return claims.Node{NodeID: claims.NodeID{UID: uid}, Created: time.Unix(created, 0), LastOwner: owner, BatchNoted: noted}
	}
	nodes := []claims.Node{node("u1", 1, "a-1", ""), node("u2", 2, "b-1", ""), node("u3", 3, "", "op0")}
	standalone := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	noteOrigins(nodes, []clusterv1.Machine{machine, standalone}, last)
	var got []string
	for _, n := range nodes {
		got = append(got, n.LastOwner+" "+n.Batch)
	}
	if diff := gocmp.Diff([]string{"a op1", "b-1 op2", " op0"}, got); diff != "" {
		t.Error(diff)
	}
	for title, last := range map[string]*operation.Operation{
		"a deletion made it":                         {ID: "op3", Type: operation.Delete, Before: last.Before},
		"nothing is known about the nodes before it": {ID: "op3", Type: operation.Scale},
	} {
		if noteOrigins(nodes[1:2], nil, last); nodes[1].Batch != "" {
			t.Errorf("%s: %s", title, nodes[1].Batch)
		}
	}
}

// TestMachineView checks what a plan sees of a Machine and its PortalMachine.
func TestMachineView(t *testing.T) {
	type both func(*clusterv1.Machine, *infrav1.PortalMachine)
	now := ptr.To(metav1.Now())
	hold := func(m *clusterv1.Machine, kind string, status metav1.ConditionStatus, reason string) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
	}
	annotate := func(keys ...string) both {
		return func(m *clusterv1.Machine, _ *infrav1.PortalMachine) {
			for _, key := range keys {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, "")
			}
		}
	}
	deleting := func(reason string) both {
		return func(m *clusterv1.Machine, _ *infrav1.PortalMachine) {
			m.DeletionTimestamp = now
			hold(m, clusterv1.MachineDeletingCondition, metav1.ConditionTrue, reason)
		}
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string) both {
		return func(m *clusterv1.Machine, _ *infrav1.PortalMachine) { hold(m, kind, status, reason) }
	}
	tests := map[string]struct {
		change both
		want   claims.Machine
	}{
		"new":                 {func(*clusterv1.Machine, *infrav1.PortalMachine) {}, claims.Machine{}},
		"with hooks":          {annotate(infrav1.PreDrainHook, infrav1.PreTerminateHook), claims.Machine{PreDrain: true, PreTerminate: true}},
		"to be deleted first": {annotate(clusterv1.DeleteMachineAnnotation), claims.Machine{DeleteFirst: true}},
		"core drains it":      {deleting(clusterv1.MachineDeletingDrainingNodeReason), claims.Machine{Deleting: true}},
		"core has drained it": {func(m *clusterv1.Machine, pm *infrav1.PortalMachine) {
			deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason)(m, pm)
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: *now}
		}, claims.Machine{Deleting: true, AtPreTerminate: true}},
		"core has drained it, and a storage operator has not finished": {func(m *clusterv1.Machine, pm *infrav1.PortalMachine) {
			annotate(infrav1.PreTerminateHook, clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/evacuation")(m, pm)
			deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason)(m, pm)
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: *now}
		}, claims.Machine{Deleting: true, PreTerminate: true}},
		"core has skipped its drain": {deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason),
			claims.Machine{Deleting: true, AtPreTerminate: true, DrainSkipped: true}},
		"excluded from drains": {func(m *clusterv1.Machine, pm *infrav1.PortalMachine) {
			annotate(clusterv1.ExcludeNodeDrainingAnnotation)(m, pm)
			deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason)(m, pm)
		}, claims.Machine{Deleting: true, AtPreTerminate: true, DrainRules: `{"excluded":true}`}},
		"with a drain timeout": {func(m *clusterv1.Machine, _ *infrav1.PortalMachine) {
			m.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](60)
		},
			claims.Machine{DrainRules: `{"timeoutSeconds":60}`}},
		"its PortalMachine deleted": {func(_ *clusterv1.Machine, pm *infrav1.PortalMachine) { pm.DeletionTimestamp = now }, claims.Machine{Deleting: true, PortalMachineDeleted: true}},
		"of an older revision":      {condition(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason), claims.Machine{Outdated: true}},
		"of an older version only":  {condition(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, "Updating"), claims.Machine{}},
		"of a MachineDeployment": {func(m *clusterv1.Machine, _ *infrav1.PortalMachine) {
			m.Labels = map[string]string{clusterv1.MachineSetNameLabel: "a-1", clusterv1.MachineDeploymentNameLabel: "a"}
		}, claims.Machine{Owner: "a", DrainRules: `{"labels":{"cluster.x-k8s.io/deployment-name":"a","cluster.x-k8s.io/set-name":"a-1"}}`}},
		"of a MachineSet": {func(m *clusterv1.Machine, _ *infrav1.PortalMachine) {
			m.Labels = map[string]string{clusterv1.MachineSetNameLabel: "a-1"}
		}, claims.Machine{Owner: "a-1", DrainRules: `{"labels":{"cluster.x-k8s.io/set-name":"a-1"}}`}},
		"bound": {func(m *clusterv1.Machine, pm *infrav1.PortalMachine) {
			pm.Spec.ProviderID, pm.Spec.Node = "cloud://w", &infrav1.BoundNode{Name: "w", UID: "uid-w"}
			m.Spec.ProviderID, m.Status.NodeRef.Name = "cloud://v", "v"
		}, claims.Machine{Claim: claims.NodeID{Name: "w", UID: "uid-w", ProviderID: "cloud://w"}, ProviderID: "cloud://v", NodeRef: "v"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			m, pm := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, infrav1.PortalMachine{}
			test.change(&m, &pm)
			test.want.Name, test.want.Owner, test.want.DrainRules = "m", cmp.Or(test.want.Owner, "/m"), cmp.Or(test.want.DrainRules, "{}")
			if diff := gocmp.Diff(test.want, machineView(m, pm)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMachineViews checks which Machines a plan sees, and which of them ask for workers that the portal cluster does not have. Machines of
// their own have each other's nodes only if no rules of theirs are broken, so they do not count as one MachineDeployment.
func TestMachineViews(t *testing.T) {
	machine := func(name, claim string, deleted bool) (m clusterv1.Machine) {
		m.Name, m.Spec.InfrastructureRef.Name, m.Spec.ProviderID = name, claim, "cloud://"+name
		if deleted {
			m.DeletionTimestamp = ptr.To(metav1.Now())
		}
		return m
	}
	claim := func(name, offering string) (pm infrav1.PortalMachine) {
		pm.Name, pm.Spec.ServiceOfferingID, pm.Spec.ProviderID = name, offering, "cloud://"+name
		return pm
	}
	all := Members{
		Machines:       []clusterv1.Machine{machine("m1", "c1", false), machine("m2", "c2", false), machine("m3", "c3", false), machine("m4", "c4", true)},
		portalMachines: []infrav1.PortalMachine{claim("c2", "large"), claim("c1", "small")},
	}
	want := []claims.Machine{
		{Name: "m1", Owner: "/m1", DrainRules: "{}", ProviderID: "cloud://m1", Claim: claims.NodeID{ProviderID: "cloud://c1"}},
		{Name: "m2", Owner: "/m2", DrainRules: "{}", ProviderID: "cloud://m2", Claim: claims.NodeID{ProviderID: "cloud://c2"}, TemplateMismatch: true},
		// m3 has no PortalMachine yet, and m4's was deleted by hand
		{Name: "m4", Owner: "/m4", DrainRules: "{}", ProviderID: "cloud://m4", Claim: claims.NodeID{ProviderID: "cloud://m4"}, Deleting: true, PortalMachineDeleted: true},
	}
	if diff := gocmp.Diff(want, machineViews(all, &infrav1.WorkerParameters{ServiceOfferingID: "small"})); diff != "" {
		t.Error(diff)
	}
	// adopted: the parameters of the workers are unknown
	if views := machineViews(all, nil); views[1].TemplateMismatch {
		t.Error("the workers of an adopted cluster are not known, and differ from the template")
	}
}
