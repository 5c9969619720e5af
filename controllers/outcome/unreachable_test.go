// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "https://" + listener.Addr().String()
	_ = listener.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	causes := map[string]string{
		closed: "refused the connection", strings.Replace(plain.URL, "http:", "https:", 1): "TLS",
		"https://none.invalid": "",
	}
	for _, test := range []struct {
		status     int
		body, says string
	}{
		{401, "", "401"}, {401, `{"kind":"Status","status":"Failure","code":401}`, "401"}, {403, "", "403"}, {404, "page not found", "404"},
		{405, "", "405"}, {302, "", "302"}, {429, "", "429"}, {500, "", "500"}, {503, "<html>", "503"}, {200, "ok", "no token"}, {200, "{}", "no token"},
		{503, `{"error":{"code":"MAINTENANCE","message":"until noon"}}`, "MAINTENANCE"}, // the portal's words about a login are not shown
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		defer server.Close()
		causes[server.URL] = test.says
	}
	var want Outcome
	for base, says := range causes {
		for _, trust := range []bool{true, false} {
			err := ask(t, base, trust)
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

// ask logs in at a server, trusting its certificate or not.
func ask(t *testing.T, base string, trust bool) error {
	t.Helper()
	c, err := cloud.New(cloud.Config{
		BaseURL: base, Email: "a@portal.example", Password: password,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: trust}},
	})
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

// resolve makes every name resolve to the address while the test runs.
func resolve(t *testing.T, address [4]byte) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		resolver, server := net.Pipe() // not a packet connection, so messages have their length in front, as over TCP
		go answer(server, address)
		return resolver, nil
	}}
}

// answer is a DNS server for one question (RFC 1035, section 4): it repeats the question, and adds the address if the question
// asks for an IPv4 address.
func answer(conn net.Conn, address [4]byte) {
	defer conn.Close()
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, message); err != nil {
		return
	}
	const header, ofType, ofClass = 12, 2, 2
	end := header + bytes.IndexByte(message[header:], 0) + 1 + ofType + ofClass
	reply := append(message[:2:2], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	reply = append(reply, message[header:end]...)
	if message[end-ofClass-1] == 1 {
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		reply = append(reply, address[:]...)
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
}

// TestMaintenanceHasARequestID: only the documented error object has an id that is shown. The log has the id of any answer.
func TestMaintenanceHasARequestID(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"code":"MAINTENANCE","message":"until noon","requestId":"r-7"}}`: true,
		`{"error":{"message":"until noon","requestId":"r-7"}}`:                      false,
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_, _ = w.Write([]byte(body))
		}))
		defer server.Close()
		o := FromPortalError(ask(t, server.URL, true))
		if o.Reason != infrav1.PortalUnavailableReason || strings.Contains(o.Message, "(requestId r-7)") != want || strings.Contains(o.Message, "noon") {
			t.Errorf("%s: %s: %s", body, o.Reason, o.Message)
		}
		if line := logged(o); !strings.Contains(line, "(requestId r-7)") {
			t.Errorf("%s: the log has %s", body, line)
		}
	}
}

// TestHostRefusedIsSaid checks the message for a host that the manager may not call: only the administrator of the manager can
// help. The name is in the list, and it resolves to the address of a metadata service.
func TestHostRefusedIsSaid(t *testing.T) {
	hosts, err := cloud.NewHosts("*.local.example")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloud.New(cloud.Config{
		BaseURL: "https://portal.local.example", Email: "a@portal.example", Password: password, Hosts: hosts,
	})
	if err != nil {
		t.Fatal(err)
	}
	resolve(t, [4]byte{169, 254, 169, 254})
	_, err = c.UserID(t.Context())
	o := FromPortalError(err)
	if o.Kind != Stalled || o.Reason != infrav1.IdentityInvalidReason || !strings.Contains(o.Message, "--portal-host") || o.Cause == nil {
		t.Errorf("%+v", o)
	}
}

// TestCausesAreLoggedOnce checks that a cause is logged once, in a pass that has it more than once, and in the passes that recall
// it.
func TestCausesAreLoggedOnce(t *testing.T) {
	down := FromPortalError(&cloud.Error{Status: 503, Endpoint: "GET /vpcs"})
	if got := logged(down, down, Outcome{}, WaitFor(0, "Other", "")); strings.Count(got, "GET /vpcs") != 1 || strings.Contains(got, "\n") {
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
