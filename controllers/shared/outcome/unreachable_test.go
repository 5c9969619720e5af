// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// TestOneMessageForEveryCause checks that a condition does not reveal what runs on a host that is not a portal: the outcome is
// the same for a closed port, a server without TLS, one whose certificate is not trusted, an unknown name, and every HTTP status
// without the portal's own error. Each cause is in the log.
func TestOneMessageForEveryCause(t *testing.T) {
	closed := httptest.NewTLSServer(http.NotFoundHandler())
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	causes := map[string]string{
		closed.URL: "refused the connection", strings.Replace(plain.URL, "http:", "https:", 1): "TLS",
		"https://none.invalid": "",
	}
	for _, test := range []struct {
		status     int
		body, says string
	}{
		{401, `{"kind":"Status","status":"Failure","code":401}`, "401"}, {302, "", "302"}, {429, "", "429"}, {503, "<html>", "503"}, {200, "{}", "no token"},
		{503, `{"error":{"code":"MAINTENANCE","message":"until noon"}}`, "MAINTENANCE"}, // the portal's words about a login are not shown
	} {
		causes[answering(t, test.status, test.body)] = test.says
	}
	var want Outcome
	for base, says := range causes {
		for _, trust := range []bool{true, false} {
			err := ask(t, base, insecure(trust))
			o := FromPortalError(err)
			cause := o.Cause
			o.Cause = nil
			if want.Kind == Done {
				want = o
			}
			if cause == nil || o != want || o.Kind != Wait || o.Reason != infrav1.PortalUnavailableReason {
				t.Errorf("%s: %+v, want what all others have: %+v", base, o, want)
				continue
			}
			if line := logged(o.withCause(cause)); trust && !strings.Contains(line, says) || !strings.Contains(line, `"PortalUnavailable"`) {
				t.Errorf("the log has %s, want %q", line, says)
			}
		}
	}
}

func (o Outcome) withCause(err error) Outcome {
	o.Cause = err
	return o
}

// answering is the URL of a server that answers all requests in this way.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// insecure is a transport that trusts every certificate, or only those of known authorities.
func insecure(trust bool) *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: trust}}
}

// ask logs in at a server that is not a portal.
func ask(t *testing.T, base string, transport http.RoundTripper) error {
	t.Helper()
	c, err := cloud.New(cloud.Config{BaseURL: base, Email: "a@portal.example", Password: password, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UserID(t.Context())
	if err == nil {
		t.Fatalf("%s is a portal", base)
	}
	return err
}

// logged returns what a pass logs of its outcomes.
func logged(outcomes ...Outcome) string {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	Log(ctrl.LoggerInto(context.Background(), log), outcomes...)
	return strings.Join(lines, "\n")
}

// TestMaintenanceHasARequestID: only the documented error object has an id that is shown. The log has the id of any answer.
func TestMaintenanceHasARequestID(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"code":"MAINTENANCE","message":"until noon","requestId":"r-7"}}`: true,
		`{"error":{"message":"until noon","requestId":"r-7"}}`:                      false,
	} {
		o := FromPortalError(ask(t, answering(t, 503, body), insecure(true)))
		if o.Reason != infrav1.PortalUnavailableReason || strings.Contains(o.Message, "(requestId r-7)") != want || strings.Contains(o.Message, "noon") {
			t.Errorf("%s: %s: %s", body, o.Reason, o.Message)
		}
		if line := logged(o); !strings.Contains(line, "(requestId r-7)") {
			t.Errorf("%s: the log has %s", body, line)
		}
	}
}

// forbidden is a transport that may not connect to the address that a host resolved to.
type forbidden struct{}

func (forbidden) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, (&cloud.Hosts{}).CheckServer("", "169.254.169.254")
}

// TestHostRefusedIsSaid checks the message for a host that the manager may not call: only the administrator of the manager can help.
func TestHostRefusedIsSaid(t *testing.T) {
	o := FromPortalError(ask(t, "https://portal.local.example", forbidden{}))
	if o.Kind != Stalled || o.Reason != infrav1.IdentityInvalidReason || !strings.Contains(o.Message, "--portal-host") || o.Cause == nil {
		t.Errorf("%+v", o)
	}
}

// TestCausesAreLoggedOnce checks that a cause is logged once, in a pass that has it more than once, and in the passes that recall
// it.
func TestCausesAreLoggedOnce(t *testing.T) {
	down := FromPortalError(&cloud.Error{Status: 503, Endpoint: "GET /vpcs", RequestID: "r-7"})
	if got := logged(down, down, Outcome{}, WaitFor(0, "Other", "")); strings.Count(got, "GET /vpcs") != 1 || !strings.Contains(got, "r-7") || strings.Contains(got, "\n") {
		t.Errorf("logged %s", got)
	}
	var b Backoff
	if o := b.Refuse("k", "a", down.Prefix("list")); o.Cause == nil || !strings.HasPrefix(o.Message, "list: ") {
		t.Errorf("%+v has nothing to log", o)
	}
	recalled, _ := b.Recall("k", "a")
	if got := logged(recalled); got != "" || recalled.Reason != infrav1.PortalUnavailableReason {
		t.Errorf("logged again: %s", got)
	}
	if o := b.Remember("k", "a", down); o.Cause == nil {
		t.Errorf("%+v has nothing to log", o)
	}
	if o := FromPortalError(errors.New("odd")); o.Cause != nil {
		t.Errorf("%+v logs what its message says", o)
	}
}
