// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"net/http"
	"testing"
)

// observations are answers, each with the shape that the client reports.
var observations = []struct {
	path, body, gap, shape string
}{
	{"/instances", `{"instances":[{"id":"1"}]}`, gapList, listKeyed},
	{"/instances", `{"instances":null}`, gapList, listKeyed},
	{"/instances", `[{"id":"1"}]`, gapList, listBare},
	{"/instances", `{"items":[{"id":"1"}],"count":1}`, gapList, listOtherKey},
	{"/mfa/verify-otp", `{"token":"t"}`, gapOTPToken, tokenUsualName},
	{"/mfa/verify-otp", `{"bearer":"` + sample + `"}`, gapOTPToken, tokenOtherName},
	{"/mfa/verify-otp", `{"data":{"bearer":"` + sample + `"}}`, gapOTPToken, tokenNested},
	{"/jobs/j", `{"status":"succeeded","result":{"id":"c"}}`, gapCreatedID, createdOnTop},
	{"/jobs/j", `{"status":"succeeded","result":{"cluster":{"id":"c"}}}`, gapCreatedID, createdNested},
	{"/jobs/j", `{"status":"succeeded","result":{"cluster":{"id":"c"},"network":{"id":"n"}}}`, gapCreatedID, createdBeside},
	{"/jobs/j", `{"status":"succeeded","result":{"resource":{"cluster":{"id":"c"}}}}`, gapCreatedID, createdDeeper},
	{"/jobs/j", `{"status":"failed","error":{"code":"X"}}`, gapJobError, jobErrorObject},
	{"/jobs/j", `{"status":"failed","error":{"error":{"code":"X"}}}`, gapJobError, jobErrorWhole},
	{"/jobs/j", `{"status":"failed","error":"X: y"}`, gapJobError, jobErrorString},
	{"/networks", `{"id":"n"}`, gapNetwork, networkAtOnce},
	{"/networks", `{"jobId":"j"}`, gapNetwork, networkByJob},
	{"/kubernetes-clusters", `{"kubernetesClusters":[]}`, gapFind, findListed},
	{"/kubernetes-clusters", `{}`, gapFind, findUnknown},
	{"/kubernetes-clusters", `{"kubernetesClusters":[{"name":"no id"}]}`, gapFind, findUnknown},
}

// sample has the shape of a JWT.
const sample = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1In0.c2lnbmF0dXJl"

// TestObservedShapes checks that the client understands each answer, and reports its shape once.
func TestObservedShapes(t *testing.T) {
	for _, o := range observations {
		portal := newByPath(map[string]func(*http.Request) *http.Response{o.path: always(200, o.body)})
		if o.gap == gapOTPToken {
			portal.serve["/login"] = always(200, `{"token":"pre","user":{"id":"u"},"mfaRequired":true}`)
		}
		var seen []string
		config := testConfig(portal)
		config.TOTPSeed = testSeed
		config.ObserveShape = func(gap, shape string) {
			if gap == o.gap {
				seen = append(seen, shape)
			}
		}
		c := newClient(t, config)
		var err error
		switch o.path {
		case "/instances":
			_, err = c.Instances(t.Context())
		case "/mfa/verify-otp":
			_, err = c.UserID(t.Context())
		case "/jobs/j":
			_, err = c.Job(t.Context(), "j")
		case "/networks":
			_, err = c.CreateNetwork(t.Context(), CreateNetworkRequest{CIDR: "10.0.0.0/24"})
		case "/kubernetes-clusters":
			if _, err = c.FindClusters(t.Context(), "n"); IsUnsupported(err) {
				err = nil
			}
		}
		if err != nil || fmt.Sprint(seen) != "["+o.shape+"]" {
			t.Errorf("%s %s: %q, want %q: %v", o.path, o.body, seen, o.shape, err)
		}
	}
}
