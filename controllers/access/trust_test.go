// SPDX-License-Identifier: Apache-2.0

package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// TestEndpointOfRefusesWhatReachesOut: a kubeconfig from the portal must not make the provider read a file or run a command.
func TestEndpointOfRefusesWhatReachesOut(t *testing.T) {
	token := "token: " + kubeconfigs.Canary
	server := "server: 'https://" + kubeconfigs.Canary + ".example:6443'"
	file := filepath.Join(t.TempDir(), "token") // one that exists: reading it must not be what fails
	if err := os.WriteFile(file, []byte(kubeconfigs.Canary), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"a wide port":    kubeconfigs.For("server: 'https://"+kubeconfigs.Canary+":66443'", token),
		"a wider port":   kubeconfigs.For("server: 'https://"+kubeconfigs.Canary+":4294967739'", token),
		"a command":      kubeconfigs.For(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+kubeconfigs.Canary+", interactiveMode: Never}"),
		"a token's file": kubeconfigs.For(server, "tokenFile: "+file),
		"a CA file":      kubeconfigs.For(server+", certificate-authority: "+file, token),
		"key files":      kubeconfigs.For(server, "client-certificate: "+file+", client-key: "+file),
		"an auth plugin": kubeconfigs.For(server, "auth-provider: {name: oidc, config: {idp-issuer-url: "+kubeconfigs.Canary+"}}"),
	}
	refuseAll(t, tests)
}
