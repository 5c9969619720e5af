// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

func TestEndpointOf(t *testing.T) {
	token := "token: " + kubeconfigs.Canary
	tests := map[string]struct {
		config string
		want   clusterv1.APIEndpoint
	}{
		"name and port":     {kubeconfigs.For("server: 'https://api.portal.example:6443'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 6443}},
		"the default port":  {kubeconfigs.For("server: 'https://api.portal.example'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 443}},
		"a path":            {kubeconfigs.For("server: 'https://api.portal.example/k8s/c-1'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 443}},
		"an address":        {kubeconfigs.For("server: 'https://192.0.2.7:6443'", token), clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}},
		"an IPv6 address":   {kubeconfigs.For("server: 'https://[2001:db8:0::7]:6443'", token), clusterv1.APIEndpoint{Host: "2001:db8::7", Port: 6443}},
		"credentials aside": {kubeconfigs.For("server: 'https://192.0.2.7:1'", ""), clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 1}},
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
	token := "token: " + kubeconfigs.Canary
	server := "server: 'https://" + kubeconfigs.Canary + ".example:6443'"
	tests := map[string]string{
		"empty":             "",
		"text":              kubeconfigs.Canary,
		"another document":  "apiVersion: v1\nkind: Secret\nstringData: {password: " + kubeconfigs.Canary + "}\n",
		"no YAML":           "{" + kubeconfigs.Canary + ": [",
		"no context":        strings.Replace(kubeconfigs.For(server, token), "current-context: admin", "current-context: "+kubeconfigs.Canary, 1),
		"plain http":        kubeconfigs.For("server: 'http://"+kubeconfigs.Canary+":8080'", token),
		"no server":         kubeconfigs.For("tls-server-name: "+kubeconfigs.Canary, token),
		"no verification":   kubeconfigs.For(server+", insecure-skip-tls-verify: true", token),
		"no host":           kubeconfigs.For("server: 'https://'", token),
		"a password":        kubeconfigs.For(server, "username: a, password: "+kubeconfigs.Canary),
		"a spoilt key pair": kubeconfigs.For(server, "client-certificate-data: "+kubeconfigs.Canary+"!, client-key-data: x"),
	}
	refuseAll(t, tests)
}

// refuseAll checks that no kubeconfig is used, and that no error contains anything of it.
func refuseAll(t *testing.T, tests map[string]string) {
	t.Helper()
	for title, config := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := endpointOf([]byte(config))
			if err == nil {
				t.Fatalf("accepted: %v", got)
			}
			if got.IsValid() || strings.Contains(err.Error(), kubeconfigs.Canary) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
