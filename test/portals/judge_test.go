// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// condition is the condition with which the provider would report an error. If the reason is empty, the provider reports nothing and tries
// again later.
type condition struct {
	reason, message string
	after           time.Duration
}

func conditionOf(err error) condition {
	o := outcome.FromPortalError(err)
	return condition{o.Reason, o.Message, o.RequeueAfter}
}

// remembered is how long after a refused login the client may repeat the refusal without asking the portal.
const remembered = 45 * time.Minute

// judge compares the provider's conditions with the injected faults.
type judge struct {
	portal *emulator.Portal
	hits   map[string]int       // hits of each fault at the last call of causes
	struck map[string]time.Time // when each cause of a refused login last struck
	fails  []string
}

func newJudge(p *emulator.Portal) *judge {
	return &judge{portal: p, hits: map[string]int{}, struck: map[string]time.Time{}}
}

// causes returns the causes that struck since the last call, and the causes of refused logins that the client may still remember.
func (j *judge) causes() []*cause {
	var found []*cause
	for _, f := range j.portal.Faults() {
		if f.Hits == j.hits[f.Fault.ID] {
			continue
		}
		j.hits[f.Fault.ID] = f.Hits
		found = append(found, causeOf(f.Fault.ID))
		if f.Fault.Path == "/login" || strings.HasPrefix(f.Fault.Path, "/mfa/") {
			j.struck[f.Fault.ID] = time.Now()
		}
	}
	for name, at := range j.struck {
		if time.Since(at) < remembered {
			found = append(found, causeOf(name))
		}
	}
	return found
}

// blame maps words of messages to the causes that they name. A message must not use the words of another cause. The reason Refused is
// that of several causes, which its message tells apart.
var blame = map[string][]string{
	"email and password": {"credentials"}, "totpSeed": {"one-time code"}, "baseURL": nil, "caBundle": nil, "clock": {"one-time code"},
	"connection was cut": {"lost answer to a change"}, "the right to do it": {"forbidden"}, "identifier": {"job forgotten"}, "just issued": {"token revoked"},
	"quota": {"quota", "job beyond a quota"}, "Change what the portal refuses": {"invalid"},
	"portal's operator has": {"not allowed", "no deletion in Alert"},
}

// judge checks one error. The legal reasons are those that the portal's state explains without a fault.
func (j *judge) judge(err error, legal ...string) condition {
	shown := conditionOf(err)
	struck := j.causes()
	if spoiled(err, struck) {
		return shown
	}
	names := func(c *cause) bool { return slices.Contains(c.shown, shown.reason) }
	if shown.reason != "" && !slices.ContainsFunc(struck, names) && !slices.Contains(legal, shown.reason) {
		j.fails = append(j.fails, fmt.Sprintf("%s: %s, but what struck is %s", shown.reason, shown.message, list(struck)))
	}
	for words, named := range blame {
		is := func(c *cause) bool { return slices.Contains(named, c.name) }
		if strings.Contains(shown.message, words) && !slices.ContainsFunc(struck, is) && !slices.Contains(legal, infrav1.RefusedReason) {
			j.fails = append(j.fails, fmt.Sprintf("%q is blamed: %s, but what struck is %s", words, shown.message, list(struck)))
		}
	}
	var e *cloud.Error
	refusedLogin := shown.reason == infrav1.UnauthorizedReason || errors.As(err, &e) && e.Status == http.StatusUnauthorized // by a portal or in its place
	if shown.after > 5*time.Minute && shown.reason != "" && !refusedLogin {
		j.fails = append(j.fails, fmt.Sprintf("%s: %s: waits for %s", shown.reason, shown.message, shown.after))
	}
	if strings.Contains(shown.message, password) || strings.Contains(shown.message, seed) {
		j.fails = append(j.fails, "a secret is shown")
	}
	return shown
}

// spoiled reports whether a fault removed the body of a refusal, so that only the status is left.
func spoiled(err error, struck []*cause) bool {
	var e *cloud.Error
	return errors.As(err, &e) && e.Code == "" && e.Status >= 400 && e.Status < 500 &&
		slices.ContainsFunc(struck, func(c *cause) bool { return strings.HasPrefix(c.name, "lost answer") })
}

func list(struck []*cause) string {
	var names []string
	for _, c := range struck {
		names = append(names, c.name)
	}
	return fmt.Sprintf("%q", slices.Compact(slices.Sorted(slices.Values(names))))
}

// duplicates returns the names that two of the portal's clusters had at the same time.
func duplicates(p *emulator.Portal) (names []string) {
	named, alive := map[string]string{}, map[string]int{}
	for _, e := range p.RequestLog() {
		switch {
		case e.Object == "cluster" && e.To == string(emulator.ClusterCreating):
			name, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, "name="), " ")
			named[e.ID] = name
			if alive[name]++; alive[name] > 1 {
				names = append(names, name)
			}
		case e.Object == "cluster" && e.To == "deleted":
			alive[named[e.ID]]--
		}
	}
	return names
}

// unknown reports whether only a person, or a lookup at the portal, can find out the result of a change.
func unknown(err error) bool {
	return cloud.IsUnknownOutcome(err) && conditionOf(err).reason == infrav1.OutcomeUnknownReason
}

// judgeJob checks the reason of a failed job. An unknown code has no condition of its own. The portal's operator may have ended the job.
func (j *judge) judgeJob(job cloud.Job, ended bool) {
	shown := conditionOf(job.Error)
	if ended && shown.reason == infrav1.InternalErrorReason && strings.Contains(shown.message, "operator ended") {
		return
	}
	if strings.Contains(job.Error.Message, "as injected") && slices.ContainsFunc(causes, func(c cause) bool {
		return strings.HasPrefix(c.name, "job ") && slices.Contains(c.shown, shown.reason)
	}) {
		return
	}
	j.fails = append(j.fails, fmt.Sprintf("a job has failed with %v: %s, %s", job.Error, shown.reason, shown.message))
}
