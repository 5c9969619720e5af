// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
)

// Etcd is a running etcd. Planes share it, each with its own prefix.
type Etcd struct {
	URL     string
	process *Process
}

// StartEtcd runs the etcd binary with its data and log in dir. The data is not synced to disk, because it does not have to survive a crash
// of the machine.
func StartEtcd(ctx context.Context, binary, dir string) (*Etcd, error) {
	client, err := FreePort(loopback)
	if err != nil {
		return nil, err
	}
	peer, err := FreePort(loopback)
	if err != nil {
		return nil, err
	}
	clientURL, peerURL := "http://"+HostPort(loopback, client), "http://"+HostPort(loopback, peer)
	p, err := Start(ctx, Spec{
		Name: "etcd",
		Path: binary,
		Args: []string{
			"--name=default",
			"--data-dir=" + filepath.Join(dir, "etcd"),
			"--listen-client-urls=" + clientURL, "--advertise-client-urls=" + clientURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=default=" + peerURL,
			"--unsafe-no-fsync",
			"--quota-backend-bytes=" + strconv.Itoa(8<<30),
			"--log-level=warn",
		},
		Log:   filepath.Join(dir, "etcd.log"),
		Ready: Probe(clientURL + "/readyz"),
	})
	if err != nil {
		return nil, err
	}
	return &Etcd{URL: clientURL, process: p}, nil
}

// Stop ends the etcd. Stop its planes first.
func (e *Etcd) Stop() { e.process.Stop() }

// PID returns the process ID.
func (e *Etcd) PID() int { return e.process.PID() }

// Remove deletes all keys under the prefix, through etcd's own JSON gateway.
func (e *Etcd) Remove(ctx context.Context, prefix string) error {
	first := []byte(prefix + "/")
	end := bytes.Clone(first)
	end[len(end)-1]++ // The first key that no longer has the prefix.
	body, err := json.Marshal(map[string][]byte{"key": first, "range_end": end})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/v3/kv/deleterange", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("etcd: remove %s: %w", prefix, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: remove %s: %s", prefix, response.Status)
	}
	return nil
}
