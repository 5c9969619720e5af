// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// canary represents everything that is secret in a kubeconfig.
const canary = "canary-7d1f"

// kubeconfigFor has the given cluster and user, in YAML's flow style.
func kubeconfigFor(cluster, user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: admin
contexts: [{name: admin, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
}

func TestEndpointOf(t *testing.T) {
	token := "token: " + canary
	tests := map[string]struct {
		config string
		want   clusterv1.APIEndpoint
	}{
		"name and port":     {kubeconfigFor("server: 'https://api.portal.example:6443'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 6443}},
		"the default port":  {kubeconfigFor("server: 'https://api.portal.example'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 443}},
		"a path":            {kubeconfigFor("server: 'https://api.portal.example/k8s/c-1'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 443}},
		"an address":        {kubeconfigFor("server: 'https://192.0.2.7:6443'", token), clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}},
		"an IPv6 address":   {kubeconfigFor("server: 'https://[2001:db8:0::7]:6443'", token), clusterv1.APIEndpoint{Host: "2001:db8::7", Port: 6443}},
		"credentials aside": {kubeconfigFor("server: 'https://192.0.2.7:1'", ""), clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := endpointOf([]byte(test.config))
			if err != nil || got != test.want {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestEndpointOfRefuses: an unusable kubeconfig is refused, and the error contains nothing of it.
func TestEndpointOfRefuses(t *testing.T) {
	token := "token: " + canary
	server := "server: 'https://" + canary + ".example:6443'"
	tests := map[string]string{
		"empty":             "",
		"text":              canary,
		"another document":  "apiVersion: v1\nkind: Secret\nstringData: {password: " + canary + "}\n",
		"no YAML":           "{" + canary + ": [",
		"no context":        strings.Replace(kubeconfigFor(server, token), "current-context: admin", "current-context: "+canary, 1),
		"plain http":        kubeconfigFor("server: 'http://"+canary+":8080'", token),
		"no server":         kubeconfigFor("tls-server-name: "+canary, token),
		"no verification":   kubeconfigFor(server+", insecure-skip-tls-verify: true", token),
		"no host":           kubeconfigFor("server: 'https://'", token),
		"a password":        kubeconfigFor(server, "username: a, password: "+canary),
		"a spoilt key pair": kubeconfigFor(server, "client-certificate-data: "+canary+"!, client-key-data: x"),
	}
	for title, config := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := endpointOf([]byte(config))
			if err == nil {
				t.Fatalf("accepted: %v", got)
			}
			if got.IsValid() || strings.Contains(err.Error(), canary) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
