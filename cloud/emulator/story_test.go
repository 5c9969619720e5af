// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func TestClusterLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{Seed: 1})
		c := login(t, p)
		vpc := c.get("/vpcs?name=default").want(200).text("vpcs", 0, "id")
		network := c.post("/networks", `{"cidr":"10.1.0.0/24"}`).want(201).text("network", "id")
		body := clusterBody(p, vpc, network, 2)
		job := c.post("/kubernetes-clusters", body).want(202).text("jobId")
		c.get("/jobs/"+job).want(200).has("pending", "status")
		time.Sleep(2 * time.Second)
		c.get("/jobs/"+job).want(200).has("running", "status")
		time.Sleep(10 * time.Second)
		id := c.get("/jobs/"+job).want(200).has("succeeded", "status").text("result", "kubernetesCluster", "id")
		for _, size := range []string{"4", "1"} {
			c.post("/kubernetes-clusters/"+id+"/scale", `{"size":`+size+`}`).want(202)
			time.Sleep(10 * time.Second)
		}
		c.post("/kubernetes-clusters/"+id+"/upgrade", `{"kubernetesVersionId":"`+versionID(p, "v1.36.3")+`"}`).want(202)
		time.Sleep(15 * time.Second)
		c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig")
		c.delete("/kubernetes-clusters/" + id).want(202)
		time.Sleep(10 * time.Second)
		c.delete("/kubernetes-clusters/"+id).refused(404, emulator.CodeResourceNotFound)
		if err := p.WriteJournal(t.Output()); err != nil {
			t.Fatal(err)
		}
	})
}
