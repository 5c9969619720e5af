// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/kubeconfig"
)

// endpointOf reads host and port of the API server from a kubeconfig. Its errors contain nothing from the kubeconfig.
func endpointOf(config []byte) (clusterv1.APIEndpoint, error) {
	none := clusterv1.APIEndpoint{}
	parsed, err := kubeconfig.RESTConfig(config)
	if err != nil {
		return none, err
	}
	server, err := url.Parse(parsed.Host)
	if err != nil {
		return none, errors.New("its server is not an https URL")
	}
	port, err := strconv.ParseUint(cmp.Or(server.Port(), "443"), 10, 16)
	if err != nil || port == 0 {
		return none, errors.New("the port of its server is invalid")
	}
	host := server.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(port)}, nil
}
