// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
)

// variables are what templates/cluster-template.yaml wants beside clusterctl's own. The emulated portal takes any zone,
// offering and key pair.
func (s *Sandbox) variables() map[string]string {
	return map[string]string{
		"KUBECONFIG":                 s.Kubeconfig,
		"PORTAL_ZONE_ID":             "zone-1",
		"PORTAL_VPC":                 "default",
		"PORTAL_SERVICE_OFFERING_ID": "offering-4-16",
		"PORTAL_SSH_KEY_PAIR":        "sandbox",
		"PORTAL_IDENTITY":            s.Identity.Name,
	}
}

// Environment is what clusterctl and kubectl need to work with the sandbox, as "KEY=value". Clusterctl keeps no files
// in the user's home then, and asks no server for newer releases.
func (s *Sandbox) Environment() []string {
	environment := []string{
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"XDG_CONFIG_HOME=" + filepath.Join(s.Dir, "config"),
	}
	for _, name := range slices.Sorted(maps.Keys(s.variables())) {
		environment = append(environment, name+"="+s.variables()[name])
	}
	return environment
}

// Kubectl is the path of the kubectl to use: the user's, else the one that make kube has built.
func (s *Sandbox) Kubectl() string {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	return s.Binary("kubectl")
}

// Explain prints how to use the sandbox.
func (s *Sandbox) Explain(out io.Writer) error {
	variables := s.variables()
	var exports string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		exports += fmt.Sprintf("  export %s=%s\n", name, variables[name])
	}
	_, err := fmt.Fprintf(out, `
The sandbox is up. The portal answers at %[1]s; Secret %[2]s holds the credentials.
Logs are in %[3]s. In another terminal:

%[4]s
  %[5]s generate cluster my-cluster --from %[6]s \
    --kubernetes-version %[7]s --worker-machine-count 3 | kubectl apply -f -
  kubectl get clusters,machinedeployments,machines,portalcontrolplanes --watch
  %[5]s describe cluster my-cluster --show-conditions all
  %[5]s get kubeconfig my-cluster > my-cluster.kubeconfig
  kubectl scale machinedeployment my-cluster-workers --replicas 5
  kubectl delete cluster my-cluster

What the portal was asked, and faults to give it:

  curl %[8]s/journal?format=text
  curl %[8]s/faults --data '{"method": "POST", "path": "/kubernetes-clusters/*/scale", "code": "INSUFFICIENT_CAPACITY", "count": 2}'

Ctrl-C ends everything.
`, s.Portal.URL(), s.Identity, s.Dir, exports, s.Binary("clusterctl"), s.File("templates", "cluster-template.yaml"),
		s.offered()[0], s.PortalAdminURL)
	return err
}
