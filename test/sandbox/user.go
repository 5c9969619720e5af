// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// variables returns the variables that templates/cluster-template.yaml needs besides those of clusterctl. The commands' portal has this zone,
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

// KubeconfigOf writes a kubeconfig for the management cluster, with a certificate of the user, and returns its path.
func (s *Sandbox) KubeconfigOf(user string, groups ...string) (string, error) {
	return s.plane.WriteKubeconfig(strings.ReplaceAll(user, ":", "-")+".kubeconfig", user, groups...)
}

// Environment returns the variables that clusterctl and kubectl need for the sandbox, as "KEY=value". They keep clusterctl from writing
// files to the user's home and from asking a server for newer releases.
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

// Kubectl returns the path of the user's kubectl, or of the one that make kube has built.
func (s *Sandbox) Kubectl() string {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	return s.Binary("kubectl")
}

// Explain prints how to use the sandbox. Users can paste each line into a shell as it is.
func (s *Sandbox) Explain(out io.Writer) error {
	variables := s.variables()
	var exports string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		exports += fmt.Sprintf("  export %s=%s\n", name, variables[name])
	}
	versions := s.offered()
	ca := filepath.Join(s.Dir, "portal-ca.crt")
	fromSecret := func(key string) string {
		return fmt.Sprintf("kubectl get secret %s --output jsonpath={.data.%s} | base64 --decode", s.Identity.Name, key)
	}
	credentials := fmt.Sprintf("  %s >%s\n  export PORTAL_CA_FILE=%[2]s\n  export PORTAL_EMAIL=$(%[3]s)\n  export PORTAL_PASSWORD=$(%[4]s)\n",
		fromSecret(infrav1.IdentityCABundle), ca, fromSecret(infrav1.IdentityEmail), fromSecret(infrav1.IdentityPassword))
	_, err := fmt.Fprintf(out, `
The sandbox is up. The portal answers at %[1]s; Secret %[2]s holds the credentials.
Logs are in %[3]s. %[12]s
In another terminal:

%[4]s  export CLUSTERCTL_DISABLE_VERSIONCHECK=true
  export PATH=%[5]s:$PATH

A cluster with 3 workers, from nothing to Available in less than a minute:

  clusterctl generate cluster my-cluster --from %[6]s \
    --kubernetes-version %[7]s --worker-machine-count 3 | kubectl apply -f -
  kubectl wait cluster my-cluster --for condition=Available --timeout 5m
  clusterctl describe cluster my-cluster --show-conditions all
  clusterctl get kubeconfig my-cluster > %[3]s/my-cluster.kubeconfig
  kubectl --kubeconfig %[3]s/my-cluster.kubeconfig get nodes

More workers, a newer Kubernetes, and Machines of that version on the same nodes:

  kubectl scale machinedeployment my-cluster-workers --replicas 5
  kubectl patch portalcontrolplane my-cluster --type merge --patch '{"spec": {"version": "%[8]s"}}'
  kubectl patch machinedeployment my-cluster-workers --type merge --patch '{"spec": {"template": {"spec": {"version": "%[8]s"}}}}'
  kubectl get portalcontrolplanes,machinedeployments,machines

What the portal was asked, and a fault to give it (a zone without capacity, for the next two scale requests):

  curl '%[9]s/request-log?format=text'
  curl %[9]s/faults --data '{"method": "POST", "path": "/kubernetes-clusters/*/scale", "code": "INSUFFICIENT_CAPACITY", "count": 2}'

The same portal by hand, with the credentials of the Secret:

  export PORTAL_URL=%[1]s
%[11]s  portalctl versions
  portalctl instances list

The end of the cluster:

  kubectl delete cluster my-cluster

What the portal does at random follows from its seed, %[10]d (flag --seed). Ctrl-C ends everything.
`, s.Portal.URL(), s.Identity, s.Dir, exports, filepath.Dir(s.Binary("clusterctl")), s.File("templates", "cluster-template.yaml"),
		versions[0], versions[min(1, len(versions)-1)], s.PortalAdminURL, s.Portal.Seed(), credentials, s.where())
	return err
}

// where returns the sentence that names the page's address.
func (s *Sandbox) where() string {
	if s.PageURL == "" {
		return "There is no page for a browser."
	}
	return "Watch it in a browser: " + s.PageURL
}
