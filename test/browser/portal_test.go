// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// portal is an emulator that runs as a command, with its user's token.
type portal struct {
	t                *testing.T
	url, admin, page string
	client           *http.Client
	token            string
}

// startPortal starts an emulator whose clusters exist only in its records, and logs in.
func startPortal(t *testing.T, arguments ...string) *portal {
	t.Helper()
	browserPath(t) // skips the test before anything starts
	ca := filepath.Join(t.TempDir(), "ca.crt")
	arguments = append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--page-listen=127.0.0.1:0", "--ca-file", ca}, arguments...)
	said := command(t, "Ctrl-C", []string{"PORTAL_EMULATOR_PASSWORD=try-me", "KUBEBUILDER_ASSETS="}, "portal-emulator", arguments...)
	field := func(word string) string {
		match := regexp.MustCompile(`(?m)^\s+` + word + `\s+(\S+)`).FindStringSubmatch(said)
		if match == nil {
			t.Fatalf("the output does not name %s:\n%s", word, said)
		}
		return match[1]
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	p := &portal{t: t, url: field("URL"), admin: field("Admin"), page: field("Page"), client: &http.Client{Transport: transport, Timeout: patience}}
	_, answer := p.call("POST", "/login", map[string]any{"email": "admin@portal.example", "password": "try-me"})
	p.token, _ = answer["token"].(string)
	return p
}

// call sends a request to the portal's API.
func (p *portal) call(method, path string, body any) (status int, answer map[string]any) {
	p.t.Helper()
	payload := []byte{}
	if body != nil {
		payload, _ = json.Marshal(body)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(payload))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// asker returns a function that asks for clusters of a size.
func (p *portal) asker(size int) func(name string) (status int, answer map[string]any) {
	p.t.Helper()
	_, vpcs := p.call("GET", "/vpcs?name=default", nil)
	_, versions := p.call("GET", "/kubernetes-versions", nil)
	return func(name string) (int, map[string]any) {
		return p.call("POST", "/kubernetes-clusters", map[string]any{
			"name": name, "description": "a test", "zoneId": "zone-1", "serviceOfferingId": "small", "size": size, "controlNodes": 1,
			"sshKeyPair": "ops", "vpcId": id(vpcs["vpcs"]), "kubernetesVersionId": id(versions["versions"]),
		})
	}
}

// create creates a cluster at the portal, waits until it runs, and returns its id.
func (p *portal) create(name string, size int) string {
	p.t.Helper()
	status, job := p.asker(size)(name)
	if status != http.StatusAccepted {
		p.t.Fatalf("%d %v", status, job)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if _, j := p.call("GET", fmt.Sprintf("/jobs/%s", job["jobId"]), nil); j["status"] == "succeeded" {
			return j["result"].(map[string]any)["kubernetesCluster"].(map[string]any)["id"].(string)
		}
	}
	p.t.Fatal("the cluster was not created")
	return ""
}

// createMany creates clusters of three workers at the portal, and waits until none of them is being created.
func (p *portal) createMany(count int) {
	p.t.Helper()
	ask := p.asker(3)
	for i := 0; i < count; {
		status, answer := ask(fmt.Sprintf("cluster-%03d", i))
		switch status {
		case http.StatusAccepted:
			i++
		case http.StatusTooManyRequests:
			time.Sleep(50 * time.Millisecond)
		default:
			p.t.Fatalf("cluster %d: %d %v", i, status, answer)
		}
	}
	for deadline := time.Now().Add(patience); strings.Contains(p.books("/clusters"), `"Creating"`); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("clusters are still being created")
		}
	}
}

// id returns the id of the first record of a list.
func id(list any) any { return list.([]any)[0].(map[string]any)["id"] }

// books returns the admin listener's answer for a path.
func (p *portal) books(path string) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.admin+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// arm arms a fault.
func (p *portal) arm(fault string) {
	p.t.Helper()
	response, err := http.Post(p.admin+"/faults", "application/json", strings.NewReader(fault))
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s", fault, response.Status)
	}
}
