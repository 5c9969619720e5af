// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what the manager's metrics report about the manager.
type usage struct {
	at         time.Time
	memory     float64 // bytes
	goroutines float64
	cpu        float64            // seconds since its start
	passes     map[string]float64 // reconciles since its start, by controller
	queued     float64            // in all work queues
	requests   float64            // to the management API server, since its start
}

// measureUsage reads the metrics of the manager.
func (b *bench) measureUsage(ctx context.Context) (usage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.MetricsURL, nil)
	if err != nil {
		return usage{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return usage{}, err
	}
	defer response.Body.Close()
	u := usage{at: time.Now(), passes: map[string]float64{}}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		value, _ := strconv.ParseFloat(lines.Text()[i+1:], 64)
		u.add(lines.Text()[:i], value, strings.TrimPrefix(b.Config.Host, "https://"))
	}
	return u, lines.Err()
}

func (u *usage) add(series string, value float64, management string) {
	name, labels, _ := strings.Cut(series, "{")
	switch name {
	case "process_resident_memory_bytes":
		u.memory = value
	case "go_goroutines":
		u.goroutines = value
	case "process_cpu_seconds_total":
		u.cpu = value
	case "rest_client_requests_total":
		if strings.Contains(labels, `host="`+management+`"`) {
			u.requests += value
		}
	case "workqueue_depth":
		u.queued += value
	case "controller_runtime_reconcile_total":
		_, rest, _ := strings.Cut(labels, `controller="`)
		controller, _, _ := strings.Cut(rest, `"`)
		u.passes[controller] += value
	}
}

// droppedConnections counts the connections to workload clusters that the manager has dropped since its start, according to its log.
func (b *bench) droppedConnections() (int, error) {
	text, err := os.ReadFile(filepath.Join(b.Dir, "manager.log"))
	if err != nil {
		return 0, err
	}
	start := max(bytes.LastIndex(text, []byte(`"Starting the manager"`)), 0)
	return bytes.Count(text[start:], []byte(`] "Disconnected"`)), nil
}

// load returns the machine's load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}
