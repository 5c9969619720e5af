// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// begin begins a life: judges and people look at it from now on.
func (w *World) begin(p plan) *life {
	l := &life{World: w, plan: p, template: "a"}
	l.judge = newJudge(l)
	l.person = &person{World: w, since: map[string]time.Time{}}
	w.looks = append(w.looks, l.judge.look, l.person.look)
	return l
}

// live lives the life: it creates a cluster, does what the plan says, lets everything settle and rest, and deletes the cluster. It returns
// what was wrong.
func (w *World) live(p plan) (l *life) {
	l = w.begin(p)
	w.must(w.Portal.Inject(p.Troubles...))
	w.CreateCluster(int32(1 + p.Seed%4))
	l.checks()
	for _, s := range p.Steps {
		for _, a := range acts {
			if a.name != s.Act {
				continue
			}
			w.note("act: %s %d %d", s.Act, s.N, s.M)
			w.note("act: %s", a.do(l, s.N, s.M))
		}
		w.Let(s.Gap)
	}
	l.mend()
	l.setSpare(l.App.Pods)                       // Pods that fit nowhere, because no worker is wanted, would hold the last drain forever
	if len(l.deployments()) == 0 && l.exists() { // otherwise nothing says how many workers there are to be
		l.newDeployment(2, 0)
	}
	w.note("everything settles")
	if !l.settles() {
		return l
	}
	l.rest()
	l.judge.warned()
	l.deleteCluster()
	return l
}

// checks creates the MachineHealthCheck of the plan, if it has one. It does not replace Machines that wait for a node, as docs/workers.md says.
func (l *life) checks() {
	if l.plan.HealthCheck {
		l.checkHealth(0, unhealthy(nodeTrouble, corev1.ConditionTrue), unhealthy(corev1.NodeReady, corev1.ConditionUnknown))
	}
}

// settles waits until the life has settled, or until a judge has found something.
func (l *life) settles() bool {
	l.Until("settled", endurance, func() string {
		if len(l.judge.wrongs) > 0 {
			return ""
		}
		return l.settled()
	})
	return len(l.judge.wrongs) == 0
}
