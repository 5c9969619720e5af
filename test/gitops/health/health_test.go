// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const root = "../../.."

func readPage(t *testing.T) Page {
	t.Helper()
	page, err := ReadPage(filepath.Join(root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// object returns an object of generation 2 with one condition for each line "Type Status Reason observedGeneration".
func object(kind string, deleting bool, lines ...string) *unstructured.Unstructured {
	version := "cluster.x-k8s.io/v1beta2"
	if kind == "PortalControlPlane" {
		version = "infrastructure.cluster.x-k8s.io/v1beta1"
	}
	metadata := map[string]any{"generation": int64(2)}
	if deleting {
		metadata["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata}
	var all []any
	for _, line := range lines {
		f := strings.Fields(line)
		all = append(all, map[string]any{"type": f[0], "status": f[1], "reason": f[2], "message": "", "observedGeneration": int64(f[3][0] - '0')})
	}
	if all != nil {
		o["status"] = map[string]any{"conditions": all}
	}
	return &unstructured.Unstructured{Object: o}
}

// TestChecks evaluates the checks of the page for objects of every phase.
func TestChecks(t *testing.T) {
	page := readPage(t)
	flux, err := page.Flux()
	if err != nil {
		t.Fatal(err)
	}
	argo, err := page.ArgoCD()
	if err != nil {
		t.Fatal(err)
	}
	const controlPlane, cluster, deployment = "PortalControlPlane", "Cluster", "MachineDeployment"
	quiet := []string{"RollingOut False NotRollingOut 2", "ScalingUp False NotScalingUp 2", "ScalingDown False NotScalingDown 2"}
	with := func(lines ...string) []string { return append(lines, quiet...) }
	for title, test := range map[string]struct {
		kind       string
		deleting   bool
		conditions []string
		flux, argo State
	}{
		"not seen yet":       {controlPlane, false, nil, Unknown, InProgress},
		"creating":           {controlPlane, false, []string{"Available False Creating 2", "VersionUpToDate Unknown WaitingForDependency 2", "WorkersReady Unknown WaitingForDependency 2"}, InProgress, InProgress},
		"ready":              {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 2", "WorkersReady True Ready 2"}, Current, Current},
		"changed since":      {controlPlane, false, []string{"Available True Ready 1", "VersionUpToDate True Ready 1", "WorkersReady True Ready 1"}, InProgress, InProgress},
		"version not judged": {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 1", "WorkersReady True Ready 2"}, InProgress, InProgress},
		"scaling":            {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 2", "WorkersReady False ScalingUp 2"}, InProgress, InProgress},
		"upgrading":          {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate False Upgrading 2", "WorkersReady Unknown WaitingForOperation 2"}, InProgress, InProgress},
		"failed":             {controlPlane, false, []string{"Available False Refused 2", "VersionUpToDate Unknown WaitingForDependency 2", "WorkersReady Unknown WaitingForDependency 2"}, Failed, Failed},
		"failed later":       {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate False Upgrading 2", "WorkersReady False TemplateNotHonored 2"}, Failed, Failed},
		"failed, corrected":  {controlPlane, false, []string{"Available False VersionNotOffered 1", "VersionUpToDate Unknown WaitingForDependency 1", "WorkersReady Unknown WaitingForDependency 1"}, InProgress, InProgress},
		"deleting":           {controlPlane, true, []string{"Available False Deleting 2", "Deleting True Deleting 2", "VersionUpToDate True Ready 1", "WorkersReady True Ready 1"}, InProgress, InProgress},
		"held":               {controlPlane, true, []string{"Available False Deleting 2", "Deleting True DeletionNotConfirmed 2", "VersionUpToDate True Ready 1", "WorkersReady True Ready 1"}, Failed, InProgress},

		"Cluster, creating":                 {cluster, false, with("Available False NotAvailable 2"), InProgress, InProgress},
		"Cluster, ready":                    {cluster, false, with("Available True Available 2"), Current, Current},
		"Cluster, changed since":            {cluster, false, with("Available True Available 1"), InProgress, InProgress},
		"Cluster, scaling":                  {cluster, false, append([]string{"Available True Available 2", "ScalingUp True ScalingUp 2"}, quiet[0], quiet[2]), InProgress, InProgress},
		"Cluster, upgrading":                {cluster, false, append([]string{"Available True Available 2", "RollingOut True RollingOut 2"}, quiet[1:]...), InProgress, InProgress},
		"Cluster, deleting":                 {cluster, true, with("Available False Deleting 2"), InProgress, InProgress},
		"Cluster, topology is reconciled":   {cluster, false, with("Available True Available 2", "TopologyReconciled True ReconcileSucceeded 2"), Current, Current},
		"Cluster, topology waits":           {cluster, false, with("Available True Available 2", "TopologyReconciled False ControlPlaneUpgradePending 2"), InProgress, InProgress},
		"MachineDeployment, ready":          {deployment, false, with("Available True Available 2"), Current, Current},
		"MachineDeployment, rolling out":    {deployment, false, append([]string{"Available True Available 2", "RollingOut True RollingOut 2"}, quiet[1:]...), InProgress, InProgress},
		"MachineDeployment, scaled since":   {deployment, false, []string{"Available True Available 1", "RollingOut False NotRollingOut 1", "ScalingUp False NotScalingUp 1", "ScalingDown False NotScalingDown 1"}, InProgress, InProgress},
		"MachineDeployment, nothing is set": {deployment, false, nil, Unknown, InProgress},
	} {
		t.Run(title, func(t *testing.T) {
			o := object(test.kind, test.deleting, test.conditions...)
			if got, err := flux[test.kind](o); got != test.flux || (err != nil) != (got == Unknown) {
				t.Errorf("Flux: %s, want %s (%v)", got, test.flux, err)
			}
			if got, err := argo[test.kind](o); got != test.argo || err != nil {
				t.Errorf("Argo CD: %s, want %s (%v)", got, test.argo, err)
			}
		})
	}
}

// TestReasons checks that Flux and Argo CD fail for the same reasons, and that the API has all of them.
func TestReasons(t *testing.T) {
	page := readPage(t)
	source, err := os.ReadFile(filepath.Join(root, "api", "v1beta1", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	list := func(heading, pattern, quote string) (reasons []string) {
		t.Helper()
		blocks, err := page.blocks(heading, "yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(blocks[0])
		if found == nil {
			t.Fatalf("no list of reasons under %s", heading)
		}
		for _, item := range regexp.MustCompile(quote+`(\w+)`+quote).FindAllStringSubmatch(found[1], -1) {
			reasons = append(reasons, item[1])
		}
		slices.Sort(reasons)
		return reasons
	}
	flux := list("### Flux", `(?s)c\.reason in \[(.*?)\]`, "'")
	argo := list("### Argo CD", `(?s)reason in ipairs\(\{(.*?)\}`, `"`)
	if !slices.Equal(flux, argo) {
		t.Errorf("Flux fails for %v, Argo CD for %v", flux, argo)
	}
	for _, reason := range flux {
		if !strings.Contains(string(source), `Reason = "`+reason+`"`) {
			t.Errorf("the API has no reason %s", reason)
		}
	}
}
