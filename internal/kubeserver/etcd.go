// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Etcd is a running etcd. Planes share it, each with its own prefix.
type Etcd struct {
	URL     string
	process *Process
	ports   []int
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
	return &Etcd{URL: clientURL, process: p, ports: []int{client, peer}}, nil
}

// Stop ends the etcd. Stop its planes first.
func (e *Etcd) Stop() {
	e.process.Stop()
	for _, port := range e.ports {
		ReleasePort(port)
	}
}

// PID returns the process ID.
func (e *Etcd) PID() int { return e.process.PID() }

// Keys returns the keys under the prefix, in order, without the prefix and its slash.
func (e *Etcd) Keys(ctx context.Context, prefix string) ([]string, error) {
	var found struct {
		KVs []struct {
			Key []byte `json:"key"`
		} `json:"kvs"`
	}
	if err := e.call(ctx, "range", map[string]any{"key": []byte(prefix + "/"), "range_end": after(prefix), "keys_only": true}, &found); err != nil {
		return nil, err
	}
	var keys []string
	for _, kv := range found.KVs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), prefix+"/"))
	}
	slices.Sort(keys)
	return keys, nil
}

// Remove deletes all keys under the prefix.
func (e *Etcd) Remove(ctx context.Context, prefix string) error {
	return e.removeRange(ctx, []byte(prefix+"/"), after(prefix))
}

// RemoveExcept deletes the keys under the prefix for which keep returns false. keep gets them as Keys returns them.
func (e *Etcd) RemoveExcept(ctx context.Context, prefix string, keep func(key string) bool) error {
	keys, err := e.Keys(ctx, prefix)
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		run := slices.IndexFunc(keys, keep) // the keys before the next one that is kept
		if run < 0 {
			run = len(keys)
		}
		if run > 0 {
			last := prefix + "/" + keys[run-1]
			if err := e.removeRange(ctx, []byte(prefix+"/"+keys[0]), []byte(last+"\x00")); err != nil {
				return err
			}
		}
		keys = keys[min(run+1, len(keys)):]
	}
	return nil
}

// after returns the first key behind those under the prefix.
func after(prefix string) []byte {
	end := []byte(prefix + "/")
	end[len(end)-1]++
	return end
}

// removeRange deletes the keys from first to the last one before end.
func (e *Etcd) removeRange(ctx context.Context, first, end []byte) error {
	return e.call(ctx, "deleterange", map[string]any{"key": first, "range_end": end}, &struct{}{})
}

// call sends a request to etcd's own JSON gateway, in which keys are base64.
func (e *Etcd) call(ctx context.Context, method string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/v3/kv/"+method, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("etcd: %s: %w", method, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s", method, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
