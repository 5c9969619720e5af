// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const password = "portal-password-9f2c"

// TestFrom maps each class of the portal's errors: who has to act (Stalled: a person, Wait: time), and under which reason.
func TestFrom(t *testing.T) {
	tests := map[string]struct {
		err    error
		kind   Kind
		reason string
		says   string
		after  time.Duration
	}{
		"busy":             {&cloud.Error{Code: cloud.CodeResourceBusy, Status: 409}, Wait, infrav1.PortalBusyReason, "busy with another operation", busyRetry},
		"second factor":    {&cloud.Error{Code: cloud.CodeMFARequired, Status: 403}, Stalled, infrav1.MFARequiredReason, "totpSeed", 0},
		"password":         {&cloud.Error{Code: cloud.CodeInvalidToken, Status: 401, Endpoint: "POST /login"}, Stalled, infrav1.UnauthorizedReason, "password in the identity Secret", 0},
		"one-time code":    {&cloud.Error{Code: "WRONG_CODE", Status: 401, Endpoint: "POST /mfa/verify-otp"}, Stalled, infrav1.UnauthorizedReason, "totpSeed", 0},
		"fresh token":      {&cloud.Error{Code: cloud.CodeInvalidToken, Status: 401, Endpoint: "GET /vpcs"}, Stalled, infrav1.UnauthorizedReason, "just issued", 0},
		"right":            {&cloud.Error{Code: "NO", Status: 403, Message: "no"}, Stalled, infrav1.RefusedReason, "the right to do it", 0},
		"quota":            {&cloud.Error{Code: cloud.CodeQuotaExceeded, Status: 422, Message: "50 at most"}, Stalled, infrav1.RefusedReason, "50 at most", 0},
		"capacity":         {&cloud.Error{Code: cloud.CodeInsufficientCapacity, Status: 503}, Stalled, infrav1.InsufficientCapacityReason, "tries again", 0},
		"not found":        {&cloud.Error{Code: cloud.CodeResourceNotFound, Status: 404}, Stalled, infrav1.RefusedReason, "Check the identifier", 0},
		"by a proxy":       {&cloud.Error{Status: 403}, Wait, infrav1.PortalUnavailableReason, "another server answers", firstRetry},
		"invalid":          {&cloud.Error{Code: cloud.CodeInvalidParameter, Status: 400, Field: "zoneId"}, Stalled, infrav1.RefusedReason, "zoneId", 0},
		"not allowed":      {&cloud.Error{Code: cloud.CodeOperationNotAllowed, Status: 409}, Stalled, infrav1.RefusedReason, "the portal's operator has to repair", 0},
		"down":             {&cloud.Error{Status: 503}, Wait, infrav1.PortalUnavailableReason, "tries again", firstRetry},
		"not the portal's": {errors.New("odd"), Wait, infrav1.InternalErrorReason, "odd", firstRetry},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			o := FromPortalError(test.err)
			if o.Kind != test.kind || o.Reason != test.reason || o.RequeueAfter != test.after {
				t.Errorf("got %+v, want kind %d, reason %s, after %s", o, test.kind, test.reason, test.after)
			}
			if !strings.Contains(o.Message, test.says) {
				t.Errorf("%q does not say %q", o.Message, test.says)
			}
			var e *cloud.Error
			if o.Reason == infrav1.RefusedReason && (!errors.As(test.err, &e) || !strings.Contains(o.Message, string(e.Code))) {
				t.Errorf("%q does not have the portal's code", o.Message)
			}
		})
	}
}

