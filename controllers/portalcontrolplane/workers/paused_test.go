// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// group is a MachineDeployment with MachineSets and their Machines, as core left them when its owner paused something.
type group struct {
	replicas int32
	paused   bool
	noted    string // replicas that core noted on the MachineSets
	sets     []set
}

// set has live Machines and, in its status, those that core counted last. restored: status and owner references are lost.
type set struct {
	replicas, counted int32
	live              int
	paused, restored  bool
}

func (g group) members() (all Members) {
	pause := func(m *metav1.ObjectMeta, paused bool) {
		if paused {
			metav1.SetMetaDataAnnotation(m, clusterv1.PausedAnnotation, "")
		}
	}
	md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "uid-w"}}
	pause(&md.ObjectMeta, g.paused)
	md.Spec.Replicas, md.Spec.Selector.MatchLabels = &g.replicas, map[string]string{"group": "w"}
	md.Spec.Template.Spec.InfrastructureRef.Kind, md.Spec.Template.Spec.Version = TemplateKind, "v1.36.3"
	for i, s := range g.sets {
		name := fmt.Sprint("w-", i+1)
		labels := map[string]string{"group": "w", "set": name}
		ms := clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		pause(&ms.ObjectMeta, s.paused)
		ms.Spec.Replicas, ms.Spec.Selector.MatchLabels = &s.replicas, map[string]string{"set": name}
		ms.Spec.Template.Spec.InfrastructureRef.Kind = TemplateKind
		if g.noted != "" {
			metav1.SetMetaDataAnnotation(&ms.ObjectMeta, clusterv1.DesiredReplicasAnnotation, g.noted)
		}
		if !s.restored {
			ms.Status.Replicas = &s.counted
			ms.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
		}
		for range s.live {
			m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", len(all.Machines)), Labels: labels}}
			if !s.restored {
				m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&ms, clusterv1.GroupVersion.WithKind("MachineSet"))}
			}
			all.Machines = append(all.Machines, m)
		}
		all.sets = append(all.sets, ms)
	}
	all.deployments = []clusterv1.MachineDeployment{md}
	return all
}

// TestPausedGroups checks with how many workers a MachineDeployment counts while core does not reconcile it, or a MachineSet of it, and when its
// MachineSets and Machines were restored without owner references and core has not adopted them yet.
func TestPausedGroups(t *testing.T) {
	const name = "MachineDeployment w"
	tests := map[string]struct {
		group
		size  int // of the portal cluster
		want  int
		named string // the paused object, if the count is not the replicas
	}{
		"nothing paused":                    {group{5, false, "5", []set{{5, 3, 3, false, false}}}, 3, 5, ""},
		"restored, without owners":          {group{2, false, "2", []set{{2, 0, 1, false, true}}}, 2, 2, ""},
		"paused, and nothing changed":       {group{3, true, "3", []set{{3, 3, 3, false, false}}}, 3, 3, ""},
		"paused, then more replicas":        {group{5, true, "3", []set{{3, 3, 3, false, false}}}, 3, 3, name},
		"paused, then fewer":                {group{1, true, "3", []set{{3, 3, 3, false, false}}}, 3, 3, name},
		"paused in a roll-out":              {group{3, true, "3", []set{{3, 3, 3, false, false}, {1, 1, 1, false, false}}}, 3, 3, ""},
		"paused at zero":                    {group{2, true, "0", []set{{0, 0, 0, false, false}}}, 0, 0, name},
		"created paused":                    {group{3, true, "", nil}, 0, 0, name},
		"restored, paused":                  {group{5, true, "3", []set{{3, 0, 3, false, true}}}, 3, 3, name},
		"restored, paused, without its set": {group{3, true, "", nil}, 3, 3, name},
		"its MachineSet is paused, more":    {group{5, false, "5", []set{{5, 3, 3, true, false}}}, 3, 3, "MachineSet w-1"},
		"more, and core is about to see it": {group{5, false, "3", []set{{3, 3, 3, true, false}}}, 3, 3, "MachineSet w-1"},
		"and a Machine was deleted":         {group{3, false, "3", []set{{3, 3, 2, true, false}}}, 3, 3, ""},
		"a Machine was deleted, then fewer": {group{2, false, "2", []set{{2, 3, 2, true, false}}}, 3, 2, ""},
		"the old MachineSet of a roll-out":  {group{3, false, "3", []set{{2, 3, 3, true, false}, {1, 1, 1, false, false}}}, 3, 3, ""},
		"of a roll-out, and more":           {group{5, false, "5", []set{{3, 3, 3, true, false}, {3, 1, 1, false, false}}}, 3, 5, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			d := DesiredBy(&clusterv1.Cluster{}, test.members(), operation.Record{Size: test.size})
			notes := strings.Join(d.notes, "; ")
			if d.sum != test.want || !d.known || (notes == "") != (test.named == "") || !strings.HasPrefix(notes, test.named) {
				t.Errorf("counts with %d, want %d; %q", d.sum, test.want, notes)
			}
		})
	}
}

