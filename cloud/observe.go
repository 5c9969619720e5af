// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"net/http"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// Call is one request that is over, for metrics. It carries no id, no secret and no text of the portal but the code.
type Call struct {
	// Endpoint is the route, such as "POST /kubernetes-clusters/{cluster_id}/scale".
	Endpoint string
	// Class of the reservation that was spent.
	Class ratelimit.Class
	// Status of the answer. 0 if there was none.
	Status int
	// Code of the answer, if it was an error with one that the specification lists. Other codes are dropped,
	// because the portal must not decide the number of time series.
	Code Code
	// Duration from the start of the request to the end of its answer.
	Duration time.Duration
	// Date is the portal's clock, from the answer's header. Zero if it had none.
	Date time.Time
	// Waited is how long the reservation waited for the rate limit before it was granted.
	Waited time.Duration
	// RetryAfter is how long the rate limit asks to wait, if it refused the request and names a time.
	RetryAfter time.Duration
}

// observed calls Config.Observe for each request. It comes after limited, so repeated requests and logins count as requests of their own.
type observed struct {
	observe func(Call)
	next    handler
}

func (o *observed) do(ctx context.Context, c *call) (*answer, error) {
	if o.observe == nil {
		return o.next.do(ctx, c)
	}
	start := time.Now()
	a, err := o.next.do(ctx, c)
	seen := Call{
		Endpoint: c.route.String(),
		Class:    c.route.class,
		Duration: time.Since(start),
		Waited:   c.waited,
	}
	if a != nil {
		seen.Status = a.status
		seen.Date, _ = http.ParseTime(a.header.Get("Date"))
		if isRateLimited(a) {
			seen.RetryAfter, _ = ratelimit.RetryAfter(a.header, a.at, true)
		}
		if !a.ok() {
			e, _ := parseError(a.body, nil)
			if _, listed := kindOfCode[e.Code]; listed {
				seen.Code = e.Code
			}
		}
	}
	o.observe(seen)
	return a, err
}
