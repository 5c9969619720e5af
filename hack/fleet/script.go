// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// script is a client that creates clusters as the specification advises. It looks at each job every 5 s. After a 429 it waits for
// Retry-After plus an exponential backoff with jitter. It has an account of its own.
type script struct {
	portal *emulator.Portal
	token  string
	result chan scriptResult
}

// pollInterval is the interval that the specification calls suitable.
const pollInterval = 5 * time.Second

type scriptResult struct {
	start time.Time
	ready []time.Time
	err   error
}

// startScript has the script create as many clusters as the storm does.
func (b *bench) startScript(ctx context.Context) *script {
	s := &script{portal: b.Portal, result: make(chan scriptResult, 1)}
	go func() {
		r := scriptResult{start: time.Now(), ready: make([]time.Time, b.clusters)}
		r.err = s.run(ctx, r.ready)
		s.result <- r
	}()
	return s
}

func (s *script) run(ctx context.Context, ready []time.Time) error {
	var login struct{ Token string }
	if err := s.send(ctx, http.MethodPost, "/login", map[string]any{"email": emailOf(scriptAccount), "password": passwordOf(scriptAccount)}, &login); err != nil {
		return err
	}
	s.token = login.Token
	group, ctx := errgroup.WithContext(ctx)
	for i := range ready {
		group.Go(func() (err error) {
			ready[i], err = s.create(ctx, clusterName(i))
			return err
		})
	}
	return group.Wait()
}

// create creates a cluster, and returns when the script received its kubeconfig.
func (s *script) create(ctx context.Context, name string) (time.Time, error) {
	vpc := ""
	for _, v := range s.portal.VPCs() {
		if v.Account == scriptAccount {
			vpc = v.ID
		}
	}
	var job struct{ JobID, Status, Result json.RawMessage }
	body := map[string]any{
		"name": name, "description": name, "zoneId": "zone-1", "kubernetesVersionId": s.portal.Versions()[0].ID, "serviceOfferingId": "small",
		"size": 1, "controlNodes": 1, "vpcId": vpc, "sshKeyPair": "ops",
	}
	if err := s.send(ctx, http.MethodPost, createRoute, body, &job); err != nil {
		return time.Time{}, err
	}
	path := "/jobs/" + text(job.JobID)
	for text(job.Status) != string(emulator.JobSucceeded) {
		if err := pause(ctx, pollInterval); err != nil {
			return time.Time{}, err
		}
		if err := s.send(ctx, http.MethodGet, path, nil, &job); err != nil {
			return time.Time{}, err
		}
	}
	var result struct{ KubernetesCluster struct{ ID string } }
	if err := json.Unmarshal(job.Result, &result); err != nil {
		return time.Time{}, err
	}
	err := s.send(ctx, http.MethodGet, createRoute+"/"+result.KubernetesCluster.ID+"/config", nil, nil)
	return time.Now(), err
}

func text(raw json.RawMessage) string {
	s := ""
	_ = json.Unmarshal(raw, &s)
	return s
}

// send repeats a request until the answer is not 429.
func (s *script) send(ctx context.Context, method, path string, body, answer any) error {
	for try := 0; ; try++ {
		retry, err := s.try(ctx, method, path, body, answer)
		if err != nil || retry == 0 {
			return err
		}
		jitter := rand.N(time.Second << min(try, 5))
		if err := pause(ctx, retry+jitter); err != nil {
			return err
		}
	}
}

// try sends a request once. It returns how long to wait before the next try, or 0 if none is needed.
func (s *script) try(ctx context.Context, method, path string, body, answer any) (time.Duration, error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, s.portal.URL()+path, &sent)
	if err != nil {
		return 0, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.portal.Transport().RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 1)) * time.Second, err
	case response.StatusCode >= 300:
		return 0, fmt.Errorf("script: %s %s: %s", method, path, response.Status)
	case answer == nil:
		return 0, nil
	}
	return 0, json.NewDecoder(response.Body).Decode(answer)
}
