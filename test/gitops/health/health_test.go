// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"os/exec"
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

// TestCheck judges objects of every phase.
func TestCheck(t *testing.T) {
	const controlPlane, cluster = "PortalControlPlane", "Cluster"
	quiet := []string{"RollingOut False NotRollingOut 2", "ScalingUp False NotScalingUp 2", "ScalingDown False NotScalingDown 2"}
	with := func(lines ...string) []string { return append(lines, quiet...) }
	for title, test := range map[string]struct {
		kind       string
		deleting   bool
		conditions []string
		want       State
	}{
		"not seen yet":             {controlPlane, false, nil, InProgress},
		"ready":                    {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 2", "WorkersReady True Ready 2"}, Current},
		"changed since":            {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 1", "WorkersReady True Ready 2"}, InProgress},
		"scaling":                  {controlPlane, false, []string{"Available True Ready 2", "VersionUpToDate True Ready 2", "WorkersReady False ScalingUp 2"}, InProgress},
		"failed":                   {controlPlane, false, []string{"Available False Refused 2"}, Failed},
		"failed before":            {controlPlane, false, []string{"Available False Refused 1"}, InProgress},
		"held":                     {controlPlane, true, []string{"Available True Ready 2", "Deleting True DeletionNotConfirmed 2"}, Failed},
		"Cluster, ready":           {cluster, false, with("Available True Available 2"), Current},
		"Cluster, scaling":         {cluster, false, append([]string{"Available True Available 2", "ScalingUp True ScalingUp 2"}, quiet[0], quiet[2]), InProgress},
		"Cluster, topology":        {cluster, false, with("Available True Available 2", "TopologyReconciled False ControlPlaneUpgradePending 2"), InProgress},
		"Cluster, topology before": {cluster, false, with("Available True Available 2", "TopologyReconciled True ReconcileSucceeded 1"), InProgress},
		"Cluster, leaving":         {cluster, true, with("Available True Available 2"), InProgress},
	} {
		t.Run(title, func(t *testing.T) {
			if got := Check(object(test.kind, test.deleting, test.conditions...), []string{"Refused", "DeletionNotConfirmed"}); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestNames checks that Flux and Argo CD fail for the same reasons, and that the API or core has every name in the snippets.
func TestNames(t *testing.T) {
	page := readPage(t)
	var source strings.Builder
	for _, pattern := range []string{filepath.Join(root, "api", "v1beta1", "*.go"), filepath.Join(coreTypes(t), "*.go")} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	flux, err := page.Reasons("### Flux")
	if err != nil || len(flux) == 0 {
		t.Fatal(flux, err)
	}
	if argo, err := page.Reasons("### Argo CD"); err != nil || !slices.Equal(flux, argo) {
		t.Errorf("Flux fails for %v, Argo CD for %v, %v", flux, argo, err)
	}
	for _, name := range slices.Concat(flux, Conditions) {
		if !regexp.MustCompile(`(?:Reason|Condition)\s+= "` + name + `"`).MatchString(source.String()) {
			t.Errorf("neither the API nor core has %s", name)
		}
	}
}

// coreTypes returns the folder of core's types.
func coreTypes(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/api/core/v1beta2").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}
