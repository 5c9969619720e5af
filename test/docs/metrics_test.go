// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// registry records registered collectors, so that the test can read their descriptions.
type registry struct {
	*prometheus.Registry
	names []string
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (r *registry) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 100)
	c.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		r.names = append(r.names, fqName.FindStringSubmatch(d.String())[1])
	}
	return r.Registry.Register(c)
}

// gathered returns all metrics of the provider by name, as "type label, label", after each of them has a value.
func gathered(t *testing.T) map[string]string {
	t.Helper()
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Annotations: map[string]string{}}}
	controlPlane.Status.Conditions = []metav1.Condition{{Type: infrav1.AvailableCondition}}
	controlPlane.Status.KubeconfigExpires = &metav1.Time{Time: time.Now()}
	operation.State{Last: &operation.Operation{Type: operation.Scale, JobID: "a", Time: metav1.Now()}}.Put(controlPlane)
	elected := make(chan struct{})
	close(elected)
	accounts := &metrics.Accounts{}
	limiter := ratelimit.NewLimiter(ratelimit.Options{})
	accounts.Use("default/id", "https://portal.example", func() *ratelimit.Limiter { return limiter })
	metrics.ObserveCall(cloud.Call{Endpoint: "GET /vpcs", Class: ratelimit.Read, Status: 200})
	metrics.ObserveLogin(nil)
	metrics.JobEnded(operation.Scale, false, time.Minute)
	metrics.UndrainedRemoved("default", "a", 1)

	r := &registry{Registry: prometheus.NewRegistry()}
	reader := fake.NewClientBuilder().WithScheme(schemes.Of(t, infrav1.AddToScheme)).WithObjects(controlPlane).Build()
	if err := metrics.Register(r, accounts, &metrics.Operations{Reader: reader, Elected: elected}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		all[family.GetName()] = strings.ToLower(family.GetType().String()) + " " + strings.Join(labels, ", ")
	}
	if names := slices.Sorted(slices.Values(r.names)); !slices.Equal(names, slices.Sorted(maps.Keys(all))) {
		t.Fatalf("the descriptions are of %v, but the gathered metrics are %v", names, all)
	}
	return all
}

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `(capportal_[a-z_]+)` \\| ([a-z]+) \\| ([^|]+) \\| ([^|]+) \\|$")
	metricName  = regexp.MustCompile(`capportal_[a-z_]+`)
	ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// TestEveryMetricIsExplained checks that the page's tables and the code have the same metrics, with the same types and labels.
func TestEveryMetricIsExplained(t *testing.T) {
	want := gathered(t)
	p := read(t, reference)
	got := map[string]string{}
	for _, cells := range metricRow.FindAllStringSubmatch(p.section(t, "Metrics"), -1) {
		if got[cells[1]] != "" || strings.TrimSpace(cells[4]) == "" {
			t.Errorf("the page does not explain %s, or explains it twice", cells[1])
		}
		got[cells[1]] = fmt.Sprintf("%s %s", cells[2], strings.ReplaceAll(cells[3], "`", ""))
	}
	same(t, "metrics", want, got)
	for _, name := range metricName.FindAllString(p.code, -1) {
		if want[name] == "" && want[ofHistogram.ReplaceAllString(name, "")] == "" && name != "capportal_" {
			t.Errorf("%s uses %s, which does not exist", reference, name)
		}
	}
}
