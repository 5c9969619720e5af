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

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// creation is a resource that checks created, with the answers that they received.
type creation struct {
	id       string
	accepted *answer   // the 202
	looks    []*answer // all polls of the job
}

// ended returns the last poll of the job.
func (c *creation) ended() *answer { return c.looks[len(c.looks)-1] }

// shared returns a resource that several checks use, and creates it on the first call. If the creation fails, it is not tried again,
// because each try may leave something that costs money.
func (p *probe) shared(kind string, create func() *creation) *creation {
	p.mayCreate()
	c, tried := p.made[kind]
	if !tried {
		p.made[kind] = nil
		p.made[kind] = create()
		c = p.made[kind]
	}
	if c == nil {
		p.Fatalf("an earlier check could not create the %s that the checks share", kind)
	}
	c.accepted.attempt = p.attempt // the check that created it may have ended
	for _, look := range c.looks {
		look.attempt = p.attempt
	}
	return c
}

// vpc returns the VPC that was created for the checks.
func (p *probe) vpc() *creation {
	return p.shared("vpc", func() *creation {
		name := p.name()
		c := p.me().follow(p.me().making("vpc", name, p.me().start("POST", "/vpcs", object("name", name))))
		c.id = c.succeeded().text("result", "vpc", "id")
		return c
	})
}

// cluster returns a Running cluster with 2 workers and 1 control node that was created for the checks without networkId.
func (p *probe) cluster() *creation {
	return p.shared("cluster", func() *creation { return p.newCluster(p.parameters()) })
}

// newCluster creates a cluster.
func (p *probe) newCluster(body parameters) *creation {
	p.mayCreate()
	c := p.me().follow(p.postCluster(body))
	c.id = c.ended().createdID(c.succeeded().at("result"), "cluster", body.name())
	return c
}

// postCluster sends a create call with a version that the portal accepts. The specification does not show the meaning of version states, so
// postCluster tries the next version if one is refused.
func (p *probe) postCluster(body parameters) *answer {
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

// newNetwork creates a network, with further fields than its CIDR if there are any. The portal may answer 201 or 202.
func (p *probe) newNetwork(cidr string, more ...any) string {
	p.mayCreate()
	body := object(append([]any{"cidr", cidr}, more...)...)
	a := p.me().making("network", cidr, p.me().start("POST", "/networks", body)).want(http.StatusOK, http.StatusCreated, http.StatusAccepted)
	if a.status != http.StatusAccepted {
		p.note(gapNetwork, "at once")
		return a.createdID(a.body, "network", "")
	}
	p.note(gapNetwork, "by a job")
	ended := p.me().follow(a).succeeded()
	return ended.createdID(ended.at("result"), "network", "")
}

// follow polls the job of a 202 until it ends. Each minute it looks at the machines, which show the progress of jobs that take long.
func (p *probe) follow(accepted *answer) *creation {
	c := &creation{accepted: accepted}
	job := accepted.want(http.StatusAccepted).text("jobId")
	progress, looked, machines := time.Now(), time.Now(), ""
	for ; !cloud.IsStuck(progress); time.Sleep(p.Poll) {
		look := p.get("/jobs/" + job).want(http.StatusOK)
		c.looks = append(c.looks, look)
		if status := look.text("status"); status == "succeeded" || status == "failed" {
			return c
		}
		if time.Since(looked) < time.Minute {
			continue
		}
		now := p.machines()
		if machines != "" && now != machines {
			progress = time.Now()
		}
		looked, machines = time.Now(), now
	}
	p.Fatalf("job %s is stuck: it has shown no progress for 30 minutes", job)
	return nil
}

// machines returns the ids and states of all instances in one text, which is empty if the portal lists none.
func (p *probe) machines() string {
	var all []string
	for _, i := range slices.Concat(slices.Collect(maps.Values(lists(p.get("/instances").body)))...) {
		all = append(all, fmt.Sprint(at(i, "id"), " ", at(i, "state")))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// succeeded returns the last poll of a job that must have succeeded.
func (c *creation) succeeded() *answer {
	a := c.ended()
	if status := a.text("status"); status != "succeeded" {
		a.Fatalf("%s: the job has %s: %s", a.what, status, a.hide(string(a.raw)))
	}
	return a
}

// parameters are the body of a create call.
type parameters map[string]any

func (body parameters) String() string {
	out, err := json.Marshal(map[string]any(body))
	if err != nil {
		panic(err) // checks use only plain values
	}
	return string(out)
}

// with returns a copy with one parameter changed.
func (body parameters) with(name string, value any) parameters {
	out := maps.Clone(body)
	out[name] = value
	return out
}

// without returns a copy without one parameter.
func (body parameters) without(name string) parameters {
	out := maps.Clone(body)
	delete(out, name)
	return out
}

// parameters returns the documented minimum set, with the oldest version that the portal accepts.
func (p *probe) parameters() parameters {
	p.mayCreate()
	if p.Zone == "" || p.ServiceOffering == "" || p.SSHKeyPair == "" || p.VPC == "" {
		p.skip("makes a cluster: needs --zone, --service-offering, --ssh-key-pair and --vpc")
	}
	vpcs := p.me().get("/vpcs?name=" + p.VPC).records("vpcs")
	if len(vpcs) == 0 {
		p.Fatalf("the portal has no VPC %s", p.VPC)
	}
	return parameters{
		"name": p.name(), "description": "made by the conformance suite", "zoneId": p.Zone,
		"kubernetesVersionId": at(p.usable()[0], "id"), "serviceOfferingId": p.ServiceOffering,
		"size": 2, "controlNodes": 1, "vpcId": at(vpcs[0], "id"), "sshKeyPair": p.SSHKeyPair,
	}
}

// name returns an unused name.
func (p *probe) name() string { return fmt.Sprintf("conformance-%x", time.Now().UnixNano()) }

// versions returns the offered versions, oldest first.
func (p *probe) versions() []any {
	list := p.me().get("/kubernetes-versions").records("versions")
	if len(list) == 0 {
		p.Fatal("the portal offers no Kubernetes version")
	}
	slices.SortStableFunc(list, func(a, b any) int { return slices.Compare(numbers(a), numbers(b)) })
	return list
}

// usable returns the versions that the portal is likely to accept, oldest first. Versions whose state suggests that they have ended come
// last.
func (p *probe) usable() []any {
	list := p.versions()
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(sounds(a), sounds(b)) })
	return list[min(p.version, len(list)-1):]
}

// sounds returns 1 for a version whose state suggests that it can no longer be used, and 0 for all others.
func sounds(version any) int {
	state, _ := at(version, "state").(string)
	for _, word := range []string{"disab", "deprec", "retire", "remov", "unsupp", "end"} {
		if strings.HasPrefix(strings.ToLower(state), word) {
			return 1
		}
	}
	return 0
}

// later returns the newest version other than the one that clusters are created with.
func (p *probe) later() any {
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
