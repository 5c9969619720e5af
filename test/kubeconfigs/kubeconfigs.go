// SPDX-License-Identifier: Apache-2.0

// Package kubeconfigs makes kubeconfigs and credentials for tests.
package kubeconfigs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"
)

// Canary represents everything that is secret in a kubeconfig.
const Canary = "canary-7d1f"

// For returns a kubeconfig with the given cluster and user, in YAML's flow style.
func For(cluster, user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: admin
contexts: [{name: admin, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
}

// JWT returns a token with the claims.
func JWT(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + "." + part([]byte("signature"))
}

// ClientPair is a client certificate with its lifetime, and its key.
func ClientPair(t *testing.T, begins, ends time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begins, NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
