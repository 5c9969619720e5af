// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var clusterChecks = []check{
	{name: "endpoints/GET kubernetes-clusters config", run: kubeconfig},
	{name: "states/no kubeconfig before Running", run: func(p *probe) {
		p.hidden("a portal tells the id of a cluster when it is Running, not before")
		p.postCluster(p.parameters()).want(http.StatusAccepted)
		p.me().get("/kubernetes-clusters/" + p.books.Clusters()[0].ID + "/config").refused()
	}},
	{name: "endpoints/POST kubernetes-clusters scale", run: func(p *probe) { p.scale(p.cluster().id, 3).succeeded() }},
	{name: "clusters/scale up to size", run: func(p *probe) { p.scaled(2, 5) }},
	{name: "clusters/scale down to size", run: func(p *probe) { p.scaled(4, 1) }},
	{name: "clusters/scale leaves the control plane alone", run: func(p *probe) {
		before, after := p.scaled(1, 4)
		if !slices.Equal(controlPlane(before), controlPlane(after)) {
			p.Errorf("the control plane was %v and is %v", controlPlane(before), controlPlane(after))
		}
	}},
	{name: "endpoints/POST kubernetes-clusters upgrade", run: func(p *probe) { p.upgrade(p.cluster().id).succeeded() }},
	{name: "clusters/upgrade is rolling", run: rolling},
	{name: "clusters/upgrade moves the cluster to the version", run: func(p *probe) {
		p.hidden(inBooks)
		c := p.cluster()
		p.upgrade(c.id).succeeded()
		newest := p.later()
		for _, node := range p.record(c.id).Nodes {
			if !hasVersion(node, newest) {
				p.Errorf("node %s has version %s, want %v", node.Name, node.Version, newest)
			}
		}
	}},
	{name: "endpoints/GET instances", run: instances},
	{name: "endpoints/GET instances one", run: func(p *probe) {
		first := p.anInstance()
		a := p.me().get("/instances/" + first).want(http.StatusOK)
		if got := a.createdID(a.body, "instance", ""); got != first {
			p.Errorf("it is instance %s", got)
		}
	}},
}

// endChecks delete the cluster that the earlier checks shared.
var endChecks = []check{
	{name: "endpoints/DELETE kubernetes-clusters", run: func(p *probe) { p.deleteCluster(p.cluster().id).succeeded() }},
	{name: "clusters/delete removes the cluster", run: func(p *probe) {
		id := p.cluster().id
		p.deleteCluster(id).succeeded()
		p.me().get("/kubernetes-clusters/" + id + "/config").want(http.StatusNotFound).refused("RESOURCE_NOT_FOUND")
		if p.books != nil && len(p.books.Clusters())+len(p.books.Instances()) != 0 {
			p.Errorf("%d clusters and %d instances are left", len(p.books.Clusters()), len(p.books.Instances()))
		}
	}},
	{name: "clusters/delete leaves the volumes", run: func(p *probe) {
		p.hidden("volumes are made by what runs in a cluster")
		p.deleteCluster(p.cluster().id).succeeded()
		if got := len(p.books.Volumes()); got != 1 {
			p.Errorf("%d volumes are left", got)
		}
	}},
	{name: "endpoints/DELETE volumes", run: func(p *probe) {
		p.hidden("deletes somebody's data")
		id := p.books.AddVolume(emulator.Volume{Account: "main"})
		if a := p.me().delete("/volumes/"+id).want(http.StatusOK, http.StatusAccepted, http.StatusNoContent); a.status == http.StatusAccepted {
			p.me().follow(a).succeeded()
		}
		p.me().delete("/volumes/" + id).refused("RESOURCE_NOT_FOUND")
	}},
}

// kubeconfig checks that the kubeconfig is a file that names one server.
func kubeconfig(p *probe) {
	a := p.me().get("/kubernetes-clusters/" + p.cluster().id + "/config").want(http.StatusOK)
	var file struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Clusters   []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if yaml.Unmarshal([]byte(a.text("kubeconfig")), &file) != nil || file.Kind != "Config" || file.APIVersion != "v1" {
		p.Fatal("the answer is not a kubeconfig file")
	}
	if len(file.Clusters) == 0 || !strings.HasPrefix(file.Clusters[0].Cluster.Server, "https://") {
		p.Error("the kubeconfig names no server")
	}
}

