// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// gone lists fields that a release wrote into an annotation and that no code reads any more, each with the reason.
var gone = map[string]map[string]string{
	infrav1.OperationAnnotation: {
		"searched": "a lost creation is looked for again and again",
		"nodes":    "a job counts as stuck after 30 minutes without progress, however many nodes it touches",
	},
}

// unused lists the kinds that no recorded phase uses.
var unused = []string{"PortalClusterIdentity", "PortalMachinePool", "PortalMachinePoolTemplate"}

// annotations lists the annotations that today's code reads or writes, and that releases may have written.
var annotations = []string{
	infrav1.OperationAnnotation, infrav1.RecordAnnotation, infrav1.NetworkAnnotation, infrav1.OwnerAnnotation,
	infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.ScaleDownDisabledAnnotation,
	infrav1.PreDrainHook, infrav1.PreTerminateHook,
	"infrastructure.cluster.x-k8s.io/fetched-at", "infrastructure.cluster.x-k8s.io/fetched-after", // of the kubeconfig Secret
	"infrastructure.cluster.x-k8s.io/portal-shield", "infrastructure.cluster.x-k8s.io/remediated", // of Machines and Nodes. Nothing reads them any more
}

// TestRead checks that today's code reads the objects that each release has written.
func TestRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, release := range releases(t) {
		kinds, written := map[string]bool{}, map[string]bool{}
		for _, s := range samples(t, release) {
			for key, value := range s.GetAnnotations() {
				readAnnotation(t, s, key, value)
				written[key] = true
			}
			if !s.ours() {
				continue
			}
			kinds[s.GetKind()] = true
			o, err := scheme.New(s.GroupVersionKind())
			if err != nil {
				t.Errorf("%s: %v", s, err)
				continue
			}
			readStrictly(t, s.String(), mustMarshal(t, s.Object), o, nil)
		}
		for kind := range scheme.KnownTypes(infrav1.GroupVersion) {
			ours := strings.HasPrefix(kind, "Portal") && !strings.HasSuffix(kind, "List")
			if ours && !kinds[kind] && !slices.Contains(unused, kind) {
				t.Errorf("%s: no sample of kind %s", release, kind)
			}
		}
		for _, key := range []string{infrav1.OperationAnnotation, infrav1.RecordAnnotation, infrav1.NetworkAnnotation, infrav1.PreDrainHook, infrav1.PreTerminateHook} {
			if !written[key] {
				t.Errorf("%s: no sample of annotation %s", release, key)
			}
		}
	}
}

// readAnnotation reads an annotation as the controllers do, and fails the test for fields that they would ignore.
func readAnnotation(t *testing.T, s sample, key, value string) {
	t.Helper()
	if strings.Contains(key, "/portal") || strings.HasPrefix(key, infrav1.GroupVersion.Group+"/") {
		if !slices.Contains(annotations, key) {
			t.Errorf("%s: unknown annotation %s", s, key)
		}
	}
	switch key {
	case infrav1.OperationAnnotation:
		state, err := operation.Load(s)
		op := state.Last
		if err != nil || op.ID == "" || op.Target == "" || op.Time.IsZero() {
			t.Errorf("%s: operation %+v: %v", s, op, err)
		}
		known := []operation.Type{operation.Create, operation.Scale, operation.Upgrade, operation.Delete, operation.CreateNetwork}
		if !slices.Contains(known, op.Type) {
			t.Errorf("%s: operation %s is of type %q", s, op.ID, op.Type)
		}
		readStrictly(t, s.String()+" "+key, []byte(value), &operation.Operation{}, gone[key])
	case infrav1.RecordAnnotation:
		state, err := operation.Load(s)
		if err != nil || state.Record.Size < operation.SizeUnknown {
			t.Errorf("%s: record %+v: %v", s, state.Record, err)
		}
		readStrictly(t, s.String()+" "+key, []byte(value), &operation.Record{}, gone[key])
	}
}

// readStrictly decodes JSON and fails the test for unknown fields that are not excused.
func readStrictly(t *testing.T, what string, text []byte, into any, excused map[string]string) {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	maps.DeleteFunc(fields, func(field string, _ any) bool { return excused[field] != "" })
	decoder := json.NewDecoder(bytes.NewReader(mustMarshal(t, fields)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func mustMarshal(t *testing.T, o any) []byte {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
