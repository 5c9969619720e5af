// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// parseKubeconfig returns what a kubeconfig says about the API server, if it is one that may be used. Nothing of its content gets into
// the errors.
func parseKubeconfig(config []byte) (*rest.Config, error) {
	parsed, err := clientcmd.RESTConfigFromKubeConfig(config)
	if err != nil {
		return nil, errors.New("it is no kubeconfig with a current context")
	}
	return parsed, selfContained(parsed)
}

// endpointOf reads host and port of the API server from a kubeconfig. Nothing of its content gets into the errors.
func endpointOf(config []byte) (clusterv1.APIEndpoint, error) {
	none := clusterv1.APIEndpoint{}
	parsed, err := parseKubeconfig(config)
	if err != nil {
		return none, err
	}
	server, err := url.Parse(parsed.Host)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return none, errors.New("its server is no https URL")
	}
	port, err := strconv.ParseUint(cmp.Or(server.Port(), "443"), 10, 16)
	if err != nil || port == 0 {
		return none, errors.New("the port of its server is no port")
	}
	host := server.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(port)}, nil
}

// selfContained refuses a kubeconfig that would have the manager, or Cluster API, read files or run commands of their
// own, or trust any server.
func selfContained(config *rest.Config) error {
	files := config.BearerTokenFile + config.CertFile + config.KeyFile + config.CAFile
	switch {
	case config.ExecProvider != nil || config.AuthProvider != nil || files != "":
		return errors.New("it refers to files or commands; certificates and tokens have to be in it")
	case config.Insecure:
		return errors.New("it switches the verification of the server's certificate off")
	}
	return nil
}
