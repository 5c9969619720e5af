// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// Differences of clocks that matter. A one-time code counts for half a minute, and a portal may accept the codes before and after
// it.
const (
	codesFail    = 30 * time.Second
	maxClockSkew = 5 * time.Minute
	slowMedian   = 5 * time.Second
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check a portal before the provider uses it, and report what to do",
		Long: `Check a portal before the provider uses it: log in as the provider would, and report the second factor, the clocks, the
account's tier, how long answers take, the Kubernetes versions, VPCs and zones that this user can see, and how the portal
behaves where its specification is open. It only reads. A line that needs attention says what to do.`,
		Args: cobra.NoArgs,
		RunE: a.runs(func(ctx context.Context, _ []string) error { return a.doctor(ctx) }),
	}
}

// finding is one line of the doctor's output.
type finding struct {
	About  string `json:"about"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to do, if it needs attention
}

// diagnosis collects the doctor's findings.
type diagnosis struct {
	Portal   string            `json:"portal"`
	Findings []finding         `json:"findings"`
	Gaps     map[string]string `json:"gaps"` // of the specification → how this portal fills it
}

func (d *diagnosis) add(about, advice, format string, args ...any) {
	d.Findings = append(d.Findings, finding{About: about, Found: fmt.Sprintf(format, args...), Advice: advice})
}

// measurements collects measurements of the client's requests.
type measurements struct {
	mu     sync.Mutex
	calls  []cloud.Call
	ahead  time.Duration // of the portal's clock, at the last answer with a date
	dated  bool
	shapes map[string]string
}

func (c *measurements) call(call cloud.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	if !call.Date.IsZero() {
		// The header has whole seconds, of a moment before the answer arrived.
		c.ahead, c.dated = call.Date.Sub(time.Now().Add(-call.Duration/2)).Round(time.Second), true
	}
}

func (c *measurements) shape(gap, shape string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shapes[gap] = shape
}

// median of the durations of answers.
func (c *measurements) median() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var took []time.Duration
	for _, call := range c.calls {
		took = append(took, call.Duration)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func (a *app) doctor(ctx context.Context) error {
	config, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	seen := &measurements{shapes: map[string]string{}}
	tell := config.Observe
	config.ObserveShape = seen.shape
	config.Observe = func(call cloud.Call) {
		seen.call(call)
		if tell != nil {
			tell(call)
		}
	}
	client, err := a.open(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	login, err := client.Login(ctx)
	if err != nil {
		return err
	}
	d := &diagnosis{Portal: config.BaseURL, Gaps: seen.shapes}
	d.user(config, login)
	d.versions(ctx, client)
	d.places(ctx, client)
	d.lookup(ctx, client)
	if err := ctx.Err(); err != nil { // the answers that are missing are no findings
		return err
	}
	d.account(client, seen)
	d.clocks(login, seen)
	return a.printDiagnosis(d)
}

// user is about the login.
func (d *diagnosis) user(config cloud.Config, login cloud.Login) {
	d.add("login", "", "%s, user %s, role %s", login.Email, login.UserID, login.Role)
	advice := ""
	if login.MFARequired && config.TOTPSeed == "" {
		advice = "give the provider the seed (" + seedVariable + " of 'portalctl identity'), or a portal user without MFA"
	}
	d.add("second factor", advice, "%s", mfaState(config, login))
	d.add("token", "", "accepted, %s", tokenLife(login))
	d.Gaps["token lifetime"] = "in the token"
	if login.Expires.IsZero() {
		d.Gaps["token lifetime"] = "not in the token"
	}
}

// versions checks the Kubernetes versions on offer. The portal does not document their states.
func (d *diagnosis) versions(ctx context.Context, client *cloud.Client) {
	versions, err := client.KubernetesVersions(ctx)
	if err != nil {
		d.addFailure("Kubernetes versions", err)
		return
	}
	var shown []string
	d.Gaps["version text"] = "with v"
	for _, v := range versions {
		shown = append(shown, fmt.Sprintf("%s (%s)", cell(v.SemanticVersion), cell(v.State)))
		if !strings.HasPrefix(v.SemanticVersion, "v") {
			d.Gaps["version text"] = "without v"
		}
	}
	advice := ""
	if len(versions) == 0 {
		advice = "have the account enabled for Kubernetes: no cluster can be created without a version"
	}
	d.add("Kubernetes versions", advice, "%d: %s", len(versions), strings.Join(shown, ", "))
}

// places checks the things that a cluster needs and that this user can see. No endpoint lists zones, but records of other
// resources name them.
func (d *diagnosis) places(ctx context.Context, client *cloud.Client) {
	zones := map[string]bool{}
	vpcs, err := client.VPCs(ctx, "")
	if err != nil {
		d.addFailure("VPCs", err)
	} else {
		var names []string
		for _, v := range vpcs {
			names = append(names, cell(v.Name)+" ("+cell(v.ID)+")")
			noteField(v.Raw, fieldZone, zones)
		}
		advice := ""
		if len(vpcs) == 0 {
			advice = "create one: portalctl vpcs create --name NAME"
		}
		d.add("VPCs", advice, "%d: %s", len(vpcs), strings.Join(names, ", "))
	}
	instances, err := client.Instances(ctx)
	if err != nil {
		d.addFailure("instances", err)
		return
	}
	for _, i := range instances {
		noteField(i.Raw, fieldZone, zones)
	}
	d.add("instances", "", "%d", len(instances))
	if len(zones) == 0 {
		d.add("zones", "", "none found, because the portal has no list of zones. Ask its support for the zone id")
		return
	}
	d.add("zones", "", "in use: %s", strings.Join(slices.Sorted(maps.Keys(zones)), ", "))
}

// lookup finds out whether the portal supports the undocumented lookup by name.
func (d *diagnosis) lookup(ctx context.Context, client *cloud.Client) {
	_, err := client.FindClusters(ctx, fmt.Sprintf("doctor-%x", time.Now().UnixNano()))
	switch {
	case err == nil:
		d.add("lookup by name", "", "this portal lists clusters, so after a lost answer the provider finds its cluster itself")
	case cloud.IsUnsupported(err):
		d.add("lookup by name", "", "this portal does not list clusters, so after a lost answer to a creation a person has to look")
	default:
		d.addFailure("lookup by name", err)
	}
}

// account is about tier and speed.
func (d *diagnosis) account(client *cloud.Client, seen *measurements) {
	stats := client.Limiter().Stats()
	if stats.LimitKnown {
		d.add("tier", "", "%d requests per minute", stats.Limit)
		d.Gaps["rate limit headers"] = "with every answer"
	} else {
		d.add("tier", "", "not reported: the provider keeps to %d requests per minute. For a higher tier, set requestsPerMinute in its Secret", stats.Limit)
		d.Gaps["rate limit headers"] = "with 429 only"
	}
	took, advice := seen.median(), ""
	if took > slowMedian {
		advice = "find out what is slow: the provider waits 60 seconds for an answer, 30 for a poll, and 5 minutes for a creation"
	}
	d.add("answers", advice, "median of %d requests: %s", len(seen.calls), max(took, time.Millisecond).Round(time.Millisecond))
}

// clocks compares this machine's clock with the portal's.
func (d *diagnosis) clocks(login cloud.Login, seen *measurements) {
	if !seen.dated {
		d.add("clock", "", "the portal's answers have no date")
		return
	}
	off, advice := seen.ahead.Abs(), ""
	switch {
	case login.MFARequired && off >= codesFail:
		advice = "correct this machine's clock, or the portal's: one-time codes are made by the clock"
	case off >= maxClockSkew:
		advice = "correct this machine's clock, or the portal's"
	}
	where := "ahead of this machine's"
	if seen.ahead < 0 {
		where = "behind this machine's"
	}
	if off <= time.Second {
		d.add("clock", advice, "the portal's agrees with this machine's")
		return
	}
	d.add("clock", advice, "the portal's is %s %s", off, where)
}

// addFailure is a question that failed.
func (d *diagnosis) addFailure(about string, err error) {
	_, advice := explain(err)
	if advice == "" {
		advice = "see the message"
	}
	d.add(about, advice, "%v", err)
}

func (a *app) printDiagnosis(d *diagnosis) error {
	t := table{}
	attention := 0
	for _, f := range d.Findings {
		t.rows = append(t.rows, []string{f.About, f.Found})
		if f.Advice != "" {
			attention++
		}
	}
	for _, gap := range slices.Sorted(maps.Keys(d.Gaps)) {
		t.rows = append(t.rows, []string{"specification: " + gap, d.Gaps[gap]})
	}
	if err := a.print(d, t); err != nil {
		return err
	}
	for _, f := range d.Findings {
		if f.Advice != "" {
			a.say("%s: %s.", f.About, strings.TrimSuffix(f.Advice, "."))
		}
	}
	if attention > 0 {
		return &failure{code: exitOther, err: fmt.Errorf("%d of %d findings need attention", attention, len(d.Findings))}
	}
	a.say("The provider can work with this portal and this user.")
	return nil
}
