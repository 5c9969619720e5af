// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestServer checks that a real client can list, watch and patch the Nodes of the light API server.
func TestServer(t *testing.T) {
	all, err := newServers()
	if err != nil {
		t.Fatal(err)
	}
	cluster := emulator.Workload{ID: "c", Version: "v1.35.6", Nodes: []emulator.Node{{Name: "n1", ID: "1", ProviderID: "portal:///z/1"}}}
	apply := func() {
		t.Helper()
		if _, err := all.Apply(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	defer all.Delete(t.Context(), "c") //nolint:errcheck // the test has ended
	kubeconfig, err := all.Kubeconfig(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := client.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.35.6" {
		t.Errorf("version %v, %v", version, err)
	}
	nodes := client.CoreV1().Nodes()
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Spec.ProviderID != "portal:///z/1" {
		t.Fatalf("list: %v, %v", list, err)
	}
	events, err := nodes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	for i, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		key := []string{"a", "b"}[i]
		patched, err := nodes.Patch(t.Context(), "n1", kind, []byte(`{"metadata":{"annotations":{"`+key+`":"1"}}}`), metav1.PatchOptions{})
		if err != nil || patched.Annotations[key] != "1" {
			t.Fatalf("%s: %v, %v", kind, patched, err)
		}
	}
	cluster.Nodes = []emulator.Node{{Name: "n2", ID: "2"}}
	apply()
	var seen []string
	for len(seen) < 4 {
		select {
		case e := <-events.ResultChan():
			seen = append(seen, string(e.Type))
		case <-time.After(5 * time.Minute):
			t.Fatalf("the watch has sent %v, and then nothing", seen)
		}
	}
	if want := []string{string(watch.Modified), string(watch.Modified), string(watch.Deleted), string(watch.Added)}; !slices.Equal(seen, want) {
		t.Errorf("watched %v, want %v", seen, want)
	}
}

// TestLooks checks that only the first look at a job after its end counts.
func TestLooks(t *testing.T) {
	end := time.Now()
	look := func(id string, after time.Duration, status int) emulator.LogEntry {
		return emulator.LogEntry{Method: http.MethodGet, Path: "/jobs/" + id, Time: end.Add(after), Status: status}
	}
	got := looks([]emulator.LogEntry{
		look("a", -time.Second, http.StatusOK), look("a", time.Second, http.StatusTooManyRequests), look("other", 2*time.Second, http.StatusOK),
		look("a", 3*time.Second, http.StatusOK), look("a", 4*time.Second, http.StatusOK),
	}, []emulator.Job{{ID: "a", Ended: end}, {ID: "never", Ended: end}}, endOf)
	if !slices.Equal(got, []time.Duration{3 * time.Second}) {
		t.Errorf("noticed after %v, want 3 s once", got)
	}
}
