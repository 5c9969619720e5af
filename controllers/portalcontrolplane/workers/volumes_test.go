// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
)

// TestDrainNodeAwaitsVolumes drains a Node whose only Pod is gone, and whose volume is detached later, or never. By core's rules, the Node is
// drained when the volume is detached, or after nodeVolumeDetachTimeoutSeconds. A manager that starts in between does not wait longer.
func TestDrainNodeAwaitsVolumes(t *testing.T) {
	const never = time.Hour
	tests := map[string]struct {
		rules           drain.Rules
		detached, takes time.Duration
	}{
		"detached":                           {drain.Rules{}, time.Minute, time.Minute},
		"never detached":                     {drain.Rules{}, never, never},
		"never, and it has a timeout":        {drain.Rules{VolumeTimeoutSeconds: 60}, never, 65 * time.Second},
		"before the timeout":                 {drain.Rules{VolumeTimeoutSeconds: 60}, 30 * time.Second, 30 * time.Second},
		"never, and the Machine excluded it": {drain.Rules{VolumesExcluded: true}, never, 5 * time.Second},
		"not evicted, but awaited":           {drain.Rules{Excluded: true}, time.Minute, time.Minute},
		"the drain's timeout is another":     {drain.Rules{TimeoutSeconds: 10}, never, never},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDraining(t, 0, nodeWith(note(infrav1.DrainRulesAnnotation, test.rules.String()), func(n *corev1.Node) {
					n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "data"}}
				}), 0)
				began, state := time.Now(), ""
				for ; time.Since(began) < never; time.Sleep(5 * time.Second) {
					if n := d.node(); time.Since(began) >= test.detached && len(n.Status.VolumesAttached) > 0 {
						n.Status.VolumesAttached = nil
						if err := d.workload.Status().Update(t.Context(), n); err != nil {
							t.Fatal(err)
						}
					}
					if state = d.pass(); state == "drained" {
						break
					}
					if waits := strings.Contains(d.shown, "volumes are still attached: data"); waits != (time.Since(began) > 0) {
						t.Errorf("after %s the drain waits for %q", time.Since(began), d.shown)
					}
				}
				if took := time.Since(began); took != test.takes || (state == "drained") != (took < never) {
					t.Errorf("%s after %s, want it after %s", state, took, test.takes)
				}
				if waits := metav1.HasAnnotation(d.node().ObjectMeta, infrav1.VolumeDetachStartedAnnotation); waits != (state != "drained") {
					t.Errorf("%s, and the annotation of the wait exists: %t", state, waits)
				}
			})
		})
	}
}
