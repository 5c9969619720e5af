// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var jobChecks = []check{
	{name: "endpoints/GET jobs", run: func(p *probe) {
		c := p.vpc()
		if got, want := c.ended().text("jobId"), c.accepted.text("jobId"); got != want {
			p.Errorf("got job %s, want %s", got, want)
		}
	}},
	{name: "jobs/an accepted operation is polled to its end", run: func(p *probe) { p.vpc().succeeded() }},
	{name: "jobs/202 carries jobId and status", run: func(p *probe) {
		c := p.vpc()
		c.accepted.want(http.StatusAccepted).text("jobId")
		c.accepted.text("status")
	}},
	{name: "jobs/status is one of four", run: func(p *probe) {
		c := p.vpc()
		for _, a := range append(c.looks, c.accepted) {
			if status := a.text("status"); !slices.Contains(jobStatuses, status) {
				p.Errorf("status %s", status)
			}
		}
	}},
	{name: "jobs/result of a succeeded job", run: func(p *probe) {
		a := p.cluster().succeeded()
		a.createdID(a.at("result"), "cluster", "")
		if a.at("error") != nil {
			p.Error("a succeeded job has an error")
		}
	}},
	{name: "jobs/error of a failed job", run: failedJob},
	{name: "states/a job starts as pending", run: func(p *probe) {
		if status := p.vpc().accepted.text("status"); status != "pending" {
			p.Errorf("the job starts as %s", status)
		}
	}},
	{name: "states/a job in progress is running", run: inProgress},
	{name: "jobs/202 comes before the work is done", run: func(p *probe) {
		c := p.cluster()
		if c.accepted.took > 30*time.Second {
			p.Errorf("the answer took %s", c.accepted.took)
		}
		if p.virtual && c.looks[0].text("status") == "succeeded" {
			p.Error("the portal did the work before it answered")
		}
	}},
	{name: "jobs/always asynchronous: vpc create", run: func(p *probe) { p.vpc().accepted.startsJob() }},
	{name: "jobs/always asynchronous: cluster create", run: func(p *probe) { p.cluster().accepted.startsJob() }},
	{name: "jobs/always asynchronous: cluster scale", run: func(p *probe) { p.scale(p.cluster().id, 3).accepted.startsJob() }},
	{name: "jobs/always asynchronous: cluster upgrade", run: func(p *probe) { p.upgrade(p.cluster().id).accepted.startsJob() }},
	{name: "jobs/always asynchronous: cluster delete", run: func(p *probe) { p.deleteCluster(p.cluster().id).accepted.startsJob() }},
	{name: "states/a busy cluster is free again when the job has ended", run: func(p *probe) {
		id := p.cluster().id
		p.scale(id, 3).succeeded()
		p.scale(id, 2).succeeded()
	}},
}

// jobStatuses lists the statuses of a job in their order.
var jobStatuses = []string{"pending", "running", "succeeded", "failed"}

// startsJob checks that the answer has the shape of every asynchronous operation's answer.
func (a *answer) startsJob() {
	a.want(http.StatusAccepted).text("jobId")
	if status := a.text("status"); status != "pending" {
		a.Errorf("%s: the job starts as %s", a.what, status)
	}
}

// failedJob checks that a failed job has no result, and an error with the reason. The specification does not show the error's shape.
func failedJob(p *probe) {
	p.hidden("needs a job that fails")
	p.fault(emulator.Fault{Count: 1, Path: "/vpcs", Job: emulator.JobFails, JobCode: "INSUFFICIENT_CAPACITY", JobMessage: "no room"})
	a := p.me().follow(p.me().start("POST", "/vpcs", object("name", p.name()))).ended()
	if status := a.text("status"); status != "failed" {
		p.Fatalf("status is %s", status)
	}
	code, _ := a.at("error", "code").(string)
	if whole, ok := a.at("error", "error", "code").(string); ok {
		code = whole
	}
	text, _ := a.at("error").(string)
	if code == "" && text == "" {
		p.Errorf("error is %v", a.at("error"))
	}
	if a.at("result") != nil {
		p.Error("a failed job has a result")
	}
}

// inProgress polls often, to see every status of the job. No status may repeat after another.
func inProgress(p *probe) {
	p.hidden("needs time in which nothing is missed")
	p.Poll = 100 * time.Millisecond
	var seen []string
	for _, look := range p.newCluster(p.parameters()).looks {
		if status := look.text("status"); len(seen) == 0 || seen[len(seen)-1] != status {
			seen = append(seen, status)
		}
	}
	if !slices.Equal(seen, []string{"pending", "running", "succeeded"}) {
		p.Errorf("the job was %v", seen)
	}
}

// fault sets a fault at the emulator.
func (p *probe) fault(f emulator.Fault) {
	if err := p.books.Inject(f); err != nil {
		p.Fatal(err)
	}
}