// TestPausedAlone checks the same for a Machine and a MachineSet of their own, and for a MachinePool. Core deletes no paused object. A Machine of a
// MachineSet counts only with its set.
func TestPausedAlone(t *testing.T) {
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	machine := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: paused}}
	bound := *machine.DeepCopy()
	bound.Status.NodeRef.Name = "n1"
	leaving := *bound.DeepCopy()
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	alone := group{replicas: 5, noted: "5", sets: []set{{5, 3, 3, true, true}}}.members()
	restored := group{replicas: 2, noted: "2", sets: []set{{2, 0, 2, false, true}}}.members()
	alone.deployments, restored.deployments = nil, nil
	restored.Machines = append(restored.Machines, clusterv1.Machine{}) // of its own
	ofSet := group{sets: []set{{1, 1, 1, false, false}}}.members().Machines[0]
	poolOf := func(annotation string, listed int) Members {
		p := aPool()
		p.machinePool.Annotations = map[string]string{clusterv1.PausedAnnotation: annotation}
		p.machinePool.Spec.Replicas, p.nodes = ptr.To[int32](5), listed
		return Members{pool: p}
	}
	for title, test := range map[string]struct {
		members Members
		want    int
	}{
		"a Machine without a node":      {Members{Machines: []clusterv1.Machine{machine}}, 0},
		"a Machine with a node":         {Members{Machines: []clusterv1.Machine{bound}}, 1},
		"deleted, which core leaves":    {Members{Machines: []clusterv1.Machine{leaving}}, 1},
		"a MachineSet":                  {alone, 3},
		"restored without owners":       {restored, 3},
		"its Machines, without the set": {Members{Machines: restored.Machines}, 3},
		"of a set that is not read":     {Members{Machines: []clusterv1.Machine{ofSet, {}}}, 1},
		"a MachinePool":                 {poolOf("", 3), 3},
		"a MachinePool, for an upgrade": {poolOf(pausedForUpgrade, 3), 5},
	} {
		d := DesiredBy(&clusterv1.Cluster{}, test.members, operation.Record{Size: 3})
		if d.sum != test.want {
			t.Errorf("%s: counts with %d, want %d; %v", title, d.sum, test.want, d.notes)
		}
		if p := test.members.pool; p != nil && poolView(&clusterv1.Cluster{}, p, Nodes{}).Replicas != test.want {
			t.Errorf("%s: gets %d nodes, want %d", title, poolView(&clusterv1.Cluster{}, p, Nodes{}).Replicas, test.want)
		}
	}
}

// TestCoreWaits checks how the condition explains a Machine that core does not get past.
func TestCoreWaits(t *testing.T) {
	const hook = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/evacuation"
	for title, test := range map[string]struct {
		annotations []string
		reason      string
		want        string
	}{
		"nothing":                           {[]string{infrav1.PreTerminateHook}, clusterv1.MachineDeletingDrainingNodeReason, ""},
		"a hook of another, later":          {[]string{infrav1.PreTerminateHook, hook}, clusterv1.MachineDeletingDrainingNodeReason, ""},
		"a hook of another":                 {[]string{infrav1.PreTerminateHook, hook}, clusterv1.MachineDeletingWaitingForPreTerminateHookReason, hook},
		"ours alone":                        {[]string{infrav1.PreTerminateHook}, clusterv1.MachineDeletingWaitingForPreTerminateHookReason, ""},
		"paused while core was to drain it": {[]string{infrav1.PreTerminateHook, clusterv1.PausedAnnotation}, "", clusterv1.PausedAnnotation},
	} {
		m := &clusterv1.Machine{}
		for _, key := range test.annotations {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, "")
		}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionStatus(corev1.ConditionTrue), Reason: test.reason}}
		if got := coreWaits(m); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q", title, got)
		}
	}
}
