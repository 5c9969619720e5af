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
		"name and port":    {kubeconfigs.For("server: 'https://api.portal.example:6443'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 6443}},
		"the default port": {kubeconfigs.For("server: 'https://api.portal.example'", token), clusterv1.APIEndpoint{Host: "api.portal.example", Port: 443}},
		"an address":       {kubeconfigs.For("server: 'https://192.0.2.7:6443'", token), clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}},
		"an IPv6 address":  {kubeconfigs.For("server: 'https://[2001:db8:0::7]:6443'", token), clusterv1.APIEndpoint{Host: "2001:db8::7", Port: 6443}},
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

// TestEndpointOfRefuses: an unusable kubeconfig is refused, and the error contains nothing of it. Package kubeconfig tests what else is unusable.
func TestEndpointOfRefuses(t *testing.T) {
	token := "token: " + kubeconfigs.Canary
	for title, config := range map[string]string{
		"a token's file": kubeconfigs.For("server: 'https://"+kubeconfigs.Canary+".example:6443'", "tokenFile: /etc/hostname"),
		"port 0":         kubeconfigs.For("server: 'https://"+kubeconfigs.Canary+":0'", token),
		"a wide port":    kubeconfigs.For("server: 'https://"+kubeconfigs.Canary+":66443'", token),
	} {
		if got, err := endpointOf([]byte(config)); err == nil || got.IsValid() || strings.Contains(err.Error(), kubeconfigs.Canary) {
			t.Errorf("%s: %v, %v", title, got, err)
		}
	}
}
