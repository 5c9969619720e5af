// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var errorChecks = []check{
	{name: "errors/every refusal has the documented shape", run: func(p *probe) {
		_, refusals := p.samples()
		for _, a := range refusals {
			a.refused()
		}
	}},
	{name: "errors/requestId differs between requests", run: func(p *probe) {
		seen := map[string]string{}
		_, refusals := p.samples()
		for _, a := range refusals {
			id := a.refused().text("error", "requestId")
			if other := seen[id]; other != "" {
				p.Errorf("%s and %s have the same requestId %s", other, a.what, id)
			}
			seen[id] = a.what
		}
	}},
	{name: "errors/field names what is malformed", run: func(p *probe) {
		for field, body := range map[string]string{
			"email":    object("password", "of nobody"),
			"password": object("email", "nobody@portal.example"),
		} {
			if got := p.with("").post("/login", body).refused("INVALID_PARAMETER").at("error", "field"); got != field {
				p.Errorf("field is %v, want %s", got, field)
			}
		}
	}},
	{name: "status/400 for a bad payload", run: func(p *probe) {
		for _, body := range []string{`{"email":`, `[]`, `"email"`} {
			p.with("").post("/login", body).want(http.StatusBadRequest).refused()
		}
	}},
	{name: "errors/INVALID_PARAMETER for a missing parameter", run: func(p *probe) {
		p.with("").post("/login", `{}`).refused("INVALID_PARAMETER")
	}},
	{name: "errors/INVALID_PARAMETER for a malformed parameter", run: func(p *probe) {
		p.with("").post("/login", object("email", 5, "password", "of nobody")).refused("INVALID_PARAMETER")
	}},
	{name: "errors/RESOURCE_NOT_FOUND for ids that do not exist", run: func(p *probe) { p.eachOf(p.me(), unknownID, unknownID, unknownID, unknownID) }},
	{name: "errors/RESOURCE_NOT_FOUND for another account's ids", run: othersIDs},
}

// eachOf calls every endpoint that has an id in its path, with ids that do not exist in the account, and checks that nothing changes.
func (p *probe) eachOf(me *probe, cluster, job, instance, volume string) {
	version := at(p.versions()[0], "id")
	for _, e := range []struct{ method, path, body string }{
		{"GET", "/kubernetes-clusters/" + cluster + "/config", ""},
		{"POST", "/kubernetes-clusters/" + cluster + "/scale", object("size", 3)},
		{"POST", "/kubernetes-clusters/" + cluster + "/upgrade", object("kubernetesVersionId", version)},
		{"DELETE", "/kubernetes-clusters/" + cluster, ""},
		{"GET", "/jobs/" + job, ""},
		{"GET", "/instances/" + instance, ""},
		{"DELETE", "/volumes/" + volume, ""},
	} {
		a := me.start(e.method, e.path, e.body)
		if a.status != http.StatusNotFound || a.at("error", "code") != "RESOURCE_NOT_FOUND" || a.shape() != nil {
			p.Errorf("%s: status %d: %s", a.what, a.status, a.shown())
		}
	}
}

// othersIDs checks valid ids of the first user's account with a user of another account.
func othersIDs(p *probe) {
	foreign := p.as(stranger)
	c := p.cluster()
	volume := unknownID
	if p.books != nil {
		volume = p.books.AddVolume(emulator.Volume{Account: "main"})
	}
	p.eachOf(foreign, c.id, c.accepted.text("jobId"), p.anInstance(), volume)
}

// refusalChecks cause refusals that cost money, or that only an emulator can cause.
var refusalChecks = []check{
	{name: "errors/RESOURCE_BUSY for a locked cluster", run: func(p *probe) {
		id := p.cluster().id
		first := p.me().start("POST", "/kubernetes-clusters/"+id+"/scale", object("size", 3)).want(http.StatusAccepted)
		p.me().post("/kubernetes-clusters/"+id+"/scale", object("size", 2)).refused("RESOURCE_BUSY")
		p.me().follow(first).succeeded()
	}},
	{name: "status/409 for a locked resource", run: func(p *probe) {
		p.hidden("which status goes with RESOURCE_BUSY is not shown")
		id := p.cluster().id
		if p.options.Shapes.CodeStatus["RESOURCE_BUSY"] != 0 {
			p.skip("this portal pairs RESOURCE_BUSY with another status, which it may")
		}
		p.me().start("POST", "/kubernetes-clusters/"+id+"/scale", object("size", 3)).want(http.StatusAccepted)
		p.me().delete("/kubernetes-clusters/" + id).want(http.StatusConflict).refused()
	}},
	{name: "errors/OPERATION_NOT_ALLOWED for an action that the state forbids", run: func(p *probe) {
		p.hidden("needs a volume that is in use")
		p.cluster()
		a := p.me().delete("/volumes/" + p.books.Volumes()[0].ID).refused()
		if a.status != http.StatusConflict && a.text("error", "code") != "OPERATION_NOT_ALLOWED" {
			p.Errorf("status %d, code %s", a.status, a.text("error", "code"))
		}
		if len(p.books.Volumes()) != 1 {
			p.Error("the portal refused the request but deleted the volume")
		}
	}},
	{name: "errors/QUOTA_EXCEEDED beyond a quota", run: func(p *probe) {
		p.hidden("account quota values are not shown")
		p.refuseCreate(p.parameters().with("size", p.Tier.Workers+1)).refused("QUOTA_EXCEEDED")
	}},
	{name: "errors/INSUFFICIENT_CAPACITY of a full platform", run: func(p *probe) {
		p.hidden("needs a platform without room")
		p.fault(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Code: emulator.CodeInsufficientCapacity})
		p.refuseCreate(p.parameters()).refused("INSUFFICIENT_CAPACITY")
	}},
	{name: "status/500 has the documented shape", run: brokenPortal(http.StatusInternalServerError)},
	{name: "status/503 has the documented shape", run: brokenPortal(http.StatusServiceUnavailable)},
}

func brokenPortal(status int) func(*probe) {
	return func(p *probe) {
		p.hidden("needs a portal that is broken")
		me := p.me()
		p.fault(emulator.Fault{ID: "broken", Status: status})
		me.once("GET", "/vpcs", "", nil).want(status).refused()
		p.books.RemoveFault("broken")
		me.get("/vpcs").want(http.StatusOK)
	}
}
