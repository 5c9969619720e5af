// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// creation is something made for checks to look at.
type creation struct {
	id       string
	accepted *answer   // the 202
	looks    []*answer // at the job, every one
}

// ended is the last look at the job.
func (c *creation) ended() *answer { return c.looks[len(c.looks)-1] }

// shared is something that checks may look at and use, made when it is first needed. If that fails it is not tried again:
// each try may leave something behind that costs money.
func (p *probe) shared(kind string, create func() *creation) *creation {
	p.Helper()
	p.mayCreate()
	c, tried := p.made[kind]
	if !tried {
		p.made[kind] = nil
		p.made[kind] = create()
		c = p.made[kind]
	}
	if c == nil {
		p.Fatalf("an earlier check could not make the %s that the checks share", kind)
	}
	c.accepted.TB = p.TB // its first check may be over
	for _, look := range c.looks {
		look.TB = p.TB
	}
	return c
}

// vpc is a VPC that was made for the checks.
func (p *probe) vpc() *creation {
	p.Helper()
	return p.shared("vpc", func() *creation {
		p.Helper()
		name := p.name()
		c := p.me().follow(p.me().making("vpc", name, p.me().start("POST", "/vpcs", object("name", name))))
		c.id = c.succeeded().text("result", "vpc", "id")
		return c
	})
}

// cluster is a Running cluster with 2 workers and 1 control node that was made for the checks, without networkId.
func (p *probe) cluster() *creation {
	p.Helper()
	return p.shared("cluster", func() *creation { p.Helper(); return p.newCluster(p.parameters()) })
}

// newCluster makes a cluster.
func (p *probe) newCluster(body parameters) *creation {
	p.Helper()
	p.mayCreate()
	c := p.me().follow(p.postCluster(body))
	c.id = c.ended().createdID(c.succeeded().at("result"), "cluster", body.name())
	return c
}

// postCluster sends a create call with a version that the portal takes: what the states of versions mean is not shown,
// so a version that is refused makes room for the next one.
func (p *probe) postCluster(body parameters) *answer {
	p.Helper()
	for {
		a := p.me().making("cluster", body.name(), p.me().start("POST", "/kubernetes-clusters", body.String()))
		usable := p.usable()
		refused := a.status >= 400 && a.at("error", "field") == "kubernetesVersionId"
		if !refused || len(usable) < 2 || body["kubernetesVersionId"] != at(usable[0], "id") {
			return a
		}
		p.version++
		body = body.with("kubernetesVersionId", at(p.usable()[0], "id"))
	}
}

// newNetwork makes a network, by 201 or by 202, which are both sensible.
func (p *probe) newNetwork(cidr string) string {
	p.Helper()
	p.mayCreate()
	a := p.me().making("network", cidr, p.me().start("POST", "/networks", object("cidr", cidr))).want(http.StatusOK, http.StatusCreated, http.StatusAccepted)
	if a.status != http.StatusAccepted {
		p.note(silenceNetwork, "at once")
		return a.createdID(a.body, "network", "")
	}
	p.note(silenceNetwork, "by a job")
	ended := p.me().follow(a).succeeded()
	return ended.createdID(ended.at("result"), "network", "")
}

// follow polls the job of a 202 to its end.
func (p *probe) follow(accepted *answer) *creation {
	p.Helper()
	c := &creation{accepted: accepted}
	job := accepted.want(http.StatusAccepted).text("jobId")
	for start := time.Now(); time.Since(start) < 30*time.Minute; time.Sleep(p.poll) {
		look := p.get("/jobs/" + job).want(http.StatusOK)
		c.looks = append(c.looks, look)
		if status := look.text("status"); status == "succeeded" || status == "failed" {
			return c
		}
	}
	p.Fatalf("job %s is stuck: it has been going on for 30 minutes", job)
	return nil
}

// succeeded is the last look at a job that has to have succeeded.
func (c *creation) succeeded() *answer {
	a := c.ended()
	a.Helper()
	if status := a.text("status"); status != "succeeded" {
		a.Fatalf("%s: the job has %s: %s", a.what, status, a.hide(string(a.raw)))
	}
	return a
}

// parameters of a create call.
type parameters map[string]any

func (body parameters) String() string {
	out, err := json.Marshal(map[string]any(body))
	if err != nil {
		panic(err) // values of checks are plain
	}
	return string(out)
}

// with is a copy with one parameter changed.
func (body parameters) with(name string, value any) parameters {
	out := maps.Clone(body)
	out[name] = value
	return out
}

// without is a copy with one parameter left out.
func (body parameters) without(name string) parameters {
	out := maps.Clone(body)
	delete(out, name)
	return out
}

// parameters are the documented minimum set, of the oldest version that the portal takes.
func (p *probe) parameters() parameters {
	p.Helper()
	p.mayCreate()
	if p.wish.zone == "" || p.wish.offering == "" || p.wish.sshKey == "" || p.wish.vpc == "" {
		p.skip("makes a cluster: needs -zone, -service-offering, -ssh-key-pair and -vpc")
	}
	vpcs := p.me().get("/vpcs?name=" + p.wish.vpc).records("vpcs")
	if len(vpcs) == 0 {
		p.Fatalf("there is no VPC %s", p.wish.vpc)
	}
	return parameters{
		"name": p.name(), "description": "made by the conformance suite", "zoneId": p.wish.zone,
		"kubernetesVersionId": at(p.usable()[0], "id"), "serviceOfferingId": p.wish.offering,
		"size": 2, "controlNodes": 1, "vpcId": at(vpcs[0], "id"), "sshKeyPair": p.wish.sshKey,
	}
}

// name is one that nothing has yet.
func (p *probe) name() string { return fmt.Sprintf("conformance-%x", time.Now().UnixNano()) }

// versions on offer, the oldest first.
func (p *probe) versions() []any {
	p.Helper()
	list := p.me().get("/kubernetes-versions").records("versions")
	if len(list) == 0 {
		p.Fatal("there is no Kubernetes version")
	}
	slices.SortStableFunc(list, func(a, b any) int { return slices.Compare(numbers(a), numbers(b)) })
	return list
}

// usable are the versions that are likely to be taken, the oldest first. Versions whose state sounds like the end come last.
func (p *probe) usable() []any {
	p.Helper()
	list := p.versions()
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(sounds(a), sounds(b)) })
	return list[min(p.version, len(list)-1):]
}

// sounds is 1 for a version whose state reads like one that cannot be used any more.
func sounds(version any) int {
	state, _ := at(version, "state").(string)
	for _, word := range []string{"disab", "deprec", "retire", "remov", "unsupp", "end"} {
		if strings.HasPrefix(strings.ToLower(state), word) {
			return 1
		}
	}
	return 0
}

// later is the newest version beside the one that clusters are made of.
func (p *probe) later() any {
	p.Helper()
	first := p.usable()[0]
	list := slices.DeleteFunc(p.usable(), func(v any) bool {
		return sounds(v) > sounds(first) || slices.Compare(numbers(v), numbers(first)) <= 0
	})
	if len(list) == 0 {
		p.skip("the portal offers no newer version to upgrade to")
	}
	return list[len(list)-1]
}

func (body parameters) name() string { name, _ := body["name"].(string); return name }
