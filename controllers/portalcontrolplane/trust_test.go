// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndpointOfRefusesWhatReachesOut: a kubeconfig from the portal must not make the provider read a file or run a command.
func TestEndpointOfRefusesWhatReachesOut(t *testing.T) {
	token := "token: " + canary
	server := "server: 'https://" + canary + ".example:6443'"
	file := filepath.Join(t.TempDir(), "token") // one that exists: reading it must not be what fails
	if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"a wide port":    kubeconfigFor("server: 'https://"+canary+":66443'", token),
		"a wider port":   kubeconfigFor("server: 'https://"+canary+":4294967739'", token),
		"a command":      kubeconfigFor(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+canary+", interactiveMode: Never}"),
		"a token's file": kubeconfigFor(server, "tokenFile: "+file),
		"a CA file":      kubeconfigFor(server+", certificate-authority: "+file, token),
		"key files":      kubeconfigFor(server, "client-certificate: "+file+", client-key: "+file),
		"an auth plugin": kubeconfigFor(server, "auth-provider: {name: oidc, config: {idp-issuer-url: "+canary+"}}"),
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

// TestGenerateNameOfAnyObject: Kubernetes names may contain dots, but portal names must not.
func TestGenerateNameOfAnyObject(t *testing.T) {
	for _, base := range []string{"prod.eu", strings.Repeat("a", 56) + "-b", strings.Repeat("a", 56) + ".b"} {
		if name := generateName(base); len(name) > 63 || !portalName.MatchString(name) {
			t.Errorf("%q", name)
		}
	}
}
