// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// HostPort joins a host and a port for use in a URL.
func HostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Probe returns a readiness probe that succeeds if the URL returns 200.
func Probe(url string) func(context.Context) error {
	return func(ctx context.Context) error { return probe(ctx, http.DefaultClient, url) }
}

// probe returns nil if the URL returns 200.
func probe(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
