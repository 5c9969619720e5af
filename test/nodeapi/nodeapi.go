// SPDX-License-Identifier: Apache-2.0

// Package nodeapi has the common parts of API servers that serve only Nodes. The fleet benchmark runs many of them, and test/hostile has
// some that misbehave.
package nodeapi

import (
	"crypto/tls"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// Discovery holds the answers, by path, that a client reads before it lists Nodes.
var Discovery = map[string]string{
	"/":    `{"paths":["/api"]}`,
	"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[` +
		`{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get","list","watch","patch"]},` +
		`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}`,
}

// NewCertificate creates a certificate for a server on loopback. Clients trust authority, in PEM.
func NewCertificate() (certificate tls.Certificate, authority []byte, err error) {
	authority, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err = tls.X509KeyPair(authority, key)
	return certificate, authority, err
}

// Kubeconfig returns a kubeconfig for the API server at the address, which accepts any token.
func Kubeconfig(address string, authority []byte) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + address, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: "admin"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "c",
	})
}
