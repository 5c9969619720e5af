// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers"
)

// auditEvent holds the fields of an audit.k8s.io/v1 Event that the benchmark reads.
type auditEvent struct {
	Verb  string `json:"verb"`
	Agent string `json:"userAgent"`
	On    struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// managerRequests counts the requests that the manager sent to the management API server in the given time, by verb and resource. Requests
// about the namespace "without" are left out.
func (b *bench) managerRequests(from, to time.Time, without string) (counts map[string]int, err error) {
	file, err := os.Open(b.AuditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts = map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the last line may be half written
		}
		if !strings.HasPrefix(e.Agent, controllers.UserAgent) || e.Received.Before(from) || e.Received.After(to) {
			continue
		}
		if without != "" && e.On.Namespace == without {
			continue
		}
		counts[e.Verb+" "+e.resource()]++
	}
	return counts, lines.Err()
}

// resource returns what the request asked for. Secrets of identities and of kubeconfigs are counted separately.
func (e auditEvent) resource() string {
	switch {
	case e.On.Subresource != "":
		return e.On.Resource + "/" + e.On.Subresource
	case e.On.Resource == "secrets" && e.On.Name == identity:
		return "identity secrets"
	case e.On.Resource == "secrets":
		return "kubeconfig secrets"
	}
	return cmp.Or(e.On.Resource, "other")
}

func total[K comparable](counts map[K]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// perCluster lists the counts per cluster, largest first. Counts below a tenth are added up.
func perCluster(counts map[string]int, clusters int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	rest := 0
	for _, name := range names {
		each := float64(counts[name]) / float64(clusters)
		if each < 0.1 {
			rest += counts[name]
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.1f", name, each))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("others %.1f", float64(rest)/float64(clusters)))
	}
	return strings.Join(parts, ", ")
}