func (p *probe) scale(id string, size int) *creation {
	return p.me().follow(p.me().start("POST", "/kubernetes-clusters/"+id+"/scale", object("size", size)))
}

// upgrade upgrades the cluster to the newest version.
func (p *probe) upgrade(id string) *creation {
	return p.me().follow(p.me().start("POST", "/kubernetes-clusters/"+id+"/upgrade", object("kubernetesVersionId", at(p.later(), "id"))))
}

// deleteCluster deletes the cluster that the checks share.
func (p *probe) deleteCluster(id string) *creation {
	c := p.me().follow(p.me().start("DELETE", "/kubernetes-clusters/"+id, ""))
	c.succeeded()
	delete(p.made, "cluster")
	return c
}

// scaled scales a cluster from one size to another, checks its workers, and returns its records before and after.
func (p *probe) scaled(from, to int) (before, after emulator.Cluster) {
	p.hidden(inBooks)
	c := p.newCluster(p.parameters().with("size", from).with("controlNodes", 3))
	p.wantNodes(3, from)
	before = p.record(c.id)
	p.scale(c.id, to).succeeded()
	p.wantNodes(3, to)
	return before, p.record(c.id)
}

func controlPlane(c emulator.Cluster) []emulator.Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n emulator.Node) bool { return !n.ControlPlane })
}

// hasVersion reports whether a node runs a version of the list. The formats of the two versions may differ.
func hasVersion(node emulator.Node, version any) bool {
	return slices.Equal(numbers(version), numbers(map[string]any{"semanticVersion": node.Version}))
}

// rolling checks the nodes many times during an upgrade: they must change one at a time, and no worker before the last control node.
func rolling(p *probe) {
	p.hidden(inBooks)
	c := p.newCluster(p.parameters().with("size", 3).with("controlNodes", 3))
	newest := p.later()
	p.me().start("POST", "/kubernetes-clusters/"+c.id+"/upgrade", object("kubernetesVersionId", at(newest, "id"))).want(http.StatusAccepted)
	control, workers := 0, 0
	for range 36_000 { // an hour
		nowControl, nowWorkers := 0, 0
		for _, node := range p.record(c.id).Nodes {
			switch {
			case !hasVersion(node, newest):
			case node.ControlPlane:
				nowControl++
			default:
				nowWorkers++
			}
		}
		if nowControl+nowWorkers > control+workers+1 || nowWorkers > 0 && nowControl < 3 {
			p.Fatalf("from %d control nodes and %d workers to %d and %d at once", control, workers, nowControl, nowWorkers)
		}
		control, workers = nowControl, nowWorkers
		if p.record(c.id).JobID == "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if control != 3 || workers != 3 {
		p.Errorf("%d control nodes and %d workers are new, want 3 and 3", control, workers)
	}
}

// instances checks that one call returns all instances, in a bare list or under any key, because the specification does not show the key.
func instances(p *probe) {
	if p.Create {
		p.cluster()
	}
	list := p.listInstances()
	for i, record := range list {
		if id, ok := at(record, "id").(string); !ok || id == "" {
			p.Errorf("instance %d has no id", i)
		}
	}
	if p.books != nil && len(list) != len(p.books.Instances()) {
		p.Errorf("%d instances are listed of %d", len(list), len(p.books.Instances()))
	}
}

func (p *probe) listInstances() []any {
	a := p.me().get("/instances").want(http.StatusOK)
	found := lists(a.body)
	if len(found) != 1 {
		p.Fatalf("%s: %d lists: %s", a.what, len(found), a.shown())
	}
	return slices.Concat(slices.Collect(maps.Values(found))...)
}

// anInstance returns the id of an instance of the account.
func (p *probe) anInstance() string {
	if p.Create {
		p.cluster()
	}
	list := p.listInstances()
	if len(list) == 0 {
		p.skip("the account has no instance")
	}
	id, _ := at(list[0], "id").(string)
	return id
}
