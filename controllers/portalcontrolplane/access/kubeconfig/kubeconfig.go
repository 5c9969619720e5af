// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig decides which kubeconfigs the provider uses, and which parts of them. The portal sends them, and everyone
// with rights in a namespace can write the Secrets that hold them. So every kubeconfig is checked each time it is used:
//
//	Minimal      reduces a kubeconfig to the server, certificates, keys and a token. It refuses a kubeconfig that would read a file,
//	             run a command, use a proxy or skip the verification of the server
//	RESTConfig   returns how to reach the API server of such a kubeconfig
//	Digest       identifies the kubeconfig that the provider stored last
//	UserManaged  reports whether a user has marked the Secret as their own
//
// No error contains anything from a kubeconfig.
package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// maxSize bounds what is parsed. A kubeconfig with three certificate chains has about 20 KiB, but a Secret can hold 1 MiB of YAML
// aliases.
const maxSize = 256 << 10

// Minimal returns the current context of a kubeconfig, or its only one if none is chosen, with its server and credentials, and
// nothing else. It refuses a kubeconfig that needs or names anything more. Minimal accepts its own result and returns it unchanged.
func Minimal(content []byte) ([]byte, error) {
	if len(content) > maxSize {
		return nil, errors.New("it is larger than 256 KiB")
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig")
	}
	if config.CurrentContext == "" && len(config.Contexts) == 1 {
		config.CurrentContext = slices.Collect(maps.Keys(config.Contexts))[0]
	}
	at := config.Contexts[config.CurrentContext]
	if at == nil || config.Clusters[at.Cluster] == nil || config.AuthInfos[at.AuthInfo] == nil {
		return nil, errors.New("it is not a kubeconfig with a current context, a server and a user")
	}
	cluster, user := config.Clusters[at.Cluster], config.AuthInfos[at.AuthInfo]
	if err := errors.Join(checkServer(cluster), checkUser(user)); err != nil {
		return nil, err
	}
	minimal := api.NewConfig()
	minimal.CurrentContext = config.CurrentContext
	minimal.Contexts[config.CurrentContext] = &api.Context{Cluster: at.Cluster, AuthInfo: at.AuthInfo, Namespace: at.Namespace}
	minimal.Clusters[at.Cluster] = &api.Cluster{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, CertificateAuthorityData: cluster.CertificateAuthorityData,
	}
	minimal.AuthInfos[at.AuthInfo] = &api.AuthInfo{
		ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData, Token: user.Token,
	}
	out, err := clientcmd.Write(*minimal)
	if err != nil {
		return nil, errors.New("it cannot be written")
	}
	return out, nil
}

// RESTConfig returns how to reach the API server in the kubeconfig, if Minimal accepts it.
func RESTConfig(content []byte) (*rest.Config, error) {
	minimal, err := Minimal(content)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(minimal)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig with a current context, a server and a user")
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, errors.New("its certificates or its key cannot be read")
	}
	return config, nil
}

// checkServer allows tls-server-name. A kubeconfig brings its own authority, so it can have any name verified anyway.
func checkServer(cluster *api.Cluster) error {
	switch server, err := url.Parse(cluster.Server); {
	case err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil:
		return errors.New("its server is not an https URL")
	case cluster.CertificateAuthority != "":
		return errFiles
	case cluster.InsecureSkipTLSVerify:
		return errors.New("it turns off the verification of the server's certificate")
	case cluster.ProxyURL != "":
		return errors.New("it names a proxy")
	}
	return nil
}

var errFiles = errors.New("it refers to files or commands. Put certificates and tokens into it")

func checkUser(user *api.AuthInfo) error {
	switch {
	case user.Exec != nil || user.AuthProvider != nil || user.TokenFile+user.ClientCertificate+user.ClientKey != "":
		return errFiles
	case user.Username+user.Password != "":
		return errors.New("it uses a password, which Kubernetes no longer accepts")
	case user.Impersonate+user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0:
		return errors.New("it impersonates another user")
	}
	return nil
}

// Digest identifies a kubeconfig in the record of a PortalControlPlane. Labels and owner references of a Secret do not prove who
// wrote it, because users of the namespace can write them too.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// UserManaged reports whether a user has marked the Secret as their own.
func UserManaged(s *corev1.Secret) bool {
	return s.Annotations[infrav1.UserManagedAnnotation] == "true"
}