// TestRefusalNamesTheField: a user who reads that the portal refuses a parameter finds the object and the field to correct in the same
// message, for each parameter of each request that the provider makes.
func TestRefusalNamesTheField(t *testing.T) {
	refused := func(endpoint, parameter string, code cloud.Code) string {
		return FromPortalError(&cloud.Error{Endpoint: endpoint, Code: code, Status: 422, Message: "no", Field: parameter}).Message
	}
	for endpoint, request := range map[string]any{
		"POST /kubernetes-clusters": cloud.CreateClusterRequest{}, "POST /vpcs": cloud.CreateVPCRequest{Name: "v"}, "POST /networks": cloud.CreateNetworkRequest{},
	} {
		parameters := reflect.TypeOf(request)
		for i := range parameters.NumField() {
			parameter, _, _ := strings.Cut(parameters.Field(i).Tag.Get("json"), ",")
			if got := refused(endpoint, parameter, cloud.CodeInvalidParameter); !strings.Contains(got, ". Correct ") {
				t.Errorf("%s %s: %q names no field", endpoint, parameter, got)
			}
		}
	}
	for _, test := range []struct {
		endpoint, parameter string
		code                cloud.Code
		want                string
	}{
		{"POST /kubernetes-clusters", "zoneId", cloud.CodeInvalidParameter, "Correct spec.zoneID of the PortalCluster"},
		{"POST /kubernetes-clusters", "vpcId", cloud.CodeResourceNotFound, "Correct spec.vpc of the PortalCluster"},
		{"POST /kubernetes-clusters", "name", cloud.CodeInvalidParameter, "Correct spec.clusterName of the PortalControlPlane"},
		{"POST /vpcs", "name", cloud.CodeInvalidParameter, "Correct spec.vpc.name of the PortalCluster"},
		{"POST /kubernetes-clusters/{cluster_id}/scale", "size", cloud.CodeInvalidParameter, "Correct the replicas of"},
		{"POST /kubernetes-clusters/{cluster_id}/scale", "size", cloud.CodeQuotaExceeded, "Ask for less"},
		{"", "kubernetesVersionId", cloud.CodeInvalidParameter, "Correct spec.version of the PortalControlPlane"}, // of a failed job
		{"POST /kubernetes-clusters", "colour", cloud.CodeInvalidParameter, "Change what the portal refuses"},
	} {
		if got := refused(test.endpoint, test.parameter, test.code); !strings.Contains(got, ". "+test.want) {
			t.Errorf("%s %s: %q, want %q", test.endpoint, test.parameter, got, test.want)
		}
	}
}

// TestRequestID: every message about a refusal or a failed call has the id that the portal's support asks for, once.
func TestRequestID(t *testing.T) {
	for _, e := range []cloud.Error{
		{Code: cloud.CodeResourceBusy}, {Code: cloud.CodeMFARequired}, {Code: cloud.CodeInvalidToken, Endpoint: "POST /login"},
		{Code: cloud.CodeInvalidToken, Endpoint: "GET /vpcs"}, {Code: "NO", Status: 403}, {Code: cloud.CodeQuotaExceeded}, {Code: cloud.CodeInsufficientCapacity},
		{Code: cloud.CodeResourceNotFound}, {Code: cloud.CodeInvalidParameter}, {Code: cloud.CodeOperationNotAllowed}, {Status: 405},
	} {
		e.RequestID = "r-7"
		if o := FromPortalError(fmt.Errorf("list versions: %w", &e)); strings.Count(o.Message, " (requestId r-7)") != 1 {
			t.Errorf("%v: %q", &e, o.Message)
		}
	}
}

// TestFromKeepsThePortalsTime: a retry time from the portal is kept, unless ours is later.
func TestFromKeepsThePortalsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(3 * time.Minute)
		if o := FromPortalError(&cloud.Error{Status: 503, RetryAt: at}); o.Kind != Wait || o.RequeueAfter != 3*time.Minute {
			t.Errorf("maintenance for three minutes: %+v", o)
		}
		if o := FromPortalError(&cloud.Error{Status: 503, RetryAt: time.Now().Add(time.Second)}); o.RequeueAfter != firstRetry {
			t.Errorf("maintenance for a second: %+v", o)
		}
		limited := FromPortalError(&cloud.Error{Code: cloud.CodeRateLimited, Status: 429, RetryAt: at})
		if limited.Kind != Retry || limited.Reason != "" || limited.RequeueAfter != 3*time.Minute {
			t.Errorf("rate limited: %+v, want nothing to tell and three minutes", limited)
		}
	})
}

// TestFromACutCall takes the error that only a client can make from the client itself.
func TestFromACutCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal, err := emulator.New(emulator.Options{Seed: 1, Users: []emulator.User{{Email: "a@portal.example", Password: password}}})
		if err != nil {
			t.Fatal(err)
		}
		defer portal.Close()
		if err := portal.Inject(emulator.Fault{Method: "DELETE", Cut: true, After: true}); err != nil {
			t.Fatal(err)
		}
		client, err := cloud.New(cloud.Config{
			BaseURL: "https://portal.example", Email: "a@portal.example", Password: password, Transport: portal.Transport(),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.DeleteCluster(t.Context(), "k8s-none")
		if o := FromPortalError(err); o.Kind != Stalled || o.Reason != infrav1.OutcomeUnknownReason || strings.Contains(o.Message, password) {
			t.Errorf("%+v", o)
		}
	})
}
